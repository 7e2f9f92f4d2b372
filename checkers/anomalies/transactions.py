"""Transactions that show what they must not: aborted, too early, or in part (Adya G1a, G1b; KIP-98; KAFKA-17754).

Each docstring is the definition of its anomaly.
"""

from __future__ import annotations

import numpy as np

from fencepost.checkers.api import partition_check
from fencepost.checkers.contract.common_rules import (
    COMPACTED,
    COORDINATOR_CUT_OFF,
    G1,
    HIDDEN_IN_PART,
    RETAINED,
    UNLESS_PRODUCER,
    UNLESS_TRANSACTIONAL,
    cut_off,
)
from fencepost.checkers.contract.needs import (
    ANYBODY,
    ANYBODY_OR_WHEN,
    DECISIONS,
    FINAL_COMMITTED,
    LEVELS,
    OUTCOMES,
    POLLS,
    SENDS,
    UNCOMMITTED_READER,
    Needs,
)
from fencepost.checkers.contract.rules import FORBIDDEN, Rule
from fencepost.checkers.graph.layers import READ_CYCLES
from fencepost.checkers.model.arrays import Bools, with_false
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import NO_ROWS, CheckResult, Rows, Sifted, count_rows, has_role, join_rows, rows_where
from fencepost.checkers.model.values import ABORTED, COMMITTED, FOREVER, INFO, NONE
from fencepost.checkers.pipeline.logged_decisions import decided_in_logs
from fencepost.checkers.selfcheck.transaction_damages import READ_EARLY, READ_OWN, SHOW_ABORTED, SHOW_HALF, TEAR
from fencepost.checkers.views.final_witness import final_witness
from fencepost.checkers.views.log import PartitionLog, slices
from fencepost.checkers.views.result_rows import reads_with_writers, send_rows
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.undecided import passed_in_time, tried, undecided_rows
from fencepost.checkers.views.wording import FindingText, apart
from fencepost.harness.api.occasions import Occasion
from fencepost.harness.api.promises import ATOMIC, ISOLATED

OF_MARKERS = ("mixed-markers", "record-after-marker", "wrong-marker")  # what a torn transaction leaves in the logs
_ATOMIC = "a transaction's records become visible together or not at all (KIP-98: atomicity)"

SWALLOWED = "swallowed"  # role of rows between the two steps of `torn-transaction`


# --------------------------------------------------------------------------------------------------
# aborted-read
# --------------------------------------------------------------------------------------------------
def _explain_aborted(finding: Finding, text: FindingText) -> str:
    writer, reader = finding.records("sent")[0], finding.records("read")[0]
    return (
        f"{text.name(writer.op)} {text.outcome(writer.op)}, yet {text.name(reader.op, capital=False)} "
        f"read its record at {reader.place}{text.first_of(finding.records('read'), 'reads')}."
    )


@partition_check(
    "aborted-read",
    together=True,
    occasions=(Occasion.TRANSACTION_ABORTED,),
    promise=ISOLATED,
    consequences=READ_CYCLES,
    rules=(
        UNLESS_PRODUCER,
        Rule(FORBIDDEN, "what surely failed outside transactions was never appended", {"transactional": "!true"}),
        *cut_off("the producer's next marker decides records whose own ABORT marker is gone", transactional="true"),
        Rule(FORBIDDEN, G1),
    ),
    evidence=Needs({SENDS, OUTCOMES, POLLS, FINAL_COMMITTED}, ANYBODY, {LEVELS}, UNCOMMITTED_READER),
    damages=(
        SHOW_ABORTED,
        SHOW_HALF,
    ),
    across=True,
    explain=_explain_aborted,
    needs="nothing that failed was sent to a partition that was read (at read_committed, if in a transaction)",
)
def aborted_read(log: PartitionLog) -> CheckResult:
    """G1a: a record of a transaction that surely failed was returned to a reader judged by read_committed.

    Outside transactions: an unacknowledged record of an operation that surely failed was returned to anybody. What became of the
    operation that polled it does not matter: a polled record is evidence.

    compared: records of failed operations that such a reader could have got: it read up to their place or beyond, in a poll that
    ended after they were sent, or made a complete final read. One cause: the failed operation.

    Example::

        ms   process  operation  t-0                 outcome
        0-1  1        txn        send a@5            aborted
        2-3  1        txn        send b@7            committed
        4-5  2        txn        send c@9            unknown
        6-7  3        poll       read a@5, b@7, c@9

    Found: sent a@5 and read a@5. Nobody knows of c that it was aborted.

    Slow twin: `aborted_reads` in tests/support/reference.py.
    """
    failed, txn = log.sends.status == ABORTED, log.sends.txn
    aborted, refused = failed & txn, failed & ~txn & ~log.acked  # masks over the sends
    everybody, finally_read = np.ones(len(log.reads), dtype=np.bool_), bool(log.final.committed or log.final.uncommitted)
    compared = int((aborted & log.covered).sum()) + _within_reach(log, aborted & ~log.covered, log.reads.judged)
    compared += int(refused.sum()) if finally_read else _within_reach(log, refused, everybody)
    shown = ~log.unsent_reads  # a mask over the reads: those with a send; at the end, of these, those of failed operations
    writer = log.reads.send[shown]
    shown[shown] = (aborted[writer] & log.reads.judged[shown]) | refused[writer]
    return reads_with_writers(log, shown, compared)


def _within_reach(log: PartitionLog, sends: Bools, reads: Bools) -> int:
    """The number of some sends that some reads could have returned: by time, and by place where that is known.

    Reads are sorted by offset, so what was returned last at or above a place is a running maximum from the highest offset down.
    """
    if not sends.any() or not reads.any():
        return 0
    offset, ended = log.reads.offset[reads], log.reads.ended[reads]
    last = np.maximum.accumulate(np.where(ended == NONE, FOREVER, ended)[::-1])[::-1]
    place = log.place[sends]
    at = np.where(place == NONE, 0, np.searchsorted(offset, place))
    return int((np.r_[last, NONE][at] >= np.maximum(log.sends.began[sends], 0)).sum())


# --------------------------------------------------------------------------------------------------
# dirty-read
# --------------------------------------------------------------------------------------------------
def _explain_dirty(finding: Finding, text: FindingText) -> str:
    writer, reader = finding.records("sent")[0], finding.records("read")[0]
    where = f"{reader.place}{text.first_of(finding.records('read'), 'reads')}"
    if writer.op == reader.op:
        return f"{text.name(writer.op)} polled its own record at {where} before it was decided."
    got = f"{text.name(reader.op)} read {where} of {text.name(writer.op, capital=False)}"
    if reader.time < writer.time:
        return f"{got} before it was sent."
    if text.decided(writer.op) == NONE:
        return f"{got}, for which commit was never called."
    return f"{got}, {apart(text.decided(writer.op) - reader.time)} its commit was called."


@partition_check(
    "dirty-read",
    together=True,
    promise=ISOLATED,
    # what was read too early and then aborted is never returned to others
    consequences=("poll-skip", "int-poll-skip", "stale-read", "lso-overrun", *READ_CYCLES),
    rules=(
        UNLESS_PRODUCER,
        *COORDINATOR_CUT_OFF,
        Rule(FORBIDDEN, "nobody gets a record before it is sent", {"transactional": "!true"}),
        Rule(FORBIDDEN, G1),
    ),
    evidence=Needs({SENDS, OUTCOMES, POLLS, FINAL_COMMITTED, DECISIONS}, ANYBODY_OR_WHEN, {LEVELS}, UNCOMMITTED_READER),
    damages=(
        READ_EARLY,
        READ_OWN,
    ),
    across=True,
    explain=_explain_dirty,
    needs="no record was read whose sending has a known time",
)
def dirty_read(log: PartitionLog) -> CheckResult:
    """A record returned to a reader judged by read_committed before its transaction was decided, or to the one that wrote it;
    and one returned to anybody before it was sent at all, in a transaction or not.

    Decided is when commit was first called. A completed transaction of unknown outcome for which commit was never called is not
    decided at all, nor is one that was to abort; of another one without completion (its worker was killed) the time is
    unknown and proves nothing. Records of failed operations belong to `aborted-read`, as far as it judges them.

    compared: reads of records of which it is known when they were sent, or decided; of operations that did not fail. One cause:
    the writing operation.

    Example::

        ms     process  operation  t-0            outcome
        0-9    1        txn        send a@5       committed
        2-3    2        poll       read a@5
        4-5    3        txn        send b@6       committed
        6-7    2        poll       read b@6
        10-11  4        poll       read a@5, b@6

    Found: sent a@5 and read a@5 at 3 ms, before commit was called at 9 ms.

    Slow twin: `dirty_reads` in tests/support/reference.py.
    """
    if not _may_be_dirty(log):
        return CheckResult(_reads_of(log, log.sends.status != ABORTED))
    dirty, compared = np.zeros(len(log.reads), dtype=np.bool_), 0
    for part in slices(len(log.reads)):
        dirty[part], count = _dirty(log, part)
        compared += count
    return reads_with_writers(log, dirty, compared, time=log.sends.began)


def _may_be_dirty(log: PartitionLog) -> bool:
    """False where the sends alone show that no read is dirty, and that each read of one that did not fail was compared."""
    sends = log.sends
    decided = np.where(sends.txn, np.maximum(sends.decided, sends.began), sends.began)
    odd = (sends.began == NONE) | (log.first_returned < decided) | (log.uncalled & log.seen)
    odd = np.where(sends.status != ABORTED, odd, (sends.txn | log.acked) & (log.first_returned < sends.began))
    return bool(log.by_senders.any() or odd.any())


def _reads_of(log: PartitionLog, which: Bools) -> int:
    """The number of reads of some sends."""
    wanted = with_false(which)  # `send` is NONE for records of nobody, and so looks up the last entry
    return sum(int(np.count_nonzero(wanted[log.reads.send[part]])) for part in slices(len(log.reads)))


def _dirty(log: PartitionLog, part: slice) -> tuple[Bools, int]:
    """True for each of some reads that is dirty, and how many were compared."""
    sends, dirty = log.sends, ~log.unsent_reads[part]  # those that `aborted-read` does not judge; at the end the dirty ones
    writer, judged = log.reads.send[part][dirty], log.reads.judged[part][dirty]
    dirty[dirty] &= (sends.status[writer] != ABORTED) | np.where(sends.txn[writer], ~judged, log.acked[writer])
    writer = log.reads.send[part][dirty]  # from here on arrays have an entry for each read in the mask
    failed = sends.status[writer] == ABORTED
    ended, began = log.reads.ended[part][dirty], sends.began[writer]
    judged = log.reads.judged[part][dirty] & sends.txn[writer]
    undecided, own = judged & log.uncalled[writer], judged & (sends.op[writer] == log.reads.op[part][dirty])
    earliest = np.where(judged, np.maximum(sends.decided[writer], began), began)
    early = (earliest != NONE) & (ended != NONE) & (ended < earliest)
    dirty[dirty] = early | undecided | own
    return dirty, int((((earliest != NONE) | undecided | own) & ~failed).sum())


# --------------------------------------------------------------------------------------------------
# torn-transaction
# --------------------------------------------------------------------------------------------------
def _explain_torn(finding: Finding, text: FindingText) -> str:
    seen, missing = finding.records("read"), finding.records("missing")
    return (
        f"{text.name(missing[0].op)} {text.outcome(missing[0].op)}; its {text.records_at(seen, 'was', 'were')} read, "
        f"but {text.written(missing)} {text.how_missing(missing[0].partition, len(missing))}."
    )


def _sift_torn(rows: Rows, run: RunView) -> Sifted:
    """Drop operations of unknown outcome of which only one side was reported: of these every covered record is.

    SWALLOWED rows stay beside those that may be torn.
    """
    passed = passed_in_time(rows)
    passed = rows_where(passed, has_role(passed, "read", "missing")) if count_rows(passed) else NO_ROWS
    if not count_rows(passed):
        return Sifted(NO_ROWS)
    ops = passed["op"]
    both = np.intersect1d(ops[has_role(passed, "read")], ops[has_role(passed, "missing")])
    suspicious = rows_where(passed, np.isin(ops, both) | (run.status(ops) != INFO))
    if not count_rows(suspicious):
        return Sifted(NO_ROWS)
    swallowed = rows_where(rows, has_role(rows, SWALLOWED))
    return Sifted(join_rows(dict(suspicious), dict(swallowed)) if swallowed else suspicious)


def _resolve_torn(rows: pd.DataFrame, run: RunView) -> pd.DataFrame:
    """Put the suspicious transactions together over all partitions; keep those with records on both sides.

    Exact although partitions report little: a covered partition that reports no missing record of an ok transaction returned all
    of them, and one that reports nothing seen of a failed transaction returned none. So the sends of the suspicious operations
    (read again from the history, these few only) fill in what was left out. Where no complete final read covers a partition, what
    it did not report of an ok transaction is looked up among all reads. A swallowed record is none of its records: that is
    `swallowed-write`'s. What the logs have aborted is missing by right, and what of it was read is `aborted-read`'s.
    """
    swallowed = rows.loc[rows["role"] == SWALLOWED, "v"]
    rows = rows[rows["role"] != SWALLOWED]
    reported = rows.drop_duplicates("v").set_index("v")["role"]
    sends = run.sends_of(rows["op"].unique())
    sends = sends[~sends["v"].isin(swallowed)]
    status = pd.Series(run.status(sends["op"].to_numpy()), index=sends.index)
    covered = run.covered(sends["partition"], sends["offset"].to_numpy())
    silent = status.map({COMMITTED: "read", ABORTED: "missing", INFO: ""}).where(covered, "")
    read_back = sends["partition"].isin([name for name, final in run.overview.final_reads.items() if final.committed])
    doubtful = sends[~read_back & (status == COMMITTED) & ~sends["v"].isin(reported.index)]
    silent[doubtful.index[run.got_at_read_committed(doubtful)]] = "read"
    role = sends["v"].map(reported).fillna(silent)
    tried = (sends["began"] != NONE) | (status == COMMITTED) | ~run.finished(sends["op"].to_numpy())
    missed = tried & ~sends["v"].isin(run.misplaced)
    whole = sends.assign(role=role, cause=sends["op"], time=sends["ended"].where(sends["ended"] != NONE, sends["began"]))
    whole = whole[(role == "read") | ((role == "missing") & missed)]
    sides = whole.groupby("op")["role"].nunique()
    torn = sides.index[sides > 1].to_numpy()
    failed = torn[run.status(torn) == ABORTED]
    return whole[whole["op"].isin(np.setdiff1d(torn, decided_in_logs(run, failed).aborted))]


@partition_check(
    "torn-transaction",
    together=True,
    occasions=(
        Occasion.CLIENT_DIED,
        Occasion.COMMIT_UNANSWERED,
        Occasion.COORDINATOR_MOVED,
        Occasion.LEADER_MOVED,
        Occasion.SERVER_STRUCK,
    ),
    promise=ATOMIC,
    consequences=("lost-write", "false-ack", "aborted-read", "dirty-read", "stale-read", *OF_MARKERS, *READ_CYCLES),
    rules=(
        UNLESS_PRODUCER,
        UNLESS_TRANSACTIONAL,
        COMPACTED,
        RETAINED,
        *cut_off("of a transaction over several partitions one may lose records, or the marker that shows them"),
        HIDDEN_IN_PART,
        Rule(FORBIDDEN, _ATOMIC, {"final_read": "false"}),
        Rule(FORBIDDEN, _ATOMIC, essential=True),
    ),
    evidence=Needs(
        {SENDS, OUTCOMES, FINAL_COMMITTED, LEVELS},
        "transactions that are missing were compared with nothing, and nobody knows all that the final read returned",
        {FINAL_COMMITTED, LEVELS},
        "the final read may have returned the other records in a missing line",
    ),
    damages=(
        TEAR,
        SHOW_HALF,
    ),
    across=True,
    sift=_sift_torn,
    resolve=_resolve_torn,
    explain=_explain_torn,
    needs="no transaction of two or more records in partitions with a complete read_committed final read",
)
def torn_transaction(log: PartitionLog) -> CheckResult:
    """Read_committed readers get some but not all records of one transaction, whatever its outcome was.

    A record of the transaction is shown or missing

    1. in a partition with a completed read_committed final read: shown if that read returned it, else missing. If the last stable
       offset of the partition is stuck, only records below it are judged so.
    2. in another partition: missing by the rules of `lost-write`; else shown if any read_committed reader got it.

    A record counts as missing even without acknowledgement: commit follows only after every acknowledgement, so a transaction of
    which anything is visible must show everything that it tried to send (KAFKA-17754: a late EndTxn commits what is in the log).

    Not records of the transaction:

    1. a send that never began, unless the transaction ended ok or has no completion;
    2. a record that is `swallowed-write`'s.

    A transaction that failed, and that the brokers' logs have aborted (a log has an ABORT marker behind a record of it, and none
    has a COMMIT marker), is not torn: what is missing is missing by right, and what was read is an `aborted-read`.

    compared: transactions with two or more records that completed read_committed final reads had to show. One cause: the
    transaction.

    Example::

        ms   process  operation   t-0            t-1       outcome
        0-1  1        txn         send a@5       send b@3  committed
        2-3  1        txn         send c@7       send d@5  unknown
        4-5  2        txn         send e@9       send f@7  committed
        6-7  3        final read  read a@5, e@9  read f@7

    Found: read a@5 and missing b@3. c and d are missing both: their transaction was aborted, or lost as a whole.

    Slow twin: `torn_transactions` in tests/support/reference.py.
    """
    sends = log.sends
    judged, returned, _ = final_witness(log)
    missing = sends.txn & judged & ~returned & ~log.swallowed
    shown = sends.txn & ~missing & (log.covered & log.seen_final if log.final.committed else log.seen_committed)
    belonging = tried(log)
    # The second step knows only acknowledged offsets, and so not of these that they are covered.
    known = (sends.offset != NONE) & (sends.offset < log.final.reach)
    unsure = log.covered & ~known & (log.final.stalled or log.final.unsettled) & (sends.status != INFO)
    # Only the surprising half is reported: `_resolve_torn` fills in the records of the same transactions that are as expected.
    rows = join_rows(
        send_rows(log, missing & ((sends.status == COMMITTED) | unsure), sends.op, "missing"),
        send_rows(log, shown & ((sends.status != COMMITTED) | unsure), sends.op, "read"),
        *undecided_rows(log, sends.txn & (sends.status == INFO), belonging & ~log.swallowed, judged, returned),
        send_rows(log, sends.txn & log.swallowed, sends.op, SWALLOWED),
    )
    return CheckResult(0, rows, several=sends.op[sends.txn & log.covered & belonging])
