"""Records that consumers surely passed, in a history that lacks what some polls returned.

Such a poll may have returned a record that nobody else got, and not each record that it may have returned did it return. So a
guard for the whole history would hide every loss. What is surely not returned by it, and what is surely passed whatever it
returned:

1. Per time and position: a poll returns nothing that was sent after it had ended, nothing of a partition that its consumer is not
   assigned, and nothing at or below the consumer's position (`_known_until`).
2. Per stretch: reads that surely follow each other leave nothing between them that the consumer did not get. Stretches of several
   consumers that overlap are one: wherever in it the record lies, some consumer passed it (`_stretches`).

A record without a known place lies above each record that was in the log before it was sent, and below each that was sent after
it was in the log.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fencepost.checkers.history.positions import BlindPolls, Positions
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.values import COMMITTED, FOREVER, NONE
from fencepost.checkers.views.log import PartitionLog


@dataclass(frozen=True)
class Steps:
    """Reads in the order in which each process got them, each with the step that led to it.

    order: positions of the reads.
    low: where the consumer was before, an offset (NONE: at the partition's start).
    sure: it went on from there.
    start: it went on from the partition's start.
    """

    order: Ints
    low: Ints
    sure: Bools
    start: Bools


@dataclass(frozen=True)
class Stretches:
    """Stretches of offsets [low, high) in which consumers passed every place; sorted, and apart from each other.

    low: NONE is the partition's start.
    """

    low: Ints
    high: Ints

    def ends(self, offset: Ints) -> Ints:
        """The end of the stretch that holds each offset (NONE: none does)."""
        if not len(self.low):
            return np.full(len(offset), NONE, dtype=np.int64)
        at = np.searchsorted(self.low, offset, side="right") - 1
        return np.where((at >= 0) & (offset < self.high[at]), self.high[at], NONE)


def passed_over(log: PartitionLog) -> Bools:
    """Sends of known place that some consumer passed, or that no poll without known result may have returned."""
    place = log.place
    perhaps = place > log.shared(_known_until)
    return np.asarray((place != NONE) & (~perhaps | (log.shared(_stretches).ends(place) != NONE)))


def last_sent_above(log: PartitionLog) -> Ints:
    """The time at which the last of the records was sent that are known to have come after each send in some consumer's polls.

    A send that was in the log by then lies below that record, and so was passed (NONE: nobody knows of such a record). It is for
    sends of unknown place.
    """
    ends = log.shared(_stretches).ends(_lower_bounds(log))
    until = np.maximum(ends, log.shared(_known_until))
    offset, sent = log.shared(_latest_sent)
    last = np.r_[NONE, sent][np.searchsorted(offset, until, side="right")]
    return np.where(until == FOREVER, int(log.sends.began[log.seen].max(initial=NONE)), last)


# --------------------------------------------------------------------------------------------------
# Bounds by time
# --------------------------------------------------------------------------------------------------
def appended_by(log: PartitionLog) -> Ints:
    """The time at which each send was surely in the log, if ever: its acknowledgement, or the ok end of its operation."""
    acknowledged, over = (np.where(time != NONE, time, FOREVER) for time in (log.sends.ended, log.sends.over))
    return np.minimum(acknowledged, over)


def _lower_bounds(log: PartitionLog) -> Ints:
    """The highest offset at which a record was read that was in the log before each send began (NONE: there is none)."""
    reads = log.reads
    there = np.where(reads.ended != NONE, reads.ended, FOREVER)
    low, high = log.places_read
    single = np.r_[(low == high) & ((log.sends.offset == NONE) | (log.sends.offset == low)), False][reads.send]
    there[single] = np.minimum(there, np.r_[appended_by(log), FOREVER][reads.send])[single]
    order = np.argsort(there, kind="stable")
    highest = np.maximum.accumulate(reads.offset[order].astype(np.int64))
    return np.asarray(np.r_[NONE, highest][np.searchsorted(there[order], log.sends.began, side="left")])


def _latest_sent(log: PartitionLog) -> tuple[Ints, Ints]:
    """The offsets of reads, rising, and the latest time at which a record up to each was sent (NONE: nobody knows)."""
    placed = (log.reads.offset != NONE) & (log.reads.send >= 0)
    return log.reads.offset[placed], np.maximum.accumulate(log.sends.began[log.reads.send[placed]])


# --------------------------------------------------------------------------------------------------
# Polls without known result
# --------------------------------------------------------------------------------------------------
def _known_until(log: PartitionLog) -> Ints:
    """The offset, for each send, up to which every poll without known result that may have returned it had come before.

    A send at or below it was not returned by any (FOREVER: no such poll can have returned it; NONE: nobody knows).
    """
    polls = log.resets.blind_polls(log.partition) if isinstance(log.resets, Positions) else BlindPolls()
    latest_first = np.argsort(-polls.ended, kind="stable")
    lowest = np.minimum.accumulate(_positions_before(log, polls)[latest_first])
    ended = np.sort(polls.ended)
    later = len(ended) - np.searchsorted(ended, log.sends.began, side="left")  # polls that ended after the send began
    return np.asarray(np.r_[FOREVER, lowest][later])


def _positions_before(log: PartitionLog, polls: BlindPolls) -> Ints:
    """The offset up to which the consumer of each poll surely had come when it polled (NONE: nobody knows)."""
    reads, positions = log.reads, log.resets
    if not isinstance(positions, Positions) or not len(reads) or not len(polls.op):
        return np.full(len(polls.op), NONE, dtype=np.int64)
    order = log.shared(_steps).order
    process, op = (values[order].astype(np.int64) for values in (reads.process, reads.op))
    key = _in_one(process, op)
    at = np.maximum(np.searchsorted(key, _in_one(polls.process, polls.op), side="left") - 1, 0)
    known = (process[at] == polls.process) & (op[at] < polls.op)
    known &= ~positions.members.hold(polls.process, polls.op, polls.op)  # it may have had rebalances of which nobody knows
    known &= ~positions.between(log.partition, polls.process, op[at], polls.op)
    if log.settings.rewinds:
        known &= reads.status[order[at]] == COMMITTED
    return np.where(known, reads.offset[order[at]], NONE)


def _in_one(process: Ints, op: Ints) -> Ints:
    """Process and operation in one number."""
    return process * (1 << 40) + op


# --------------------------------------------------------------------------------------------------
# Stretches
# --------------------------------------------------------------------------------------------------
def _stretches(log: PartitionLog) -> Stretches:
    """The stretches over which consumers surely read on: from a record to the next, or from the partition's start to a first."""
    steps = log.shared(_steps)
    low, high = steps.low, log.reads.offset[steps.order].astype(np.int64)
    some = steps.sure & (low < high) & (steps.start | (low != NONE))  # NONE is no place, unless it stands for the start
    order = np.argsort(low[some], kind="stable")
    low, high = low[some][order], np.maximum.accumulate(high[some][order])
    first = np.r_[True, low[1:] > high[:-1]][: len(low)]
    return Stretches(low[first], high[np.r_[first[1:], True][: len(low)]])


def _steps(log: PartitionLog) -> Steps:
    reads, positions = log.reads, log.resets
    order = np.lexsort((reads.arrival, reads.op, reads.process))
    if not isinstance(positions, Positions):
        return Steps(order, np.full(len(order), NONE), *(np.zeros(len(order), dtype=np.bool_) for _ in range(2)))
    process, op, offset = (values[order].astype(np.int64) for values in (reads.process, reads.op, reads.offset))
    fresh = np.r_[True, process[1:] != process[:-1]][: len(order)]
    before = np.where(fresh, NONE, np.r_[NONE, op[:-1]][: len(order)])
    low = np.where(fresh, NONE, np.r_[NONE, offset[:-1]][: len(order)])
    same = before == op
    moved = ~same & positions.between(log.partition, process, before, op)
    ended = reads.ended[order]
    moved |= same & positions.unknown_inside(log.partition, process, op, same & (ended != np.roll(ended, 1)))
    start = positions.from_start(log.partition, process, before, op) | (fresh & log.settings.from_start & ~moved)
    return Steps(order, np.where(start, NONE, low), (~fresh & ~moved) | start, start)
