"""What a consumer must never do: jump over a record, go back, or end below what others already got (Jepsen's Kafka workload).

Each docstring is the definition of its anomaly. What is forbidden under which settings: `checkers.verdict.rules`.

The reads of one process in one partition follow each other by operation, and inside one as its polls returned them. Records
without a sure place (nobody's, at two offsets, aborted ones at read_committed) are left out: other checks have them, and
after one of them nothing may look wrong that is not. From and to a record that was lost later nothing is judged: where a log
was truncated, its readers go back or on by right (KIP-320).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from checkers.api import CheckResult, join_rows, partition_check
from checkers.arrays import Bools, Ints
from checkers.partition.log import COMMITTED, INFO, NONE, SLICE, PartitionLog, slices
from checkers.partition.positions import Positions
from checkers.partition.versions import aborted, due, fixed, lost
from checkers.verdict.findings import Finding
from checkers.verdict.wording import FindingText

MOST_MISSING = 100  # records that one jump lists
NOBODY_KNOWS = (
    "nobody knows where the consumers stood: they were told anew what to read, or are members of a group whose rebalances are "
    "not in the history"
)
NO_STEPS = "no process read two records of one partition"


@dataclass(frozen=True)
class Steps:
    """Consecutive reads of one process, as positions in `Reads`. before: NONE stands for the start of the log.

    inside: both in one operation. unsure: how many from one operation to the next, and how many inside one, were left out because
    nobody knows where the consumer stood.
    """

    before: Any
    after: Any
    inside: Bools
    unsure: tuple[int, int] = (0, 0)

    def pick(self, which: Any) -> Steps:
        return Steps(self.before[which], self.after[which], self.inside[which])


@dataclass(frozen=True)
class Jumps:
    """Steps that pass over records. missing: sends passed over, jump after jump; counts: how many each."""

    steps: Steps
    missing: Any
    counts: Ints


@dataclass
class Walk:
    """What all processes' steps through one partition amount to; lists have a part for every few million steps.

    steps, continued: how many steps there were from one operation to the next, and inside one; `continued` without those from
    the start of the log. back: steps back, or to the same record again. unsure: as of `Steps`.
    """

    steps: Ints
    continued: Ints
    unsure: Ints
    jumps: list[Jumps]
    back: list[Steps]


def walk(log: PartitionLog) -> Walk:
    """Every read with the one that its process had before it."""
    steps, continued, unsure = (np.zeros(2, dtype=np.int64) for _ in range(3))
    found = Walk(steps, continued, unsure, [], [])
    levels: dict[bool, _Due] = {}
    ranks = _ranks(log)
    for taken in _steps(log):
        goes_on = taken.before != NONE
        found.unsure += taken.unsure
        found.steps += np.bincount(taken.inside, minlength=2)
        found.continued += np.bincount(taken.inside[goes_on], minlength=2)
        back = goes_on & (log.reads.offset[taken.after] <= log.reads.offset[taken.before])
        found.back.append(taken.pick(back))
        level = log.reads.committed[taken.after]
        for committed in np.unique(level).tolist():
            if committed not in levels:
                levels[committed] = _Due(log, ranks, committed)
            found.jumps.append(levels[committed].jumps(taken.pick(level == committed)))
    return found


def _steps(log: PartitionLog) -> Iterator[Steps]:
    """Steps, some at a time; left out where nobody knows where the process stood."""
    reads = log.reads
    cut = np.r_[log.shared(lost), False]  # read, and then cut off: the reader's position is worth nothing
    for order in _as_returned(log):
        process = reads.process[order]
        fresh = _changes(process)
        begins = fresh | _changes(reads.op[order])
        before = np.r_[order[:1], order[:-1]]
        before[fresh] = NONE
        if log.settings.rewinds:
            before[begins] = _last_ok(log, order, begins, fresh)
        for part in slices(len(order)):
            last, after, crossing = before[part], order[part], begins[part]
            known = (last != NONE) | log.settings.from_start
            at = np.flatnonzero(crossing)
            left = np.where(last[at] != NONE, reads.op[last[at]], NONE).astype(np.int64)
            who, here = process[part][at].astype(np.int64), reads.op[after[at]].astype(np.int64)
            start = _from_start(log, who, left, here)
            told = known[at] & ~start & log.resets.between(log.partition, who, left, here)
            known[at] = (known[at] & ~told) | start
            last[at[start]] = NONE
            apart = _apart(log, last, after, ~crossing)
            known[apart] = False
            known &= ~cut[reads.send[after]] & ~((last != NONE) & cut[reads.send[last]])
            yield Steps(last[known], after[known], ~crossing[known], (int(told.sum()), len(apart)))


def _from_start(log: PartitionLog, process: Ints, first: Ints, last: Ints) -> Bools:
    """Whether each process went back to the log's start between two operations, so that it goes on from there."""
    if not isinstance(log.resets, Positions):
        return np.zeros(len(process), dtype=np.bool_)
    return log.resets.from_start(log.partition, process, first, last)


def _apart(log: PartitionLog, before: Any, after: Any, inside: Bools) -> Any:
    """Steps inside operations of members of a group, from one poll to the next, where the group may have moved the partition."""
    if not isinstance(log.resets, Positions) or not log.resets.any_group:
        return np.empty(0, dtype=np.int64)
    at, reads = np.flatnonzero(inside), log.reads
    first, second = before[at], after[at]
    who, op = (values[second].astype(np.int64) for values in (reads.process, reads.op))
    return at[log.resets.rebalance_between(log.partition, who, op, reads.ended[first] != reads.ended[second])]


def _as_returned(log: PartitionLog) -> Iterator[Any]:
    """Positions of reads that have a place, by process, operation, and the order in which its polls returned them.

    Whole processes at a time: a few large ones, or many small ones together.
    """
    process = _small(log.reads.process)
    by_process = np.argsort(process, kind="stable").astype(log.reads.arrival.dtype)
    starts = np.flatnonzero(_changes(process[by_process])).tolist()
    group = 0
    for start, stop in pairwise([*starts, len(by_process)]):
        if stop - group > SLICE or stop == len(by_process):
            for some in ((group, start), (start, stop)) if stop - start > SLICE else ((group, stop),):
                order = _placed(log, by_process[slice(*some)])
                for key in (log.reads.arrival, log.reads.op, process):
                    order = _sorted_by(key, order)
                yield order
            group = stop


def _sorted_by(key: Any, order: Any) -> Any:
    """Positions by a key of theirs; equal ones stay as they are. Nothing is moved where they are sorted already."""
    values = key[order]
    if (values[1:] >= values[:-1]).all():
        return order
    return order[np.argsort(values, kind="stable")]


def _placed(log: PartitionLog, order: Any) -> Any:
    """Those reads that have a place in the version order of their own isolation level."""
    order = order[log.reads.send[order] >= 0]
    writer = log.reads.send[order]
    return order[log.shared(fixed)[writer] & ~(log.shared(aborted)[writer] & log.reads.committed[order])]


def _small(process: Any) -> Any:
    """Process numbers as 16 bits where they fit: numpy sorts those without comparing."""
    if not len(process) or process.max() - process.min() >= 1 << 16:
        return process
    return (process - process.min()).astype(np.uint16)


def _changes(values: Any) -> Bools:
    return np.r_[True, values[1:] != values[:-1]] if len(values) else np.zeros(0, dtype=np.bool_)


def _last_ok(log: PartitionLog, order: Any, begins: Bools, fresh: Bools) -> Any:
    """For the first read of each operation: the last read of the process's last operation that ended ok (NONE: there is none).

    A client that seeks back after a failed operation goes on where the last good one ended.
    """
    starts = np.flatnonzero(begins)
    ends = np.r_[starts[1:], len(order)] - 1
    good = log.reads.status[order[starts]] == COMMITTED
    last = np.maximum.accumulate(np.where(good, np.arange(len(starts)), NONE))
    previous = np.r_[NONE, last[:-1]]
    first_of_process = np.maximum.accumulate(np.where(fresh[starts], np.arange(len(starts)), 0))
    found = previous >= first_of_process
    return np.where(found, order[ends[np.where(found, previous, 0)]], NONE)


class _Due:
    """The records that no reader at an isolation level may pass over. Reads are sorted by offset, so ranks are running counts."""

    def __init__(self, log: PartitionLog, ranks: Any, committed: bool) -> None:
        self._place = ranks
        must = np.r_[due(log, committed), False]  # `send` is NONE, the last, for strangers
        send_at = np.full(int(self._place[-1]) + 1, NONE, dtype=log.reads.send.dtype)
        for part in slices(len(log.reads)):
            which = part.start + np.flatnonzero(must[log.reads.send[part]])
            send_at[self._place[which]] = log.reads.send[which]
        self._there = send_at != NONE
        self._passed = np.cumsum(self._there, dtype=self._place.dtype)  # due offsets up to and with each
        self._sends = send_at[self._there]

    def jumps(self, taken: Steps) -> Jumps:
        """Those of some steps that pass over such records."""
        start = np.where(taken.before != NONE, self._passed[self._place[taken.before]], 0)
        here = self._place[taken.after]
        stop = self._passed[here] - self._there[here]
        over = np.flatnonzero(stop > start)
        start, stop = start[over].astype(np.int64), np.minimum(stop[over], start[over] + MOST_MISSING).astype(np.int64)
        return Jumps(taken.pick(over), self._sends[_ranges(start, stop)], stop - start)


def _ranks(log: PartitionLog) -> Any:
    """The rank of each read's offset among all offsets that were read."""
    changes = _changes(log.reads.offset)
    return np.cumsum(changes, dtype=log.reads.arrival.dtype) - log.reads.arrival.dtype.type(1)


def _ranges(start: Ints, stop: Ints) -> Ints:
    """start[0], ..., stop[0] - 1, start[1], ..."""
    counts = stop - start
    return np.asarray(np.repeat(start - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum())), dtype=np.int64)


# --------------------------------------------------------------------------------------------------
# Rows
# --------------------------------------------------------------------------------------------------
def _read_pairs(log: PartitionLog, taken: Steps) -> dict[str, Any]:
    """Both reads of each step; the cause is the later one."""
    some = taken.before != NONE
    which, cause = np.r_[taken.before[some], taken.after], np.r_[taken.after[some], taken.after]
    reads = log.reads
    rows = {"op": reads.op[which], "v": reads.v[which], "offset": reads.offset[which], "time": reads.ended[cause]}
    return {"cause": cause, **rows, "role": np.full(len(which), "read", dtype=object)}


def _skips(log: PartitionLog, inside: bool) -> CheckResult:
    """Jumps inside operations, or from one operation to the next."""
    found = log.shared(walk)
    rows = [row for part in found.jumps for row in _skip_rows(log, part, part.steps.inside == inside)]
    return CheckResult(int(found.steps[int(inside)]), join_rows(*rows) if rows else {}, _unsure(found, inside))


def _unsure(found: Walk, inside: bool) -> str:
    """Why there was nothing to compare, when it was not for want of reads."""
    return NOBODY_KNOWS if found.unsure[int(inside)] else ""


def _skip_rows(log: PartitionLog, part: Jumps, mine: Bools) -> Iterator[dict[str, Any]]:
    if not mine.any():
        return
    cause = np.repeat(part.steps.after, part.counts)
    missing, cause = (values[np.repeat(mine, part.counts)] for values in (part.missing, cause))
    sends = log.sends
    rows = {"cause": cause, "op": sends.op[missing], "v": sends.v[missing], "offset": log.place[missing]}
    yield _read_pairs(log, part.steps.pick(mine))
    yield rows | {"time": log.reads.ended[cause], "role": np.full(len(missing), "missing", dtype=object)}


def _returns(log: PartitionLog, inside: bool) -> CheckResult:
    """Steps back, or to the same record again."""
    found = log.shared(walk)
    rows = [_read_pairs(log, part.pick(mine)) for part in found.back if (mine := part.inside == inside).any()]
    return CheckResult(int(found.continued[int(inside)]), join_rows(*rows) if rows else {}, _unsure(found, inside))


# --------------------------------------------------------------------------------------------------
# poll-skip, int-poll-skip
# --------------------------------------------------------------------------------------------------
def _explain_skip(finding: Finding, text: FindingText) -> str:
    reads, missing = finding.records("read"), finding.records("missing")
    last = reads[-1]
    records = f"{len(missing)} records" if len(missing) < MOST_MISSING else f"{MOST_MISSING} records or more"
    over = f"{records} ({text.places(missing)})" if len(missing) > 1 else missing[0].place
    if len(reads) == 1:
        began = f"{_process(text, last.op).capitalize()} began at the log's start"
        return f"{began} and got {last.place} first, past {over}, which others got."
    first, same = reads[0], reads[0].op == last.op
    where = f"inside {text.name(last.op, capital=False)}" if same else f"between {_two(text, first.op, last.op)}"
    who = _process(text, last.op).capitalize()
    return f"{who} read {first.place} and next {last.place} ({where}), past {over}, which others got."


def _process(text: FindingText, op: int) -> str:
    return f"process {text.run.overview.process[text.run.overview.at(op)]}"


def _two(text: FindingText, first: int, last: int) -> str:
    return f"{text.name(first, capital=False)} and {text.name(last, capital=False)}"


@partition_check("poll-skip", explain=_explain_skip, needs=NO_STEPS)
def poll_skip(log: PartitionLog) -> CheckResult:
    """From one operation to the next, the reads of a process jump over a record that it had to be given.

    That is a record between the two in the version order, visible at the reader's isolation level and in the log for ever
    because others got it (`checkers.partition.versions.due`); a record that nobody got at all is `lost-write`'s. A process that
    begins at the log's start, or was told to go back there, must not jump over the first records either.

    compared: reads that continue an earlier operation of the same process, or begin at the log's start. One cause: the jump.
    """
    return _skips(log, inside=False)


@partition_check("int-poll-skip", explain=_explain_skip, needs="no operation returned two records of one partition")
def int_poll_skip(log: PartitionLog) -> CheckResult:
    """Inside one operation, consecutive reads of a partition jump over a record that the process had to be given.

    See `poll-skip`, which is the same from one operation to the next.

    compared: reads with a predecessor in the same operation. One cause: the jump.
    """
    return _skips(log, inside=True)


# --------------------------------------------------------------------------------------------------
# nonmonotonic-poll, int-nonmonotonic-poll
# --------------------------------------------------------------------------------------------------
def _explain_return(finding: Finding, text: FindingText) -> str:
    low, high = finding.rows[0], finding.rows[-1]
    same = low.op == high.op
    where = f"inside {text.name(low.op, capital=False)}" if same else f"from {_two(text, *sorted((high.op, low.op)))}"
    how = "got it once more" if low.offset == high.offset else f"went back to {low.place}"
    return f"{_process(text, low.op).capitalize()} read {high.place} and then {how} ({where})."


@partition_check("nonmonotonic-poll", explain=_explain_return, needs=NO_STEPS)
def nonmonotonic_poll(log: PartitionLog) -> CheckResult:
    """From one operation to the next, a process reads the same record again or goes back to an earlier one.

    Not where the client seeks back by design after an operation that did not end ok (contract `aborted_polls = "rewound"`,
    Jepsen's client), nor across an `assign` or `subscribe` that does not keep the partition.

    compared: reads that continue an earlier operation of the same process. One cause: the step back.
    """
    return _returns(log, inside=False)


@partition_check("int-nonmonotonic-poll", explain=_explain_return, needs="no operation returned two records of one partition")
def int_nonmonotonic_poll(log: PartitionLog) -> CheckResult:
    """Inside one operation, a process reads the same record again or goes back to an earlier one.

    compared: reads with a predecessor in the same operation. One cause: the step back.
    """
    return _returns(log, inside=True)


# --------------------------------------------------------------------------------------------------
# stale-read
# --------------------------------------------------------------------------------------------------
def _explain_stale(finding: Finding, text: FindingText) -> str:
    got, missing = finding.records("read"), finding.records("missing")
    final = next(row.op for row in got if row.v == NONE)
    seen = next(row for row in got if row.v != NONE)
    what = missing[0].place if len(missing) == 1 else f"{len(missing)} records ({text.places(missing)})"
    return (
        f"The complete read_committed final read of {_process(text, final)} did not return {what}, "
        f"although {text.name(seen.op, capital=False)} got {seen.place} before it began."
    )


@partition_check(
    "stale-read",
    explain=_explain_stale,
    needs="no read_committed reader got a record before a complete read_committed final read",
)
def stale_read(log: PartitionLog) -> CheckResult:
    """A complete read_committed final read lacks a record that another read_committed reader got before it began.

    It jumped over the record, or ended below it: what was visible once is not any more. For readers of the main phase nobody
    knows the end of the log that they should have seen; theirs is `poll-skip`. Records of aborted transactions, and of
    transactions for which commit was never called, are `aborted-read`'s and `dirty-read`'s.

    compared: records that somebody got before such a final read began. One cause: the final read.
    """
    parts = [_stale(log, *reader) for reader in log.final.readers]
    rows = [part.rows for part in parts if part.rows]
    return CheckResult(sum(part.compared for part in parts), join_rows(*rows) if rows else {})


def _stale(log: PartitionLog, process: int, final: int, began: int) -> CheckResult:
    """What one final read lacks; `final`: its operation."""
    reads, sends = log.reads, log.sends
    earlier = reads.committed & ~log.unsent_reads & (reads.process != process) & (reads.ended != NONE) & (reads.ended < began)
    uncalled = (sends.status == INFO) & sends.finished & (sends.decided == NONE)
    doubtful = log.shared(aborted) | (sends.txn & uncalled)
    known = log.seen_by(earlier) & ~doubtful
    missing = np.flatnonzero(known & ~log.seen_by(reads.process == process))
    if not len(missing):
        return CheckResult(int(known.sum()))
    of_it = np.flatnonzero(earlier)
    _, first = np.unique(reads.send[of_it], return_index=True)
    witness = of_it[first][np.isin(reads.send[of_it][first], missing)]
    op, v, offset = (np.r_[final, values] for values in (reads.op[witness], reads.v[witness], reads.offset[witness]))
    v[0] = offset[0] = NONE
    rows = {"op": np.r_[op, sends.op[missing]], "v": np.r_[v, sends.v[missing]], "offset": np.r_[offset, log.place[missing]]}
    role = np.array(["read"] * len(op) + ["missing"] * len(missing), dtype=object)
    count = len(role)
    return CheckResult(int(known.sum()), {"cause": np.full(count, final), **rows, "time": np.full(count, began), "role": role})
