"""Work that several threads or processes do at once, its results in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from itertools import chain, islice
from typing import TypeVar

MOST_CORES = 8
Made = TypeVar("Made")


def cores() -> int:
    """The number of processes that may be busy at once."""
    return min(os.cpu_count() or 1, MOST_CORES)


def in_turn(pool: Executor, make: Callable[..., Made], given: Iterable[tuple[object, ...]]) -> Iterator[Made]:
    """The results of a function for these arguments, in their order. A few are under way at a time, so that memory stays bounded.

    A single piece of work is done here.
    """
    rest = iter(given)
    first = list(islice(rest, 2))
    if len(first) == 1:
        yield make(*first[0])
        return
    under_way: deque[Future[Made]] = deque()
    for arguments in chain(first, rest):
        under_way.append(pool.submit(make, *arguments))
        if len(under_way) > cores():
            yield under_way.popleft().result()
    while under_way:
        yield under_way.popleft().result()
