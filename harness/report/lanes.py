"""Lanes: intervals of time that do not overlap share one, so that a drawing has no more rows than things happened at once."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def partitioned(spans: Sequence[tuple[int, int]]) -> list[int]:
    """The lane of each interval (begin, end): the first that is free when it begins. An end is not part of its interval.

    Interval partitioning: as many lanes as intervals overlap at most.
    """
    lanes = [0] * len(spans)
    busy: list[tuple[int, int]] = []  # (end, lane)
    free: list[int] = []
    count = 0
    for place in sorted(range(len(spans)), key=lambda each: spans[each]):
        begin, end = spans[place]
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            free.append(count)
            count += 1
        lanes[place] = heapq.heappop(free)
        heapq.heappush(busy, (end, lanes[place]))
    return lanes
