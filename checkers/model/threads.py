"""Several functions at once, in threads of one process.

numpy and Arrow let go of the interpreter while they work on arrays, so threads keep several cores busy and share all arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Made = TypeVar("Made")


def results(functions: Sequence[Callable[[], Made]], threads: int) -> list[Made]:
    """The values that functions return, in their order.

    They are begun in this order, so the longest should come first. Raises what the first of them in order raised, once all have
    ended.

    threads: how many run at once; 1: one after the other, in this thread.
    """
    if threads == 1:
        return [function() for function in functions]
    with ThreadPoolExecutor(threads) as pool:
        return [future.result() for future in [pool.submit(function) for function in functions]]
