"""Lag of the readers of the main phase: what was committed and not yet returned to any of them, over time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fencepost.checkers.history.overview import Overview
from fencepost.checkers.model.arrays import Ints
from fencepost.checkers.model.values import FOREVER, NONE
from fencepost.checkers.views.log import PartitionLog, slices

POINTS = 200


def moments(overview: Overview) -> Ints:
    """At most POINTS evenly spaced times of the main phase (CLOCK_MONOTONIC ns), the first and the last operation's included."""
    main = overview.main
    if not (main & overview.writer).any():
        return np.empty(0, dtype=np.int64)
    first = int(overview.time.min(where=main, initial=FOREVER))
    last = max(int(times.max(where=main, initial=NONE)) for times in (overview.time, overview.end))
    return np.unique(first + (last - first) * np.arange(POINTS, dtype=np.int64) // (POINTS - 1))


def unseen_at(log: PartitionLog, times: Ints) -> Ints:
    """The number of promised records of one partition that were unseen at each of these sorted times.

    A record is unseen from its acknowledgement (without one, from the end of its committed transaction), in a transaction from
    the first call of commit if that came later, until a reader of the main phase, at whatever isolation level, got it for the
    first time.
    """
    if not len(times):
        return np.empty(0, dtype=np.int64)
    sends, first_read, unseen = log.sends, _first_read(log), np.zeros(len(times), dtype=np.int64)
    for part in slices(len(sends)):
        acked = log.acked[part]
        counted = log.promised[part] & (acked | (sends.over[part] != NONE))
        known = np.maximum(np.where(acked, sends.ended[part], sends.over[part]), sends.decided[part])[counted]
        read = np.maximum(first_read[part][counted], known)
        known, read = (moments if log.parts is None else log.parts.times_of(moments) for moments in (known, read))
        unseen += _count_until(known, times) - _count_until(read, times)
    return unseen


def _first_read(log: PartitionLog) -> Ints:
    """The time at which each send was first returned to a reader of the main phase (FOREVER: to none)."""
    reads = log.reads
    first = np.full(len(log.sends), FOREVER, dtype=np.int64)
    for part in slices(len(reads)):
        send, ended = reads.send[part], reads.ended[part]
        which = ~reads.final[part] & (send >= 0) & (ended != NONE)
        np.minimum.at(first, send[which], ended[which])
    return first


def _count_until(happened: Ints, times: Ints) -> Ints:
    """The number of these events that had happened by each time."""
    bins = np.bincount(np.searchsorted(times, happened), minlength=len(times) + 1)
    return np.asarray(np.cumsum(bins)[: len(times)], dtype=np.int64)


def total_unseen(times: Ints, unseen: Sequence[Ints]) -> list[list[int]]:
    """`[[time_ns, count], ...]` over all partitions; unseen: what `unseen_at` says of each partition."""
    return [list(pair) for pair in zip(times.tolist(), sum(unseen, np.zeros(len(times), dtype=np.int64)).tolist(), strict=True)]
