"""Promised records that are gone (Jepsen's Kafka workload; KIP-966).

The docstring is the definition of the anomaly.
"""

from __future__ import annotations

import numpy as np

from fencepost.checkers.api import partition_check
from fencepost.checkers.contract.common_occasions import LEADERS
from fencepost.checkers.contract.common_rules import COMPACTED, HIDDEN_IN_PART, RETAINED, UNLESS_PRODUCER, cut_off
from fencepost.checkers.contract.needs import FINAL, LEVELS, OUTCOMES, SENDS, Needs
from fencepost.checkers.contract.rules import ALLOWED, FORBIDDEN, READS, Rule
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import NO_ROWS, CheckResult, Rows, Sifted, count_rows, has_role, join_rows, rows_where
from fencepost.checkers.model.values import INFO, NONE
from fencepost.checkers.pipeline.logged_decisions import falsely_acknowledged
from fencepost.checkers.selfcheck.record_damages import GARBLE, HIDE, LOSE, TRUNCATE
from fencepost.checkers.selfcheck.transaction_damages import TEAR
from fencepost.checkers.views.false_acks import HIDDEN, SHOWN, false_ack_rows
from fencepost.checkers.views.final_witness import final_witness
from fencepost.checkers.views.log import PartitionLog
from fencepost.checkers.views.result_rows import send_rows
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.undecided import PROOF, UNACKNOWLEDGED, UNREAD, passed_in_time, undecided_rows
from fencepost.checkers.views.versions import stretch_numbers
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.promises import ACKNOWLEDGED
from fencepost.harness.api.words import and_more


def got_before(finding: Finding, reads: pd.DataFrame) -> bool:
    """True if somebody got a record that is missing now."""
    return bool(reads["v"].isin({row.v for row in finding.records("missing")}).any())


def _explain_lost(finding: Finding, text: FindingText) -> str:
    lost = finding.records("missing")
    writers = sorted({record.op for record in lost})
    places = text.places(lost)
    how = text.how_missing(lost[0].partition, len(lost))
    if len(writers) > 1:
        return (
            f"{len(lost):,} records of {len(writers):,} operations, next to each other in {lost[0].partition} ({places}), "
            f"were {'committed' if text.by_logs(writers) else 'acknowledged'}, and {how}."
        )
    writer, elsewhere = text.name(writers[0]), text.read_elsewhere(finding)
    record = "the record" if len(lost) == 1 else f"the {len(lost)} records"
    outcome = text.outcome(writers[0]) if text.transactional(writers[0]) else "was acknowledged"
    return f"{writer} {outcome}{text.proven(writers[0])}{elsewhere}, but {record} it wrote to {places} {how}."


def _sift_lost(rows: Rows, run: RunView) -> Sifted:
    """Keep what is surely lost: promises, and the missing records of undecided transactions that prove to be committed.

    An undecided transaction emits a row for each of its records in every partition, so that its proof is found wherever it is
    (`checkers.views.undecided`). Of its records that nobody got, those that nobody had to get stay unread: they are counted, also
    those without acknowledgement, since commit follows every acknowledgement.
    Misplaced records are not lost: `wrong-partition` has them. What was never committed is not lost: `false-ack` has it.
    """
    uncommitted = falsely_acknowledged(rows, run)
    rows = passed_in_time(rows_where(rows, ~np.isin(rows["op"], uncommitted) & ~has_role(rows, HIDDEN, SHOWN)))
    if not count_rows(rows):
        return Sifted(NO_ROWS)
    ops = rows["op"]
    undecided = (run.status(ops) == INFO) & run.transactional(ops)
    committed = ~undecided | np.isin(ops, ops[has_role(rows, PROOF)])
    judged, there = committed & ~has_role(rows, UNREAD, UNACKNOWLEDGED), ~np.isin(rows["v"], list(run.misplaced))
    lost = rows_where(rows, judged & has_role(rows, "missing") & there)
    return Sifted(lost, int((undecided & judged).sum()), int((committed & ~judged & there).sum()))


@partition_check(
    "lost-write",
    together=True,
    occasions=LEADERS,
    promise=ACKNOWLEDGED,
    consequences=("inconsistent-offset", "stale-read"),  # a truncated record's offset is given away again
    rules=(
        UNLESS_PRODUCER,
        COMPACTED,
        RETAINED,
        Rule(
            ALLOWED, "acks=0 acknowledges what no broker has seen; what readers got binds (KIP-101)", {"acks": "0"}, unless=READS
        ),
        Rule(
            ALLOWED,
            "acks=1 acknowledges before any follower has the record, and a new leader may not have it; what readers got is on "
            "all replicas in sync (KIP-101), and binds",
            {"acks": "1"},
            unless=READS,
        ),
        *cut_off("acknowledged records may be lost"),
        HIDDEN_IN_PART,
        Rule(
            FORBIDDEN,
            "acks=all waits for every in-sync replica; with min.insync.replicas=1 that may be the leader alone, but only an "
            "in-sync replica may lead next, and the page cache survives kills, pauses and partitions (KIP-106, KIP-966)",
            {"min_insync_replicas": "1"},
            essential=True,
        ),
        Rule(
            FORBIDDEN,
            "acks=all: what is acknowledged is on every in-sync replica, and only those may lead (KIP-966)",
            essential=True,
        ),
    ),
    evidence=Needs(
        {SENDS, OUTCOMES, *FINAL, LEVELS},
        "promises that are missing were compared with nothing, and without a whole final read nobody knows what the log holds",
        {*FINAL, LEVELS},
        "the final read may have returned in a missing line what seems to be lost",
    ),
    shown_by=got_before,
    damages=(
        LOSE,
        HIDE,
        TEAR,
        TRUNCATE,
        GARBLE,
    ),
    sift=_sift_lost,
    explain=_explain_lost,
    needs="no record was promised (acknowledged or committed)",
)
def lost_write(log: PartitionLog) -> CheckResult:
    """A promised record that a completed final read did not return.

    Promised are

    1. every record of a transaction whose commit returned ok, or that the brokers' logs have committed, whatever its client
       learned (`checkers.pipeline.logged_decisions`);
    2. an acknowledged record outside transactions;
    3. an acknowledged record of an undecided transaction of which a read_committed reader got some record, unless commit was
       never called (`dirty-read`); any record where the operation has no completion, since commit follows every acknowledgement.

    The final read is the completed read_committed one, else the completed read_uncommitted one, which sees more. Lost is

    1. with a final read, what it did not return. Above a last stable offset that is stuck a record is hidden: it is lost only if
       read_uncommitted misses it too, and unknown where nobody looked at that offset or completed a read at that level.
    2. without one, what nobody read, and lies below a record that somebody got; what lies above may be unpolled. Below means at a
       lower offset, or, where that is unknown, sent before the other: it was acknowledged, its operation had ended, or a
       read_committed reader had got a record of its transaction, whose marker follows all of its records.
    3. where the result of some poll is unknown, what besides that poll surely did not return (it had ended before the record was
       sent, or its consumer had come past it), or lies in a stretch over which consumers surely read on, from one record to the
       next, or from the partition's start: that poll may have got the record, and no other.

    Without a final read, promises that nobody got and that are not lost by this are counted: the verdict is unknown then.
    A record of a proven transaction counts also without an acknowledgement, since commit follows every acknowledgement; that it
    is missing is `torn-transaction`'s.

    Not lost: a record whose offset holds an older one of the same producer (`swallowed-write`), and what was never committed
    though commit returned ok (`false-ack`).

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
    """Words for why nothing is known of some promises: they lie above the end of a final read that may have been a stable one."""
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
