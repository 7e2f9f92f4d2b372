"""What a consumer must never do: jump over a record, go back, or end below what others already got (Jepsen's Kafka workload).

Each docstring is the definition of its anomaly. What is forbidden under which settings: `checkers.contracts`.

The reads of one process in one partition follow each other by operation, and inside one as its polls returned them. Records
without a sure place (nobody's, at two offsets, aborted ones at read_committed) are left out: other checks have them, and
after one of them nothing may look wrong that is not. From and to a record that was lost later nothing is judged: where a log
was truncated, its readers go back or on by right (KIP-320).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from checkers.anomaly import Bools, Ints, Suspects, join_rows, partition_check
from checkers.log import COMMITTED, INFO, NONE, PartitionLog
from checkers.story import Finding, Story
from checkers.versions import aborted, due, fixed, lost

MOST_MISSING = 100  # records that one jump lists
NO_STEPS = "no process read two records of one partition"


@dataclass(frozen=True)
class Steps:
    """Consecutive reads of one process, as positions in `Reads`. before: NONE stands for the start of the log.

    inside: both in one operation.
    """

    before: Ints
    after: Ints
    inside: Bools


def steps(log: PartitionLog) -> Steps:
    """Every read with the one that its process had before it; left out where nobody knows where the process stood."""
    order = _as_returned(log, _placed(log))
    process, op = log.reads.process[order], log.reads.op[order]
    fresh = _changes(process)
    begins = fresh | _changes(op)
    before = np.r_[NONE, order[:-1]] if len(order) else order
    before[fresh] = NONE
    if log.settings.rewinds:
        before[begins] = _last_ok(log, order, begins, fresh)
    known = (before != NONE) | log.settings.from_start
    crossing = np.flatnonzero(begins & known)
    last = np.where(before[crossing] != NONE, log.reads.op[before[crossing]], NONE)
    known[crossing] &= ~log.resets.between(log.partition, process[crossing].astype(np.int64), last, op[crossing])
    cut = np.r_[log.shared(lost), False][log.reads.send]  # read, and then cut off: the reader's position is worth nothing
    known &= ~cut[order] & ~((before != NONE) & cut[before])
    return Steps(before[known], order[known], ~begins[known])


def _placed(log: PartitionLog) -> Bools:
    """Reads that have a place in the version order of their own isolation level."""
    which = ~log.strangers
    writer = log.reads.send[which]
    which[which] = log.shared(fixed)[writer] & ~(log.shared(aborted)[writer] & log.reads.committed[which])
    return which


def _as_returned(log: PartitionLog, which: Bools) -> Ints:
    """Positions of reads by process, operation, and the order in which its polls returned them."""
    chosen = np.flatnonzero(which)
    slots = np.full(int(log.reads.arrival.max(initial=0)) + 1, NONE, dtype=np.int64)
    slots[log.reads.arrival[chosen]] = chosen
    order = slots[slots != NONE]
    order = order[np.argsort(log.reads.op[order], kind="stable")]  # long ascending runs: nearly free
    return np.asarray(order[np.argsort(_small(log.reads.process[order]), kind="stable")], dtype=np.int64)


def _small(process: Any) -> Any:
    """Process numbers as 16 bits where they fit: numpy sorts those without comparing."""
    if not len(process) or process.max() - process.min() >= 1 << 16:
        return process
    return (process - process.min()).astype(np.uint16)


def _changes(values: Any) -> Bools:
    return np.r_[True, values[1:] != values[:-1]] if len(values) else np.zeros(0, dtype=np.bool_)


def _last_ok(log: PartitionLog, order: Ints, begins: Bools, fresh: Bools) -> Ints:
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


@dataclass(frozen=True)
class Jumps:
    """Steps that pass over records. steps: which; missing: sends passed over, jump after jump; counts: how many each."""

    steps: Ints
    missing: Ints
    counts: Ints


def jumps(log: PartitionLog) -> Jumps:
    """Every step over records that its reader must not pass over."""
    taken = log.shared(steps)
    level = log.reads.committed[taken.after]
    parts = [_jumps(log, np.flatnonzero(level == committed), committed) for committed in (True, False)]
    return Jumps(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("steps", "missing", "counts")))


def _jumps(log: PartitionLog, at: Ints, committed: bool) -> Jumps:
    """Jumps of the steps at one isolation level. Reads are sorted by offset, so ranks are running counts of due offsets."""
    if not len(at):
        return Jumps(at, at, at)
    reads, taken = log.reads, log.shared(steps)
    must = np.r_[due(log, committed), False][reads.send]  # `send` is NONE, the last, for strangers
    place = np.cumsum(_changes(reads.offset)) - 1  # the rank of each read's offset among all offsets
    send_at = np.full(int(place[-1]) + 1, NONE, dtype=np.int64)
    send_at[place[must]] = reads.send[must]
    passed = np.cumsum(send_at != NONE)  # due offsets up to and with each
    before, after = taken.before[at], taken.after[at]
    start = np.where(before != NONE, passed[place[before]], 0)
    stop = passed[place[after]] - (send_at[place[after]] != NONE)
    over = np.flatnonzero(stop > start)
    start, stop = start[over], np.minimum(stop[over], start[over] + MOST_MISSING)
    return Jumps(at[over], send_at[send_at != NONE][_ranges(start, stop)], stop - start)


def _ranges(start: Ints, stop: Ints) -> Ints:
    """start[0], ..., stop[0] - 1, start[1], ..."""
    counts = stop - start
    return np.asarray(np.repeat(start - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum())), dtype=np.int64)


# --------------------------------------------------------------------------------------------------
# Rows
# --------------------------------------------------------------------------------------------------
def _read_pairs(log: PartitionLog, before: Ints, after: Ints) -> dict[str, Any]:
    """Both reads of each step; the cause is the later one."""
    some = before != NONE
    which, cause = np.r_[before[some], after], np.r_[after[some], after]
    reads = log.reads
    rows = {"op": reads.op[which], "v": reads.v[which], "offset": reads.offset[which], "time": reads.ended[cause]}
    return {"cause": cause, **rows, "role": np.full(len(which), "read", dtype=object)}


def _skips(log: PartitionLog, inside: bool) -> Suspects:
    """Jumps inside operations, or from one operation to the next."""
    taken, found = log.shared(steps), log.shared(jumps)
    compared = int((taken.inside == inside).sum())
    mine = taken.inside[found.steps] == inside
    if not mine.any():
        return Suspects(compared)
    cause = np.repeat(taken.after[found.steps], found.counts)
    missing, cause = (values[np.repeat(mine, found.counts)] for values in (found.missing, cause))
    sends = log.sends
    rows = {"cause": cause, "op": sends.op[missing], "v": sends.v[missing], "offset": log.place[missing]}
    rows |= {"time": log.reads.ended[cause], "role": np.full(len(missing), "missing", dtype=object)}
    at = found.steps[mine]
    return Suspects(compared, join_rows(_read_pairs(log, taken.before[at], taken.after[at]), rows))


def _returns(log: PartitionLog, inside: bool) -> Suspects:
    """Steps back, or to the same record again."""
    taken = log.shared(steps)
    which = np.flatnonzero((taken.inside == inside) & (taken.before != NONE))
    before, after = taken.before[which], taken.after[which]
    back = log.reads.offset[after] <= log.reads.offset[before]
    return Suspects(len(which), _read_pairs(log, before[back], after[back]) if back.any() else {})


# --------------------------------------------------------------------------------------------------
# poll-skip, int-poll-skip
# --------------------------------------------------------------------------------------------------
def _explain_skip(finding: Finding, story: Story) -> str:
    reads, missing = finding.records("read"), finding.records("missing")
    last = reads[-1]
    records = f"{len(missing)} records" if len(missing) < MOST_MISSING else f"{MOST_MISSING} records or more"
    over = f"{records} ({story.places(missing)})" if len(missing) > 1 else missing[0].place
    if len(reads) == 1:
        return f"The first read of {_process(story, last.op)} returned {last.place} and passed over {over}, which others got."
    first, same = reads[0], reads[0].op == last.op
    where = f"inside {story.name(last.op, capital=False)}" if same else f"between {_two(story, first.op, last.op)}"
    who = _process(story, last.op).capitalize()
    return f"{who} read {first.place} and next {last.place} ({where}), past {over}, which others got."


def _process(story: Story, op: int) -> str:
    return f"process {story.world.overview.process[story.world.overview.at(op)]}"


def _two(story: Story, first: int, last: int) -> str:
    return f"{story.name(first, capital=False)} and {story.name(last, capital=False)}"


@partition_check("poll-skip", explain=_explain_skip, needs=NO_STEPS)
def poll_skip(log: PartitionLog) -> Suspects:
    """From one operation to the next, the reads of a process jump over a record that it had to be given.

    That is a record between the two in the version order, visible at the reader's isolation level and in the log for ever
    because others got it (`checkers.versions.due`); a record that nobody got at all is `lost-write`'s. A process that begins at
    the log's start must not jump over the first records either.

    compared: reads that continue an earlier operation of the same process, or begin at the log's start. One cause: the jump.
    """
    return _skips(log, inside=False)


@partition_check("int-poll-skip", explain=_explain_skip, needs="no operation returned two records of one partition")
def int_poll_skip(log: PartitionLog) -> Suspects:
    """Inside one operation, consecutive reads of a partition jump over a record that the process had to be given.

    See `poll-skip`, which is the same from one operation to the next.

    compared: reads with a predecessor in the same operation. One cause: the jump.
    """
    return _skips(log, inside=True)


# --------------------------------------------------------------------------------------------------
# nonmonotonic-poll, int-nonmonotonic-poll
# --------------------------------------------------------------------------------------------------
def _explain_return(finding: Finding, story: Story) -> str:
    low, high = finding.rows[0], finding.rows[-1]
    same = low.op == high.op
    where = f"inside {story.name(low.op, capital=False)}" if same else f"from {_two(story, *sorted((high.op, low.op)))}"
    how = "got it once more" if low.offset == high.offset else f"went back to {low.place}"
    return f"{_process(story, low.op).capitalize()} read {high.place} and then {how} ({where})."


@partition_check("nonmonotonic-poll", explain=_explain_return, needs=NO_STEPS)
def nonmonotonic_poll(log: PartitionLog) -> Suspects:
    """From one operation to the next, a process reads the same record again or goes back to an earlier one.

    Not where the client seeks back by design after an operation that did not end ok (contract `aborted_polls = "rewound"`,
    Jepsen's client), nor across an `assign` or `subscribe` that does not keep the partition.

    compared: reads that continue an earlier operation of the same process. One cause: the step back.
    """
    return _returns(log, inside=False)


@partition_check("int-nonmonotonic-poll", explain=_explain_return, needs="no operation returned two records of one partition")
def int_nonmonotonic_poll(log: PartitionLog) -> Suspects:
    """Inside one operation, a process reads the same record again or goes back to an earlier one.

    compared: reads with a predecessor in the same operation. One cause: the step back.
    """
    return _returns(log, inside=True)


# --------------------------------------------------------------------------------------------------
# stale-read
# --------------------------------------------------------------------------------------------------
def _explain_stale(finding: Finding, story: Story) -> str:
    got, missing = finding.records("read"), finding.records("missing")
    final = next(row.op for row in got if row.v == NONE)
    seen = next(row for row in got if row.v != NONE)
    what = missing[0].place if len(missing) == 1 else f"{len(missing)} records ({story.places(missing)})"
    return (
        f"The complete read_committed final read of {_process(story, final)} did not return {what}, "
        f"although {story.name(seen.op, capital=False)} got {seen.place} before it began."
    )


@partition_check(
    "stale-read",
    explain=_explain_stale,
    needs="no read_committed reader got a record before a complete read_committed final read",
)
def stale_read(log: PartitionLog) -> Suspects:
    """A complete read_committed final read lacks a record that another read_committed reader got before it began.

    It jumped over the record, or ended below it: what was visible once is not any more. For readers of the main phase nobody
    knows the end of the log that they should have seen; theirs is `poll-skip`. Records of aborted transactions, and of
    transactions for which commit was never called, are `aborted-read`'s and `dirty-read`'s.

    compared: records that somebody got before such a final read began. One cause: the final read.
    """
    parts = [_stale(log, *reader) for reader in log.final.readers]
    rows = [part.rows for part in parts if part.rows]
    return Suspects(sum(part.compared for part in parts), join_rows(*rows) if rows else {})


def _stale(log: PartitionLog, process: int, final: int, began: int) -> Suspects:
    """What one final read lacks; `final`: its operation."""
    reads, sends = log.reads, log.sends
    earlier = reads.committed & ~log.strangers & (reads.process != process) & (reads.ended != NONE) & (reads.ended < began)
    uncalled = (sends.status == INFO) & sends.finished & (sends.decided == NONE)
    doubtful = log.shared(aborted) | (sends.txn & uncalled)
    known = log.seen_by(earlier) & ~doubtful
    missing = np.flatnonzero(known & ~log.seen_by(reads.process == process))
    if not len(missing):
        return Suspects(int(known.sum()))
    of_it = np.flatnonzero(earlier)
    _, first = np.unique(reads.send[of_it], return_index=True)
    witness = of_it[first][np.isin(reads.send[of_it][first], missing)]
    op, v, offset = (np.r_[final, values] for values in (reads.op[witness], reads.v[witness], reads.offset[witness]))
    v[0] = offset[0] = NONE
    rows = {"op": np.r_[op, sends.op[missing]], "v": np.r_[v, sends.v[missing]], "offset": np.r_[offset, log.place[missing]]}
    role = np.array(["read"] * len(op) + ["missing"] * len(missing), dtype=object)
    count = len(role)
    return Suspects(int(known.sum()), {"cause": np.full(count, final), **rows, "time": np.full(count, began), "role": role})
