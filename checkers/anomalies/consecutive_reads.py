"""The consecutive reads of each process in one partition: where one passes over records, and where one goes back.

The reads of one process in one partition follow each other by operation, and inside one as its polls returned them. Records
without a sure place (nobody's, at two offsets, aborted ones at read_committed) are left out: other checks have them, and
after one of them nothing may look wrong that is not. From and to a record that was lost later nothing is judged: where a log
was truncated, its readers go back or on by right (KIP-320).

The method, on arrays of the partition's reads (sorted by offset):

1. Sort positions of reads by process, operation and order of return. Each read and the one before it in this order are a pair,
   unless the process differs (`_pairs`). Pairs across which nobody knows where the consumer stood are left out.
2. A pair goes back where the later offset is not above the earlier one.
3. A pair skips records where more required records lie below the later read than up to the earlier one. As reads are sorted by
   offset, both numbers are looked up in one running count (`_RequiredRecords`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from fencepost.checkers.history.positions import Positions
from fencepost.checkers.model.arrays import Bools, Ints, true_positions, with_false
from fencepost.checkers.model.values import COMMITTED, NONE
from fencepost.checkers.views.log import SLICE, PartitionLog, slices
from fencepost.checkers.views.versions import aborted, due, fixed, lost

MOST_MISSING = 100  # records that one skip lists
FEW = 8  # processes, each of which is looked for by itself


@dataclass(frozen=True)
class ReadPairs:
    """Consecutive reads of one process, as positions in `Reads`.

    before: NONE stands for the start of the log.
    same_operation: True if one operation returned both.
    unknown: how many pairs across operations, and how many inside one, were left out because nobody knows where the consumer
        stood.
    seek: history index of the seek back after which a process read on (NONE: it did not seek); None: there was no seek. Then
        `before` is the highest read below the place to which it went, whoever's it is.
    sought: that place, an offset.
    """

    before: Any
    after: Any
    same_operation: Bools
    unknown: tuple[int, int] = (0, 0)
    seek: Any = None
    sought: Any = None

    def pick(self, which: Any) -> ReadPairs:
        seeks = (None, None) if self.seek is None else (self.seek[which], self.sought[which])
        return ReadPairs(self.before[which], self.after[which], self.same_operation[which], (0, 0), *seeks)


@dataclass(frozen=True)
class Skips:
    """Pairs that pass over records.

    missing: the sends passed over, pair after pair.
    counts: how many by each pair.
    """

    pairs: ReadPairs
    missing: Any
    counts: Ints


@dataclass
class ConsecutiveReads:
    """All consecutive reads of one partition, summed up. Numbers come in twos: across operations, and inside one.

    pairs: how many were looked at.
    continued: without those from the start of the log.
    unknown: as of `ReadPairs`.
    skips: pairs that pass over records, a part for every few million pairs.
    returns: pairs that go back, or to the same record again, in parts likewise.
    """

    pairs: Ints
    continued: Ints
    unknown: Ints
    skips: list[Skips]
    returns: list[ReadPairs]


def consecutive_reads(log: PartitionLog) -> ConsecutiveReads:
    """Every read with the one that its process had before it."""
    count, continued, unknown = (np.zeros(2, dtype=np.int64) for _ in range(3))
    total = ConsecutiveReads(count, continued, unknown, [], [])
    required: dict[bool, _RequiredRecords] = {}  # by isolation level, made for the levels that occur
    ranks = _ranks(log)
    for pairs in _pairs(log):
        continues = pairs.before != NONE
        total.unknown += pairs.unknown
        total.pairs += _by_kind(pairs.same_operation)
        total.continued += _by_kind(pairs.same_operation[continues])
        before, after = np.where(continues, ranks[pairs.before], NONE), ranks[pairs.after]
        total.returns.append(pairs.pick(continues & (after <= before)))
        further = true_positions(after > before + 1)  # between neighbours lies nothing
        level = log.reads.committed[pairs.after[further]]
        for committed in (False, True):
            some = further[level == committed]
            if not len(some):
                continue
            if committed not in required:
                required[committed] = _RequiredRecords(log, ranks, committed)
            total.skips.append(required[committed].skips(pairs.pick(some)))
    return total


def _by_kind(same_operation: Bools) -> Ints:
    """The number of pairs across operations, and of those inside one."""
    inside = int(np.count_nonzero(same_operation))
    return np.array([len(same_operation) - inside, inside])


# --------------------------------------------------------------------------------------------------
# Pairs
# --------------------------------------------------------------------------------------------------
def _pairs(log: PartitionLog) -> Iterator[ReadPairs]:
    """All pairs of consecutive reads, some millions at a time, without those across which a process's position is unknown.

    `order` has positions of reads by process, operation and order of return. So `before` is `order` moved on by one, with NONE
    where a process begins. Then each pair of a part is judged:

    * Between operations the position is unknown where the process was told in between what to read (`resets`), unless it was
      told to go back to the log's start: then its next read must be the first record, as at the beginning of a process. Where it
      sought back to an offset it goes on there. An offset above all that it had read may have been beyond the end of the log,
      so after such a seek it may stand anywhere.
    * Inside an operation it is unknown between two polls where the group may have moved the partition of its member, or where
      the history lacks the result of another poll.
    * At the beginning of a process it is known only if the contract says that processes begin at the log's start.
    """
    reads = log.reads
    truncated = with_false(log.shared(lost))  # `send` is NONE for records of nobody, and so looks up the last entry
    any_lost = bool(truncated.any())
    for order in _in_order_of_return(log):
        process = reads.process[order]
        new_process = _changes(process)
        new_operation = new_process | _changes(reads.op[order])
        before = np.concatenate([order[:1], order[:-1]])
        before[new_process] = NONE
        if log.settings.rewinds:
            before[new_operation] = _last_read_of_ok_operation(log, order, new_operation, new_process)
        for part in slices(len(order)):
            last, after, crossing = before[part], order[part], new_operation[part]
            known = (last != NONE) | log.settings.from_start
            at = true_positions(crossing)  # the pairs across operations; the next five arrays have an entry for each of them
            last_op = np.where(last[at] != NONE, reads.op[last[at]], NONE).astype(np.int64)
            who, op = process[part][at].astype(np.int64), reads.op[after[at]].astype(np.int64)
            at_start = _sought_to_start(log, who, last_op, op)
            seeks = _sought_back(log, last[at], who, last_op, op)
            sure = at_start if seeks is None else at_start | (seeks[0] != NONE)
            reassigned = known[at] & ~sure & log.resets.between(log.partition, who, last_op, op)
            known[at] = (known[at] & ~reassigned) | sure
            last[at[at_start]] = NONE
            between_polls = _unknown_between_polls(log, last, after, ~crossing)
            known[between_polls] = False
            if any_lost:
                known &= ~truncated[reads.send[after]] & ~((last != NONE) & truncated[reads.send[last]])
            pairs = ReadPairs(last, after, ~crossing, (int(reassigned.sum()), len(between_polls)))
            if seeks is not None:
                pairs = _after_seeks(log, pairs, at, *seeks)
            yield pairs if known.all() else replace(pairs.pick(known), unknown=pairs.unknown)


def _sought_to_start(log: PartitionLog, process: Ints, first: Ints, last: Ints) -> Bools:
    """True for each process that went back to the log's start between two operations, so that it goes on from there."""
    if not isinstance(log.resets, Positions):
        return np.zeros(len(process), dtype=np.bool_)
    return log.resets.from_start(log.partition, process, first, last)


def _sought_back(log: PartitionLog, before: Any, process: Ints, first: Ints, last: Ints) -> tuple[Ints, Ints] | None:
    """The seek by which each process surely went back between two operations, and the offset to which it went (NONE: it did not).

    None: nobody sought in this partition.
    """
    if not isinstance(log.resets, Positions) or not log.resets.moved:
        return None
    seek, sought = log.resets.last_seek(log.partition, process, first, last)
    known = (before != NONE) & (sought != NONE)
    back = known & (sought <= log.reads.offset[before] + 1)
    ahead = known & ~back  # of its last read, and perhaps not of all that it had read
    if ahead.any():
        back[ahead] = sought[ahead] <= _highest_reads(log, process[ahead], seek[ahead]) + 1
    return (np.where(back, seek, NONE), np.where(back, sought, NONE)) if back.any() else None


def _highest_reads(log: PartitionLog, process: Ints, before: Ints) -> Ints:
    """The highest offset that each process had read before an operation; before each one it had read something."""
    highest = np.full(len(process), NONE, dtype=np.int64)
    for number in np.unique(process).tolist():
        own = true_positions(log.reads.process == number)
        own = own[np.argsort(log.reads.op[own], kind="stable")]
        reached, which = np.maximum.accumulate(log.reads.offset[own]), process == number
        highest[which] = reached[np.searchsorted(log.reads.op[own], before[which]) - 1]
    return highest


def _after_seeks(log: PartitionLog, pairs: ReadPairs, at: Ints, seek: Ints, sought: Ints) -> ReadPairs:
    """Pairs of which those at some places come after seeks: they go on from the highest read below the offset sought."""
    which = true_positions(seek != NONE)
    below = np.searchsorted(log.reads.offset, sought[which]) - 1  # NONE, if nothing lies below
    if log.parts is not None and len(below):
        outside = (below != NONE) & (
            log.parts.numbers(log.reads.op[below]) != log.parts.numbers(log.reads.op[pairs.after[at[which]]])
        )
        below[outside] = NONE
    before, seeks = pairs.before.copy(), np.full((2, len(pairs.before)), NONE, dtype=np.int64)
    before[at[which]] = below
    seeks[:, at[which]] = seek[which], sought[which]
    return replace(pairs, before=before, seek=seeks[0], sought=seeks[1])


def _unknown_between_polls(log: PartitionLog, before: Any, after: Any, same_operation: Bools) -> Any:
    """Pairs inside an operation, from one poll to the next, between which nobody knows where the consumer stood."""
    if not isinstance(log.resets, Positions) or not (log.resets.any_group or len(log.resets.unheard)):
        return np.empty(0, dtype=np.int64)
    at, reads = true_positions(same_operation), log.reads
    first, second = before[at], after[at]
    who, op = (values[second].astype(np.int64) for values in (reads.process, reads.op))
    return at[log.resets.unknown_inside(log.partition, who, op, reads.ended[first] != reads.ended[second])]


def _in_order_of_return(log: PartitionLog) -> Iterator[Any]:
    """Positions of reads that have a place, by process, operation, and the order in which its polls returned them.

    Whole processes at a time, so that a sort needs little memory: many small processes go together until they have `SLICE` reads,
    a larger one goes alone. The three stable sorts by one key each, the last key first, are a sort by all three keys.
    """
    process = log.arrays.stored(_as_16_bits(log.reads.process))
    by_process = log.arrays.stored(_by_process(process, log.reads.arrival.dtype))
    starts = true_positions(_changes(process[by_process])).tolist()
    group = 0  # where the small processes begin that were not yielded yet
    for start, stop in pairwise([*starts, len(by_process)]):
        if stop - group > SLICE or stop == len(by_process):
            for some in ((group, start), (start, stop)) if stop - start > SLICE else ((group, stop),):
                order = _with_place(log, by_process[slice(*some)])
                several = len(order) and process[order[0]] != process[order[-1]]
                for key in (log.reads.arrival, log.reads.op, *([process] if several else [])):
                    order = _sorted_by(key, order)
                yield order
            group = stop


def _by_process(process: Any, kind: Any) -> Any:
    """The positions of reads by process, of one process as they come: a counting sort, some millions at a time."""
    if process.dtype != np.uint16 or len(process) < 1 << 16:  # there may be more processes than reads
        return np.argsort(process, kind="stable").astype(kind)
    order = np.empty(len(process), dtype=kind)
    counts = [np.bincount(process[part], minlength=1 << 16) for part in slices(len(process))]
    different = true_positions(sum(counts, np.zeros(1 << 16, dtype=np.int64)))
    if len(different) <= FEW:
        begin = 0
        for one in different.tolist():
            for part in slices(len(process)):
                some = true_positions(process[part] == one)
                order[begin : begin + len(some)] = part.start + some
                begin += len(some)
        return order
    next_place = np.cumsum(sum(counts, np.zeros(1 << 16, dtype=np.int64)))
    next_place = np.r_[0, next_place[:-1]]  # of each process
    for part, count in zip(slices(len(process)), counts, strict=True):
        some = true_positions(count)
        within = np.argsort(process[part], kind="stable")
        order[_ranges(next_place[some], (next_place + count)[some])] = part.start + within
        next_place += count
    return order


def _sorted_by(key: Any, order: Any) -> Any:
    """Positions by a key of theirs; equal ones stay as they are. Nothing is moved where they are sorted already."""
    values = key[order]
    if (values[1:] >= values[:-1]).all():
        return order
    return order[np.argsort(values, kind="stable")]


def _with_place(log: PartitionLog, order: Any) -> Any:
    """Reads that have a place in the version order of their own isolation level."""
    if log.shared(_all_with_place):
        return order
    return np.concatenate([order[:0], *(_those_with_place(log, order[part]) for part in slices(len(order)))])


def _all_with_place(log: PartitionLog) -> bool:
    """True if every read has a place, as in most partitions."""
    if len(log.reads.unsent) or (len(log.reads) and log.reads.offset[0] == NONE):  # they are sorted by offset
        return False
    return not ((log.seen & ~log.shared(fixed)) | (log.seen_committed & log.shared(aborted))).any()


def _those_with_place(log: PartitionLog, order: Any) -> Any:
    order = order[(log.reads.send[order] >= 0) & (log.reads.offset[order] != NONE)]
    writer = log.reads.send[order]
    return order[log.shared(fixed)[writer] & ~(log.shared(aborted)[writer] & log.reads.committed[order])]


def _as_16_bits(process: Any) -> Any:
    """Process numbers as 16 bits where they fit: numpy sorts those without comparing."""
    if not len(process) or process.max() - process.min() >= 1 << 16:
        return process
    return (process - process.min()).astype(np.uint16)


def _changes(values: Any) -> Bools:
    """True for a value that differs from the one before it; the first one does."""
    changes = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return changes


def _last_read_of_ok_operation(log: PartitionLog, order: Any, new_operation: Bools, new_process: Bools) -> Any:
    """The predecessor of the first read of each operation: the last read of the process's last operation that ended ok (NONE:
    there is none).

    A client that seeks back after a failed operation goes on where the last good one ended. Arrays have an entry per operation;
    a running maximum over the numbers of the ok ones tells the last ok one so far, and is NONE or too low where that belongs to
    another process.
    """
    starts = true_positions(new_operation)
    ends = np.r_[starts[1:], len(order)] - 1
    number = np.arange(len(starts))
    ok = log.reads.status[order[starts]] == COMMITTED
    last_ok = np.maximum.accumulate(np.where(ok, number, NONE))
    before = np.r_[NONE, last_ok[:-1]]
    first_of_process = np.maximum.accumulate(np.where(new_process[starts], number, 0))
    own = before >= first_of_process
    return np.where(own, order[ends[np.where(own, before, 0)]], NONE)


# --------------------------------------------------------------------------------------------------
# Skips
# --------------------------------------------------------------------------------------------------
class _RequiredRecords:
    """The records that no reader at an isolation level may pass over (`due`), counted along the offsets that were read.

    A required record was read, so it lies at an offset that has a rank (`_ranks`). `_required[r]` says whether the offset of rank
    r holds one, and `_count[r]` how many of the ranks 0 to r do. From a read at rank a to one at rank b, the required records in
    between are those numbered `_count[a]` to `_count[b] - _required[b] - 1`: counted up to and with a, and below b.

    offsets read   5  7  9  9  12      rank of each read   0  1  2  2  3
    required       7 and 9             _required   0 1 1 0      _count   0 1 2 2
    A process that reads 5 and then 12 skips the records 0 and 1; one that reads 7 and then 9 skips none (from 1 to 2-1-1).
    """

    def __init__(self, log: PartitionLog, ranks: Any, committed: bool) -> None:
        self._log, self._rank = log, ranks
        required = with_false(due(log, committed))  # `send` is NONE for records of nobody, and so looks up the last entry
        send_at = log.shared(_send_at_each_rank)
        if send_at is None:
            send_at = np.full(int(self._rank[-1]) + 1, NONE, dtype=log.reads.send.dtype)
            for part in slices(len(log.reads)):
                which = part.start + true_positions(required[log.reads.send[part]] & (log.reads.offset[part] != NONE))
                send_at[self._rank[which]] = log.reads.send[which]
        self._required = required[send_at]
        self._sends = log.arrays.stored(send_at[self._required])
        self._count = log.arrays.stored(np.cumsum(self._required, dtype=self._rank.dtype))

    def skips(self, pairs: ReadPairs) -> Skips:
        """Pairs among some that pass over such records."""
        start = np.where(pairs.before != NONE, self._count[self._rank[pairs.before]], self._before_start(pairs.after))
        rank = self._rank[pairs.after]
        stop = self._count[rank] - self._required[rank]
        over = true_positions(stop > start)
        start, stop = start[over].astype(np.int64), np.minimum(stop[over], start[over] + MOST_MISSING).astype(np.int64)
        return Skips(pairs.pick(over), self._sends[_ranges(start, stop)], stop - start)

    def _before_start(self, reads: Any) -> Any:
        """The number of required records below the start of each read's partition: none, but in a joined log."""
        if (parts := self._log.parts) is None:
            return 0
        below = np.searchsorted(self._log.reads.offset, np.arange(len(parts)) * parts.offsets)
        counts = np.concatenate([[0], self._count])[np.concatenate([[0], self._rank + 1])[below]]
        return counts[parts.numbers(self._log.reads.op[reads])]


def _send_at_each_rank(log: PartitionLog) -> Any:
    """The send that lies at each offset that was read; None where reads found several at one, or have no offset."""
    reads, first = log.reads, _changes(log.reads.offset)
    several = not first[1:].all() and ((reads.send[1:] != reads.send[:-1]) & ~first[1:]).any()
    return None if several or reads.offset[0] == NONE else reads.send[first]


def _ranks(log: PartitionLog) -> Any:
    """The rank of each read's offset among all offsets that were read. Reads are sorted by offset."""
    offset, kind = log.reads.offset, log.reads.arrival.dtype

    def ranks() -> Iterator[Any]:
        rank = NONE
        for part in slices(len(offset)):
            changes = _changes(offset[part])
            changes[0] = not part.start or offset[part.start] != offset[part.start - 1]
            some = np.cumsum(changes, dtype=kind)
            some += rank
            rank = int(some[-1])
            yield some

    return log.arrays.joined(ranks, len(offset), kind)


def _ranges(start: Ints, stop: Ints) -> Ints:
    """start[0], ..., stop[0] - 1, start[1], ...: a running number, moved for each range to where the range begins."""
    counts = stop - start
    return np.asarray(np.repeat(start - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum())), dtype=np.int64)
