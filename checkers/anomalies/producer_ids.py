"""Producer ids in the brokers' logs: each is given once (KIP-98, KIP-360).

The docstring is the definition of the anomaly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from fencepost.checkers.api import run_check
from fencepost.checkers.contract.common_rules import UNLESS_IDEMPOTENT
from fencepost.checkers.contract.needs import LOGS, SENDS, Needs
from fencepost.checkers.contract.rules import ALLOWED, FORBIDDEN, Rule
from fencepost.checkers.model.arrays import Ints
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.coordinator_log import coordinator_log
from fencepost.checkers.pipeline.producer_pools import with_unnamed_producers
from fencepost.checkers.pipeline.sent_here import sent_here, sent_rows
from fencepost.checkers.pipeline.stored_findings import Found, explained_by, found_by
from fencepost.checkers.pipeline.stored_logs import DATA, StoredLogs, StoredRows, joined, operations_of, stored_logs
from fencepost.checkers.selfcheck.log_damages import MERGE
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api.occasions import Occasion
from fencepost.harness.api.promises import FENCED
from fencepost.harness.api.words import enumeration

NO_PRODUCERS = "no log has a record of an idempotent producer of this run"


def shared_ids(run: RunView) -> Found:
    """The first record of each owner of a producer id that has another one."""
    logs = run.shared(stored_logs)
    assert isinstance(logs, StoredLogs)
    owners, places = _owners(run, logs)
    wrong = {producer: dict(sorted(owners[producer].items())) for producer in sorted(owners) if len(owners[producer]) > 1}
    rows = places.take(np.array([at for first in wrong.values() for at in first.values()], dtype=np.int64))
    sentences = [f"Producer id {producer} belongs to {enumeration([*first])}" for producer, first in wrong.items() for _ in first]
    return Found(len(owners), rows, sentences, lacking=logs.unless_packed(NO_PRODUCERS))


def _owners(run: RunView, logs: StoredLogs) -> tuple[dict[int, dict[str, int]], StoredRows]:
    """Producer ids, each with the words for its owners and the position of the first row of each; and the rows."""
    owners: dict[int, dict[str, int]] = {}
    written, rows = _writers(run, logs)
    states = run.shared(coordinator_log).states
    given = np.flatnonzero(states.producer_id >= 0)
    given = given[_first_of_pairs(states.producer_id[given], states.ident[given])]
    for at, producer, ident in zip(given.tolist(), states.producer_id[given].tolist(), states.ident[given].tolist(), strict=True):
        owners.setdefault(producer, {}).setdefault(f"transactional id {states.names[ident]}", at + len(rows))
    several = with_unnamed_producers(states.names, [writer.transactional_id for writer in written])
    for at, writer in enumerate(written):
        if writer.transactional_id is not None and writer.transactional_id not in several:
            owners.setdefault(writer.producer_id, {}).setdefault(f"transactional id {writer.transactional_id}", at)
        elif writer.transactional_id is None and not writer.transactional:
            owners.setdefault(writer.producer_id, {}).setdefault(f"process {writer.process}", at)
    return owners, joined([rows, replace(states.rows, producer_id=states.producer_id)])


class _Writer(NamedTuple):
    """A process of this run, and a producer id that it wrote with; whether its first record with that was in a transaction."""

    producer_id: int
    process: int
    transactional_id: str | None
    transactional: bool


def _writers(run: RunView, logs: StoredLogs) -> tuple[list[_Writer], StoredRows]:
    """Processes of this run that wrote with a producer id, and the first row of each pair.

    A record counts where it was sent to: programs and connectors copy records to other topics, with their identities.
    """
    rows = logs.distinct
    rows = rows.take((rows.kind == DATA) & (rows.v >= 0) & (rows.producer_id >= 0) & sent_rows(run, rows))
    op = operations_of(run, rows.v)
    rows, op = rows.take(op != NONE), op[op != NONE]
    process = run.overview.process[run.overview.at(op)].astype(np.int64) if len(op) else np.empty(0, dtype=np.int64)
    names, codes = _transactional_ids(run, op)
    first = _first_of_pairs(rows.producer_id, process * (len(names) + 1) + codes)
    rows = rows.take(first)
    ids = [None if code == NONE else names[code] for code in codes[first].tolist()]
    columns = (rows.producer_id.tolist(), process[first].tolist(), ids, rows.transactional.tolist())
    return [_Writer(*values) for values in zip(*columns, strict=True)], rows


def _first_of_pairs(one: Ints, other: Ints) -> Ints:
    """The position of the first of each pair of values."""
    order = np.lexsort((other, one))
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (np.diff(one[order]) != 0) | (np.diff(other[order]) != 0)
    return order[first]


def _transactional_ids(run: RunView, op: Ints) -> tuple[list[str], Ints]:
    """Transactional ids, and the position among them of that of each of some operations (history indices); NONE: not said."""
    table = run.history.select(("index", "transactional_id"), ds.field("transactional_id").is_valid())
    coded = table["transactional_id"].cast(pa.string()).combine_chunks().dictionary_encode()
    index, codes = table["index"].to_numpy(), coded.indices.to_numpy().astype(np.int64)
    if not len(index):
        return [], np.full(len(op), NONE, dtype=np.int64)
    order = np.argsort(index, kind="stable")
    at = order[np.minimum(np.searchsorted(index[order], op), len(index) - 1)]
    return coded.dictionary.to_pylist(), np.where(index[at] == op, codes[at], NONE)


@run_check(
    "producer-id-reuse",
    promise=FENCED,
    rules=(
        UNLESS_IDEMPOTENT,
        Rule(
            ALLOWED,
            "a power failure of all controllers may take the last blocks of producer ids back, and they are given again",
            {"power_failures": "all replicas"},
        ),
        Rule(FORBIDDEN, "a producer id is given to one transactional id, or to one producer without (KIP-98)"),
    ),
    evidence=Needs({LOGS, SENDS}, "who is missing may have had the same producer id"),
    occasions=(Occasion.PRODUCER_FENCED, Occasion.COORDINATOR_MOVED, Occasion.SERVER_STRUCK),
    damages=(MERGE,),
    explain=explained_by(shared_ids),
    gather=sent_here,
    across=True,
    needs=NO_PRODUCERS,
)
def producer_id_reuse(run: RunView) -> CheckResult:
    """One producer id belongs to two transactional ids, or to two producers of which one has no transactional id.

    Whose it is say the coordinators' log (`__transaction_state`), and the records: by their identity the process that sent
    them, and with it its transactional id. Epochs play no part: also at equal ones it is another producer. Instances of one
    transactional id share its producer ids lawfully.

    compared: producer ids with an owner. One cause: the producer id.
    """
    return found_by(shared_ids)(run)
