"""Records that consumers surely passed over: for histories that do not record what every poll returned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fencepost.checkers.history.positions import Positions
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.values import NONE
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


def passed_over(log: PartitionLog) -> Bools:
    """Sends over whose place some consumer read on: from one record to the next, or from the partition's start to its first.

    Reads in the order in which each process got them give stretches of offsets [low, high): a process got `low` and then `high`,
    and nothing may lie between them unread. A stretch counts only where the process surely went on from the one to the other, and
    a send is passed over when more stretches begin at or below its place than end at or below it.
    """
    steps = log.shared(_steps)
    low, high = steps.low, log.reads.offset[steps.order]
    some = steps.sure & (low < high) & (steps.start | (low != NONE))  # NONE is no place, unless it stands for the start
    begins = np.searchsorted(np.sort(low[some]), log.place, side="right")
    ends = np.searchsorted(np.sort(high[some]), log.place, side="right")
    return np.asarray((log.place != NONE) & (begins > ends))


def passed_from_start(log: PartitionLog) -> Bools:
    """Reads (a mask) to which a consumer surely came from the partition's start, step by step: it passed all that lies below."""
    steps, count = log.shared(_steps), np.arange(len(log.reads))
    last_start = np.maximum.accumulate(np.where(steps.start, count, NONE))
    last_gap = np.maximum.accumulate(np.where(steps.sure, NONE, count))
    passed = np.zeros(len(log.reads), dtype=np.bool_)
    passed[steps.order[last_start > last_gap]] = True
    return passed


def _steps(log: PartitionLog) -> Steps:
    reads, positions = log.reads, log.resets
    order = np.lexsort((reads.arrival, reads.op, reads.process))
    if not isinstance(positions, Positions):
        return Steps(order, np.full(len(order), NONE), *(np.zeros(len(order), dtype=np.bool_) for _ in range(2)))
    process, op, offset = (values[order].astype(np.int64) for values in (reads.process, reads.op, reads.offset))
    fresh = np.r_[True, process[1:] != process[:-1]][: len(order)]
    before = np.where(fresh, NONE, np.r_[NONE, op[:-1]][: len(order)])
    low = np.where(fresh, NONE, np.r_[NONE, offset[:-1]][: len(order)])
    known = ~fresh & ~positions.between(log.partition, process, before, op)
    ended = reads.ended[order]
    several = (before == op) & (ended != np.roll(ended, 1))
    known &= ~positions.rebalance_between(log.partition, process, op, several)
    start = positions.from_start(log.partition, process, before, op) | (fresh & log.settings.from_start)
    return Steps(order, np.where(start, NONE, low), known | start, start)
