"""One action for many nodes or hosts at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from fencepost.harness.api import ClusterError

_AT_ONCE = 8
A = TypeVar("A")
B = TypeVar("B")


def in_parallel(act: Callable[[A], B], items: Iterable[A]) -> list[B]:
    """The results for all items, several at a time. Raises ClusterError with everything that failed."""
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        futures = [pool.submit(act, item) for item in items]
    failed = [error for future in futures if (error := future.exception())]
    unexpected = [error for error in failed if not isinstance(error, ClusterError)]
    if failed:
        raise unexpected[0] if unexpected else ClusterError("; ".join(dict.fromkeys(map(str, failed))))
    return [future.result() for future in futures]
