"""Spans in which cycles can lie: every operation gets one point in its own interval, only edges that go back can close a cycle.

docs/graphs.md has the proof. All arrays are small beside the records: one number per operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fencepost.checkers.history.overview import Overview
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.values import FOREVER, NONE
from fencepost.checkers.views.log import slices


@dataclass(frozen=True)
class SpanSet:
    """The spans of a run: ranges of ranks (both ends included), rising and apart. No cycle leaves its span."""

    low: Ints
    high: Ints

    def __len__(self) -> int:
        return len(self.low)

    @property
    def sizes(self) -> Ints:
        return np.asarray(self.high - self.low + 1)

    def of(self, ranks: Ints) -> Ints:
        """The span in which each rank lies, NONE for none: the last one that begins at or below it, unless that ends below it."""
        if not len(self.low):
            return np.full(len(ranks), NONE, dtype=np.int64)
        at = np.searchsorted(self.low, ranks, side="right") - 1
        return np.where((at >= 0) & (ranks <= self.high[at]), at, NONE)

    def around(self, source: Any, target: Any) -> tuple[Any, Ints]:
        """Pairs of ranks that lie in one span, as positions, and which span that is."""
        span = self.of(source)
        some = np.flatnonzero(span != NONE)  # mostly few, so that the others' second ranks need not be looked up
        span = span[some]
        same = span == self.of(target[some])
        return some[same], span[same]

    def pick(self, which: Any) -> SpanSet:
        return SpanSet(self.low[which], self.high[which])


def merge(low: Ints, high: Ints) -> SpanSet:
    """Ranges that share a rank become one: a cycle may pass from one to the other there.

    Sorted by `low`, and with `high` as a running maximum: a range begins a new span where its `low` lies above all highs before
    it, and the span ends at the running maximum right before the next one begins.
    """
    if not len(low):
        return SpanSet(low, high)
    order = np.argsort(low, kind="stable")
    low, high = low[order], np.maximum.accumulate(high[order])
    starts = np.flatnonzero(np.r_[True, low[1:] > high[:-1]])
    return SpanSet(low[starts], high[np.r_[starts[1:], len(low)] - 1])


def merge_all(parts: Sequence[SpanSet]) -> SpanSet:
    """The ranges of several spans, merged."""
    nothing = np.empty(0, dtype=np.int64)
    return merge(np.concatenate([nothing, *(p.low for p in parts)]), np.concatenate([nothing, *(p.high for p in parts)]))


# --------------------------------------------------------------------------------------------------
# Points
# --------------------------------------------------------------------------------------------------
def ends(view: Overview, part: slice = slice(None)) -> Ints:
    """The time at which each operation (of a part) was surely over: the completion of an ok one; anything else may act later, so
    never.
    """
    end = view.end[part]
    return np.where(view.ok[part] & (end != NONE), np.maximum(end, view.time[part]), FOREVER)


def points(view: Overview, firsts: Ints) -> Ints:
    """One point inside [invocation, surely over] of each operation.

    The completion, but just before any of its records was first returned (`firsts`, FOREVER for never): so a reader comes after
    its writers, and a transaction that hung becomes short. Without completion and reader: the decision, else the invocation.
    """
    count = len(firsts)
    return np.asarray(view.arrays.joined(lambda: (_points(view, firsts[part], part) for part in slices(count)), count, np.int64))


def _points(view: Overview, firsts: Ints, part: slice) -> Ints:
    begin, end = view.time[part], view.end[part]
    over, unread = ends(view, part), firsts == FOREVER
    without_bound = np.where(end != NONE, end, np.maximum(view.decided[part], begin))  # neither over nor read
    completion = np.where(over != FOREVER, over, np.where(unread, without_bound, FOREVER))
    before_first_return = np.where(unread, FOREVER, firsts - 1)
    return np.maximum(begin, np.minimum(completion, before_first_return))


def reading_points(placed: Ints, latest: Ints, pure: Bools) -> Ints:
    """Points for cycles without process and realtime edges, which bind no point to its interval.

    A reader that writes nothing comes right after the latest commit among its records, however late it polled: so the
    next version's writer lies after it. `latest` is NONE for operations that read nothing.
    """
    points: Ints = latest.copy()
    for part in slices(len(points)):
        np.copyto(points[part], placed[part], where=~pure[part] | (latest[part] == NONE))
    return points


def rank(placed: Ints, begin: Ints) -> Any:
    """Operations (in order of index) to their place in the order of points; ties: the earlier begun, then the lower index."""
    in_time = (begin[part.start + 1 : part.stop + 1] >= begin[part.start : part.stop + 1][:-1] for part in slices(len(begin)))
    order = np.argsort(placed, kind="stable") if all(map(np.all, in_time)) else np.lexsort((begin, placed))
    ranks = np.empty(len(order), dtype=np.int32)
    for part in slices(len(order)):
        ranks[order[part]] = np.arange(part.start, part.stop, dtype=np.int32)
    return ranks
