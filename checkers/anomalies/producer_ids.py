"""Producer ids in the brokers' logs: each is given once (KIP-98, KIP-360).

The docstring is the definition of the anomaly.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow.dataset as ds

from fencepost.checkers.api import run_check
from fencepost.checkers.contract.common_rules import UNLESS_IDEMPOTENT
from fencepost.checkers.contract.needs import LOGS, SENDS, Needs
from fencepost.checkers.contract.rules import ALLOWED, FORBIDDEN, Rule
from fencepost.checkers.model.arrays import Ints
from fencepost.checkers.model.frames import pd
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
    counts = owners.groupby("producer_id")["owner"].nunique()
    wrong = owners[owners["producer_id"].isin(counts.index[counts > 1])].sort_values(["producer_id", "owner"])
    several = wrong.groupby("producer_id")["owner"].agg(lambda names: enumeration(sorted(set(names))))
    rows = places.take(wrong["at"].to_numpy(dtype=np.int64))
    sentences = [f"Producer id {producer} belongs to {several[producer]}" for producer in wrong["producer_id"].astype(np.int64)]
    return Found(len(counts), rows, sentences, lacking=logs.unless_packed(NO_PRODUCERS))


def _owners(run: RunView, logs: StoredLogs) -> tuple[pd.DataFrame, StoredRows]:
    """Producer ids, each with the words for an owner of it and the position of its first row; and the rows."""
    written, rows, transactional = _writers(run, logs)
    states = run.shared(coordinator_log).states
    given = pd.DataFrame({"producer_id": states.producer_id, "ident": states.ident, "at": np.arange(len(states)) + len(rows)})
    given = given[given["producer_id"] >= 0].drop_duplicates(["producer_id", "ident"])
    given["owner"] = [f"transactional id {states.names[ident]}" for ident in given["ident"]]
    both = joined([rows, replace(states.rows, producer_id=states.producer_id)])
    unnamed = written["transactional_id"].isna()
    several = written["transactional_id"].isin(with_unnamed_producers(states.names, written["transactional_id"]))
    named = written[~unnamed & ~several].assign(owner="transactional id " + written["transactional_id"].astype(str))
    apart = written[unnamed & ~transactional].assign(owner="process " + written["process"].astype(str))
    columns = ["producer_id", "owner", "at"]
    return pd.concat([part[columns] for part in (given, named, apart)]).drop_duplicates(columns[:2]), both


def _writers(run: RunView, logs: StoredLogs) -> tuple[pd.DataFrame, StoredRows, pd.Series]:
    """Processes of this run that wrote with a producer id, the first row of each pair, and whether it was in a transaction.

    A record counts where it was sent to: programs and connectors copy records to other topics, with their identities.
    """
    rows = logs.distinct
    rows = rows.take((rows.kind == DATA) & (rows.v >= 0) & (rows.producer_id >= 0) & sent_rows(run, rows))
    op = operations_of(run, rows.v)
    rows, op = rows.take(op != NONE), op[op != NONE]
    process = run.overview.process[run.overview.at(op)].astype(np.int64) if len(op) else np.empty(0, dtype=np.int64)
    names = _transactional_ids(run, op)
    owner = process * (len(names.categories) + 1) + names.codes
    first = _first_of_pairs(rows.producer_id, owner)
    rows, process, known = rows.take(first), process[first], names[first].astype(object)
    columns = {"producer_id": rows.producer_id, "process": process, "transactional_id": known, "at": np.arange(len(rows))}
    return pd.DataFrame(columns), rows, pd.Series(rows.transactional)


def _first_of_pairs(one: Ints, other: Ints) -> Ints:
    """The position of the first of each pair of values."""
    order = np.lexsort((other, one))
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (np.diff(one[order]) != 0) | (np.diff(other[order]) != 0)
    return order[first]


def _transactional_ids(run: RunView, op: Ints) -> pd.Categorical:
    """The transactional id of each of some operations (history indices), where the history says it."""
    table = run.history.select(("index", "transactional_id"), ds.field("transactional_id").is_valid())
    known = table["transactional_id"].dictionary_encode().to_pandas()
    return pd.Categorical(known.set_axis(table["index"].to_numpy()).reindex(op))


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
