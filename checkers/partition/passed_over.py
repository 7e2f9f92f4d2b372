"""Records that consumers surely passed over: for histories that do not record what every poll returned."""

from __future__ import annotations

import numpy as np

from checkers.arrays import Bools
from checkers.partition.log import NONE, PartitionLog
from checkers.partition.positions import Positions


def passed_over(log: PartitionLog) -> Bools:
    """Sends over whose place some consumer read on: from one record to the next, or from the partition's start to its first.

    What was sent in a transaction counts only where a read_committed reader passed.

    Reads in the order in which each process got them give stretches of offsets [low, high): a process got `low` and then `high`,
    and nothing may lie between them unread. A stretch counts only where the process surely went on from the one to the other, and
    a send is passed over when more stretches begin at or below its place than end at or below it.
    """
    reads, positions = log.reads, log.resets
    if not isinstance(positions, Positions):
        return np.zeros(len(log.sends), dtype=np.bool_)
    order = np.lexsort((reads.arrival, reads.op, reads.process))
    process, op, offset = (values[order].astype(np.int64) for values in (reads.process, reads.op, reads.offset))
    fresh = np.r_[True, process[1:] != process[:-1]][: len(order)]
    before = np.where(fresh, NONE, np.r_[NONE, op[:-1]][: len(order)])
    low = np.where(fresh, NONE, np.r_[NONE, offset[:-1]][: len(order)])
    known = ~fresh & ~positions.between(log.partition, process, before, op)
    ended = reads.ended[order]
    several = (before == op) & (ended != np.roll(ended, 1))
    known &= ~positions.rebalance_between(log.partition, process, op, several)
    start = positions.from_start(log.partition, process, before, op) | (fresh & log.settings.from_start)
    low = np.where(start, NONE, low)
    some = (known | start) & (low < offset)
    committed = reads.committed[order]
    within = [_within(log, low[some & which], offset[some & which]) for which in (committed, np.ones(len(order), np.bool_))]
    return np.asarray((log.place != NONE) & np.where(log.sends.txn, *within))


def _within(log: PartitionLog, low: np.ndarray, high: np.ndarray) -> Bools:
    """Sends whose place lies inside one of these stretches: at its beginning, where the reader got another record, or above."""
    begins = np.searchsorted(np.sort(low), log.place, side="right")
    ends = np.searchsorted(np.sort(high), log.place, side="right")
    return np.asarray(begins > ends)
