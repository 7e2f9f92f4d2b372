"""Sequence numbers of idempotent producers in the log of every replica (KIP-98, KIP-360).

Each docstring is the definition of its anomaly. A broker appends a batch only if its first sequence number follows the last one
that it has of the producer id and epoch in the partition, and keeps both numbers in the head of the batch, whatever its codec.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fencepost.checkers.api import run_check
from fencepost.checkers.contract.common_occasions import SENDING
from fencepost.checkers.contract.common_rules import COMPACTED, DAMAGED, UNLESS_IDEMPOTENT, cut_off
from fencepost.checkers.contract.needs import LOGS, Needs
from fencepost.checkers.contract.rules import ALLOWED, FORBIDDEN, Rule
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.sent_here import sent_here, sent_rows, unanswered_sends
from fencepost.checkers.pipeline.stored_findings import finding_rows, judged_by_logs
from fencepost.checkers.pipeline.stored_logs import (
    DATA,
    SEQUENCES,
    StoredLogs,
    StoredRows,
    may_be_compacted,
    operations_of,
    stored_logs,
)
from fencepost.checkers.selfcheck.log_damages import GAP, REPEAT, START
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.promises import ONCE, ONE_LOG
from fencepost.harness.api.record_ids import process_of

NO_BATCH = "no log has two batches of one producer id and epoch"
NO_START = "no log has the first batch of a producer id and epoch"
EXPIRING = Rule(
    ALLOWED,
    "leaders forget producers that have been idle (producer.id.expiration.ms), and then take any sequence number",
    {"producer_expiry": "!none"},
)
DELETED = Rule(
    ALLOWED,
    "a topic that was created again knows no producer, and takes any first sequence number",
    {"topic_deletions": "has:records"},
)
EPOCHS = 1 << 17  # more than a producer has
EVIDENCE = Needs({LOGS}, "what is missing of the logs may have shown it")


@dataclass(frozen=True)
class Batches:
    """Batches of idempotent producers in the order of (log, producer id, epoch, offset).

    first: the row of the first record of each.
    expected: the sequence number that follows the one before (NONE: none is before, or something unreadable between them).
    known: an earlier row of the log has the same producer id in a lower epoch, so that nothing of this epoch lay before that.
    behind_damage: a batch that cannot be read lies before it in the log: that may have been any.
    """

    first: StoredRows
    expected: Ints
    known: Bools
    behind_damage: Bools

    @property
    def surplus(self) -> Ints:
        """How far each batch is above the expected number, negative below; numbers begin anew at 2^31."""
        distance = (self.first.first_sequence - self.expected) % SEQUENCES
        return np.where(distance < SEQUENCES // 2, distance, distance - SEQUENCES)


def batches(run: RunView) -> Batches:
    """The batches of all distinct logs of a run that has logs."""
    logs = run.shared(stored_logs)
    assert isinstance(logs, StoredLogs)
    return batches_of(logs.distinct, logs.damaged[logs.distinct.row])


def batches_of(rows: StoredRows, damaged: Bools) -> Batches:
    """The batches of some logs, given by their rows in the order of (partition, node, offset); damaged: which cannot be read."""
    passed = _damages_before(rows, damaged)
    rows, passed = rows.take(~damaged), passed[~damaged]
    known = _known_before(rows)
    starts = np.ones(len(rows), dtype=np.bool_)
    same = (np.diff(rows.first_offset) == 0) & (np.diff(rows.partition) == 0) & (np.diff(rows.node) == 0)
    starts[1:] = ~same
    which = np.flatnonzero(starts & (rows.kind == DATA) & (rows.producer_id >= 0) & (rows.first_sequence >= 0))
    first, known, passed = rows.take(which), known[which], passed[which]
    order = np.lexsort((first.first_offset, first.producer_epoch, first.producer_id, first.node, first.partition))
    first, known, passed = first.take(order), known[order], passed[order]
    expected = np.full(len(first), NONE, dtype=np.int64)
    follows = _same_key(first, ("partition", "node", "producer_id", "producer_epoch")) & (np.diff(passed) == 0)
    last = (first.first_sequence + first.last_offset - first.first_offset) % SEQUENCES
    expected[1:][follows] = (last[:-1][follows] + 1) % SEQUENCES
    return Batches(first, expected, known, passed > 0)


def _damages_before(rows: StoredRows, damaged: Bools) -> Ints:
    """How many batches that cannot be read lie before each row in its log."""
    count: Ints = np.cumsum(damaged) - damaged
    begins = np.ones(len(rows), dtype=np.bool_)
    begins[1:] = ~_same_key(rows, ("partition", "node"))
    return np.asarray(count - np.maximum.accumulate(np.where(begins, count, 0)), dtype=np.int64)


def _same_key(rows: StoredRows, names: tuple[str, ...]) -> Bools:
    """True for each row but the first that has the same values as the one before it."""
    same = np.ones(max(0, len(rows) - 1), dtype=np.bool_)
    for name in names:
        same &= np.diff(getattr(rows, name)) == 0
    return same


def _known_before(rows: StoredRows) -> Bools:
    """True for each row that one of its producer id in a lower epoch comes before in its log."""
    order = np.lexsort((rows.offset, rows.producer_id, rows.node, rows.partition))
    same = _same_key(rows.take(order), ("partition", "node", "producer_id"))
    epoch, producer = rows.producer_epoch[order], np.cumsum(np.concatenate([[0], ~same]))[: len(order)]
    lowest = np.minimum.accumulate(epoch - producer * EPOCHS)  # falls from producer to producer
    known = np.zeros(len(rows), dtype=np.bool_)
    known[order[1:]] = same & (lowest[:-1] < (epoch - producer * EPOCHS)[1:])
    return known


def _result(run: RunView, some: Batches, compared: Bools, wrong: Bools, lacking: str) -> CheckResult:
    logs = run.shared(stored_logs)
    assert isinstance(logs, StoredLogs)
    first = some.first.take(wrong)
    return CheckResult(int(compared.sum()), finding_rows(run, logs, first, first.producer_id), lacking)


def _above(some: Batches) -> Bools:
    """True for each batch that begins above the number which had to follow."""
    return np.asarray((some.expected != NONE) & (some.surplus > 0))


def _below(some: Batches) -> Bools:
    """True for each batch that begins below the number which had to follow."""
    return np.asarray((some.expected != NONE) & (some.surplus < 0))


def _explain(wrong: Callable[[Batches], Bools], found: Callable[[int, int, int], str]) -> Callable[[Finding, FindingText], str]:
    """Words for the first place of a finding. wrong: which batches may be meant; replicas may hold a batch behind different ones.
    found: what is wrong, by the expected number, the one that is there, and by how much they differ."""

    def explain(finding: Finding, text: FindingText) -> str:
        logs, some, row = text.run.shared(stored_logs), text.run.shared(batches), finding.rows[0]
        assert isinstance(logs, StoredLogs)
        own = (some.first.offset == row.offset) & (some.first.partition == logs.partitions.index(row.partition)) & wrong(some)
        at = int(np.flatnonzero(own)[0])
        first = some.first.take(slice(at, at + 1))
        where = f"In the log of {row.partition} on {', '.join(_nodes(logs, some, at, own))} the batch at offset {row.offset}"
        of = f"producer id {first.producer_id[0]} in epoch {first.producer_epoch[0]}"
        what = found(int(some.expected[at]), int(first.first_sequence[0]), int(some.surplus[at]))
        return f"{where}{text.first_of(finding.rows, 'batches')}, of {of}, {what}."

    return explain


def _nodes(logs: StoredLogs, some: Batches, at: int, own: Bools) -> list[str]:
    """The nodes whose logs have a batch with the same numbers, producer id and epoch, behind the same one. own: batches at its
    place."""
    same = own & (some.expected == some.expected[at])
    for name in ("first_sequence", "producer_id", "producer_epoch"):
        same &= getattr(some.first, name) == getattr(some.first, name)[at]
    nodes, partition = set(some.first.node[same].tolist()), int(some.first.partition[at])
    holding = [log for log in logs.logs if log.partition == partition]
    rows = [log.rows for log in holding if log.distinct and log.node in nodes]
    return [logs.nodes[log.node] for log in holding if log.rows in rows]


@run_check(
    "sequence-gap",
    promise=ONE_LOG,
    rules=(
        UNLESS_IDEMPOTENT,
        COMPACTED,
        EXPIRING,
        DAMAGED,
        Rule(FORBIDDEN, "a leader refuses a batch that does not follow the last one of its producer id and epoch (KIP-98)"),
    ),
    evidence=EVIDENCE,
    occasions=SENDING,
    damages=(GAP,),
    explain=_explain(
        _above,
        lambda expected, there, by: f"begins with sequence number {there}, and {expected} had to follow: {by} are missing",
    ),
    needs=NO_BATCH,
)
def sequence_gap(run: RunView) -> CheckResult:
    """In the log of a replica, a batch begins with a higher sequence number than the one that follows the batch before it, of
    the same producer id and epoch.

    The numbers of a batch are in its head: the first one, and as many as it has offsets. They begin anew at 2^31. Replicas whose
    logs agree are one log. Topics that the run did not make, as Connect's own and changelogs, may be compacted, and are left out.

    compared: batches that follow another one of their producer id and epoch in a log. One cause: the producer id.
    """

    def judge(run: RunView, logs: StoredLogs) -> CheckResult:
        some = run.shared(batches)
        compared = (some.expected != NONE) & _keeping_all(run, logs, some)
        return _result(run, some, compared, compared & _above(some), NO_BATCH)

    return judged_by_logs(run, judge)


@run_check(
    "sequence-repetition",
    promise=ONCE,
    rules=(
        UNLESS_IDEMPOTENT,
        EXPIRING,
        Rule(FORBIDDEN, "a leader answers a batch that it has, and does not append it again (KIP-98)"),
    ),
    evidence=EVIDENCE,
    occasions=SENDING,
    damages=(REPEAT,),
    explain=_explain(
        _below,
        lambda expected, there, by: (
            f"begins with sequence number {there}, although {expected} had to follow: it was there already"
        ),
    ),
    needs=NO_BATCH,
)
def sequence_repetition(run: RunView) -> CheckResult:
    """In the log of a replica, a batch begins with a sequence number that an earlier batch of the same producer id and epoch had
    reached or passed.

    Heads of batches stay when compaction removes their records, so that compacted topics are judged too.

    compared: batches that follow another one of their producer id and epoch in a log. One cause: the producer id.
    """

    def judge(run: RunView, logs: StoredLogs) -> CheckResult:
        some = run.shared(batches)
        return _result(run, some, some.expected != NONE, _below(some), NO_BATCH)

    return judged_by_logs(run, judge)


@run_check(
    "sequence-start",
    promise=ONE_LOG,
    rules=(
        UNLESS_IDEMPOTENT,
        COMPACTED,
        EXPIRING,
        DELETED,
        *cut_off("the next leader may not know the producer, and then takes any sequence number (KIP-360)"),
        Rule(FORBIDDEN, "the sequence numbers of a producer id and epoch begin with 0 in each partition (KIP-98, KIP-360)"),
    ),
    evidence=EVIDENCE,
    occasions=SENDING,
    damages=(START,),
    explain=_explain(
        lambda some: some.expected == NONE,
        lambda expected, there, by: f"is the first one of these, and begins with sequence number {there} and not with 0",
    ),
    gather=sent_here,
    needs=NO_START,
)
def sequence_start(run: RunView) -> CheckResult:
    """In the log of a replica, the first batch of a producer id and epoch does not begin with sequence number 0.

    Judged where the log shows that the batch is the first one. Where it has an earlier row of the producer id in a lower epoch,
    leaders refuse another number; they keep the last state of a producer when they delete old records. Where the log begins at
    offset 0, and has none of the producer id, they take any: it is compared if the history knows who wrote it, and that each
    record which that process sent there was acknowledged, for one that never arrived had the number before.
    Topics that the run did not make may be compacted, and are left out.

    compared: first batches of a producer id and epoch in a log. One cause: the producer id.
    """

    def judge(run: RunView, logs: StoredLogs) -> CheckResult:
        some = run.shared(batches)
        first = (some.expected == NONE) & ~some.behind_damage
        begins = first & some.known
        whole = np.flatnonzero(first & ~some.known & (logs.starts[some.first.partition] == 0))
        begins[whole] = _all_arrived(run, logs, some.first.take(whole))
        begins &= _keeping_all(run, logs, some)
        return _result(run, some, begins, begins & (some.first.first_sequence != 0), logs.unless_packed(NO_START))

    return judged_by_logs(run, judge)


def _keeping_all(run: RunView, logs: StoredLogs, some: Batches) -> Bools:
    """True for each batch of a topic that is not compacted: whole batches may be gone from others."""
    compacted = np.array(may_be_compacted(run, logs), dtype=np.bool_)
    return np.asarray(~compacted[some.first.partition])


def _all_arrived(run: RunView, logs: StoredLogs, rows: StoredRows) -> Bools:
    """True for each row whose process is known, and had all records acknowledged that it sent to the partition."""
    unanswered = run.shared(unanswered_sends)
    known = (operations_of(run, rows.v) != NONE) & sent_rows(run, rows)
    places = zip((logs.partitions[number] for number in rows.partition.tolist()), process_of(rows.v).tolist(), strict=True)
    answered: Bools = np.array([place not in unanswered for place in places], dtype=np.bool_)
    return np.asarray(known & answered)
