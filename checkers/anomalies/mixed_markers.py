"""Transactions that the brokers' logs end both ways: committed in one partition, aborted in another (KIP-98: atomicity).

The docstring of the check is the definition of its anomaly. No coordinator's log is needed, and no reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fencepost.checkers.api import run_check
from fencepost.checkers.contract.common_occasions import DECIDING
from fencepost.checkers.contract.common_rules import (
    ABORTED_IN_PART,
    COORDINATOR_CUT_OFF,
    MARKERS_CUT_OFF,
    MARKERS_DELETED,
    UNLESS_TRANSACTIONAL,
)
from fencepost.checkers.contract.needs import LOGS, SENDS, Needs
from fencepost.checkers.contract.rules import FORBIDDEN, Rule
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.findings import Finding, FindingRecord
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.logged_decisions import first_markers, producers_of
from fencepost.checkers.pipeline.sent_here import sent_here, sent_rows
from fencepost.checkers.pipeline.stored_findings import finding_rows, judged_by_logs
from fencepost.checkers.pipeline.stored_logs import (
    ABORT,
    COMMIT,
    DATA,
    StoredLogs,
    StoredRows,
    may_be_compacted,
    operations_of,
    stored_logs,
)
from fencepost.checkers.selfcheck.log_damages import TURN_ONE
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.promises import ATOMIC
from fencepost.harness.api.words import enumeration

NO_DECIDED = "no transaction of a client has records with markers behind them in the logs of two partitions"
KEY = ["op", "producer_id", "producer_epoch"]  # of what one transaction of a client wrote in one epoch


@dataclass(frozen=True)
class Mixed:
    """Transactions that are ended both ways.

    compared: how many transactions have markers in two or more partitions.
    rows, op: the first record of each of them in each partition, and its operation.
    markers: (partition, offset) of each of these records -> the offset of its marker, and its kind.
    """

    compared: int
    rows: StoredRows
    op: Ints
    markers: Mapping[tuple[str, int], tuple[int, int]] = field(default_factory=dict)


def mixed_transactions(run: RunView) -> Mixed:
    """The transactions of clients whose records have COMMIT markers behind them in some partitions, and ABORT in others."""
    logs = run.shared(stored_logs)
    assert isinstance(logs, StoredLogs)
    rows, record, op, marker = _decided(run, logs, logs.of_longest)
    table = pd.DataFrame({"op": op, **{name: getattr(rows, name)[record] for name in KEY[1:]}})
    table = table.assign(partition=rows.partition[record], at=record, marker=rows.offset[marker], kind=rows.kind[marker])
    first = table[~_differ(table, [*KEY, "partition"])].drop_duplicates([*KEY, "partition"])
    several = first[first.groupby(KEY, sort=False)["partition"].transform("size") > 1]
    both = several[_differ(several, KEY)]
    both = both[~both["op"].isin(_contradicted(run, logs, both))]
    found = rows.take(both["at"].to_numpy(dtype=np.int64))
    names = [logs.partitions[number] for number in found.partition.tolist()]
    ends = zip(both["marker"].tolist(), both["kind"].tolist(), strict=True)
    markers = dict(zip(zip(names, found.offset.tolist(), strict=True), ends, strict=True))
    return Mixed(len(several.drop_duplicates(KEY)), found, both["op"].to_numpy(dtype=np.int64), markers)


def _differ(table: pd.DataFrame, key: list[str]) -> pd.Series:
    """True for each row whose key has markers of both kinds."""
    kinds = table.groupby(key, sort=False)["kind"]
    return kinds.transform("min") != kinds.transform("max")


def _decided(run: RunView, logs: StoredLogs, rows: StoredRows) -> tuple[StoredRows, Ints, Ints, Ints]:
    """Rows of the logs; of these the records that transactions of clients sent there, in the order of offsets, their operations,
    and the first marker of the producer behind each one. Records without a marker are left out, and so are partitions in which
    one may be gone.
    """
    whole = ~(logs.lacking | np.array(may_be_compacted(run, logs), dtype=np.bool_))
    rows = rows.take(whole[rows.partition] & (rows.producer_id >= 0) & np.isin(rows.kind, (DATA, COMMIT, ABORT)))
    rows = rows.take(np.lexsort((rows.offset, rows.producer_id, rows.node, rows.partition)))
    record = np.flatnonzero((rows.kind == DATA) & rows.transactional & (rows.v >= 0) & sent_rows(run, rows))
    op, marker = operations_of(run, rows.v[record]), first_markers(rows, producers_of(rows))[record]
    known: Bools = (op != NONE) & (marker != NONE)
    known[known] = run.overview.txn[run.overview.at(op[known])]
    return rows, record[known], op[known], marker[known]


def _contradicted(run: RunView, logs: StoredLogs, both: pd.DataFrame) -> Ints:
    """Those of some operations of which another replica has a record ended otherwise: that one has diverged."""
    if both.empty:
        return np.empty(0, dtype=np.int64)
    rows, record, op, marker = _decided(run, logs, logs.distinct)
    own = np.isin(op, both["op"])
    table = pd.DataFrame({"op": op[own], "partition": rows.partition[record[own]], "kind": rows.kind[marker[own]]})
    return np.asarray(table.loc[_differ(table, ["op", "partition"]), "op"], dtype=np.int64)


def _explain(finding: Finding, text: FindingText) -> str:
    markers = text.run.shared(mixed_transactions).markers
    ends = {kind: [row for row in finding.rows if markers[row.partition, row.offset][1] == kind] for kind in (COMMIT, ABORT)}

    def behind(rows: list[FindingRecord]) -> str:
        return enumeration([f"{row.partition}@{markers[row.partition, row.offset][0]}" for row in rows])

    committed, aborted = (f"{text.places(some)} (by the marker at {behind(some)})" for some in (ends[COMMIT], ends[ABORT]))
    how = f"{text.name(finding.rows[0].op)} {text.outcome(finding.rows[0].op)}"
    return f"{how}; the logs have what it wrote to {committed} committed, and what it wrote to {aborted} aborted."


def _judge(run: RunView, logs: StoredLogs) -> CheckResult:
    found = run.shared(mixed_transactions)
    rows: dict[str, Any] = finding_rows(run, logs, found.rows, found.op)
    return CheckResult(found.compared, rows, logs.unless_packed(NO_DECIDED))


@run_check(
    "mixed-markers",
    promise=ATOMIC,
    rules=(
        UNLESS_TRANSACTIONAL,
        MARKERS_DELETED,
        ABORTED_IN_PART,
        *MARKERS_CUT_OFF,
        *COORDINATOR_CUT_OFF,
        Rule(FORBIDDEN, "a transaction is committed in all of its partitions, or aborted in all of them (KIP-98: atomicity)"),
    ),
    evidence=Needs({LOGS, SENDS}, "what is missing of the logs, or who sent it, may have shown it"),
    occasions=DECIDING,
    damages=(TURN_ONE,),
    explain=_explain,
    gather=sent_here,
    across=True,
    needs=NO_DECIDED,
)
def mixed_markers(run: RunView) -> CheckResult:
    """What one transaction of a client wrote is committed in the log of one partition, and aborted in that of another.

    The first marker of its producer id behind a record ends it. Records of one transaction are those that an operation sent with
    one producer id in one epoch: coordinators reuse both for the next one, so that markers alone say nothing of two partitions.
    Neither what a coordinator had decided nor what readers got plays a part: a marker may be wrong (`wrong-marker`), or a late
    EndTxn or a late record divided the transaction (KAFKA-17754), and what was read is a `torn-transaction` too.

    Not compared are records without a marker, those of partitions in which a marker may be gone (compaction, a batch that cannot
    be read, a log that ends below its high watermark), and what replicas end differently. A transaction that is ended both ways
    within a partition is `record-after-marker`'s.

    compared: transactions with markers behind their records in two or more partitions. One cause: the transaction.

    Slow twin: `mixed_markers` in tests/support/logs_reference.py.
    """
    return judged_by_logs(run, _judge)
