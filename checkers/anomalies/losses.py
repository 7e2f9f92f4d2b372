"""Promised records that are gone (Jepsen's Kafka workload; KIP-966).

The docstring is the definition of the anomaly. What is forbidden under which settings: `checkers.verdict.rules`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from fencepost.checkers.api import partition_check
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.results import CheckResult, join_rows
from fencepost.checkers.model.values import INFO, NONE
from fencepost.checkers.pipeline.instances import fenced_commits
from fencepost.checkers.views.false_acks import HIDDEN, SHOWN, false_ack_rows, falsely_acknowledged
from fencepost.checkers.views.final_witness import final_witness
from fencepost.checkers.views.log import PartitionLog
from fencepost.checkers.views.result_rows import send_rows
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.undecided import PROOF, UNREAD, passed_in_time, undecided_rows
from fencepost.checkers.views.versions import stretch_numbers
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.words import and_more


def _explain_lost(finding: Finding, text: FindingText) -> str:
    lost = finding.records("missing")
    writers = sorted({record.op for record in lost})
    places = text.places(lost)
    how = text.how_missing(lost[0].partition, len(lost))
    if len(writers) > 1:
        return (
            f"{len(lost):,} records of {len(writers):,} operations, next to each other in {lost[0].partition} ({places}), "
            f"were acknowledged, and {how}."
        )
    writer, elsewhere = text.name(writers[0]), text.read_elsewhere(finding)
    record = "the record" if len(lost) == 1 else f"the {len(lost)} records"
    outcome = text.outcome(writers[0]) if text.transactional(writers[0]) else "was acknowledged"
    return f"{writer} {outcome}{text.proven(writers[0])}{elsewhere}, but {record} it wrote to {places} {how}."


def _resolve_lost(rows: pd.DataFrame, run: RunView) -> pd.DataFrame:
    """Keep what is surely lost: promises, and the missing records of undecided transactions that prove to be committed.

    An undecided transaction emits a row for each of its records in every partition, so that its proof is found wherever it is
    (`checkers.views.undecided`). Of its records that nobody got, those that nobody had to get stay unread: they are counted.
    Misplaced records are not lost: `wrong-partition` has them. What was never committed is not lost: `false-ack` has it.
    """
    uncommitted = falsely_acknowledged(rows, run, run.shared(fenced_commits))
    rows = rows[~rows["op"].isin(uncommitted) & ~rows["role"].isin((HIDDEN, SHOWN))]
    undecided = run.status(rows["op"].to_numpy()) == INFO
    undecided &= run.transactional(rows["op"].to_numpy())
    rows = passed_in_time(rows)
    committed = ~undecided | rows["op"].isin(rows.loc[rows["role"] == PROOF, "op"])
    judged, there = committed & (rows["role"] != UNREAD), ~rows["v"].isin(run.misplaced)
    kept = rows[judged & (rows["role"] == "missing") & there]
    kept.attrs["compared"] = int((undecided & judged).sum())
    kept.attrs["unread"] = int((committed & ~judged & there).sum())
    return kept


@partition_check(
    "lost-write", resolve=_resolve_lost, explain=_explain_lost, needs="no record was promised (acknowledged or committed)"
)
def lost_write(log: PartitionLog) -> CheckResult:
    """A promised record that a completed final read did not return.

    Promised: every record of a transaction whose commit returned ok; an acknowledged record outside transactions; an
    acknowledged record of an undecided transaction of which a read_committed reader got some record (any record when the
    operation has no completion at all: commit follows only after every acknowledgement), unless commit was never called
    (`dirty-read`). The final read is the completed read_committed one, else the completed read_uncommitted one (which sees more).
    Without either, only what lies below a record that somebody got, and was read by nobody at all, is lost: the tail may simply
    be unpolled. It lies below by its offset, or, where that is unknown, because the other record was sent later: after the
    acknowledgement or the end of the operation, or after a read_committed reader got any record of the transaction (its marker
    follows all of its records).
    Where the history does not tell what some poll returned, it must also lie between two consecutive reads of one
    consumer, or between the partition's start and the first read after it: that poll may have got the record, and no other.
    In a partition whose last stable offset is stuck, a record above it is hidden: lost only if read_uncommitted misses it too.
    Where nobody looked at that offset, and no read_uncommitted final read was complete, what was acknowledged above the end of
    the read_committed one is hidden or lost: unknown.
    A record whose offset holds an older one of the same producer is `swallowed-write`'s. A transaction that was never committed,
    though commit returned ok, is `false-ack`'s.

    compared: promised records that were returned, or had to be. One cause: neighbours in the version order, no survivor between.

    Example::

        ms   process  operation   t-0            outcome
        0-1  1        txn         send a@5       committed
        2-3  1        txn         send b@7       committed
        4-5  2        txn         send c@8       aborted
        6-7  2        txn         send d@9       committed
        8-9  3        final read  read a@5, d@9

    Found: missing b@7. The transaction of c was aborted and promised nothing.

    Slow twin: `lost_writes` in tests/support/reference.py.
    """
    judged, returned, lacking = final_witness(log)
    lost = log.promised & judged & ~returned & ~log.swallowed
    undecided = log.sends.txn & (log.sends.status == INFO) & ~log.uncalled
    rows = [
        send_rows(log, lost, _neighbours(log, lost, returned), "missing"),
        *false_ack_rows(log, lost),
        *undecided_rows(log, undecided, (log.acked | ~log.sends.finished) & ~log.swallowed, judged, returned),
    ]
    return CheckResult(int((log.promised & judged).sum()), join_rows(*rows), lacking, unknown=_perhaps_hidden(log))


def _perhaps_hidden(log: PartitionLog) -> str:
    """Why nothing is known of some promises, in words: they lie above the end of a final read that may have been a stable one."""
    if not log.final.unsettled:
        return ""
    above = np.unique(log.place[log.promised & ~log.covered & ~log.swallowed])
    if not len(above):
        return ""
    more = and_more(len(above) - 1)
    return (
        f"the read_committed final read of {log.partition} ended at offset {log.final.reach}, and nobody knows whether the last "
        f"stable offset was below the high watermark there: {log.partition}@{above[0]}{more}, acknowledged above it, may be "
        "hidden by an open transaction, or lost"
    )


def _neighbours(log: PartitionLog, lost: Bools, survivors: Bools) -> Ints:
    """A number for each send: lost ones with no survivor between them in the version order share it.

    A survivor *at* the place of a lost record parts nothing: after a truncation the offsets are given away again. Lost records
    of unknown place go together by operation: numbers from -2 downwards, which no stretch of places has.
    """
    if not lost.any():
        return log.place
    surviving = np.sort(log.place[survivors & (log.place != NONE)])
    places = np.unique(log.place[lost & (log.place != NONE)])
    return np.where(log.place == NONE, -2 - log.sends.op, stretch_numbers(places, surviving, log.place))
