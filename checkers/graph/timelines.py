"""Operations in the order in which they began, on *timelines*: one of all for realtime edges, one per process for process edges.

The followers of an operation are the rest of its timeline from the first operation on that began after its end.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fencepost.checkers.graph.layers import BY_PROCESS
from fencepost.checkers.graph.span_rows import SpanOperations
from fencepost.checkers.model.arrays import Ints
from fencepost.checkers.model.values import FOREVER


class Timelines:
    """The timelines of one order, one behind the other in one sequence; operations are numbers.

    sequence: the operations; timelines stand in the order of their first ones.
    first: of each operation, the place of its first follower in the sequence.
    stop: of each operation, the place where its timeline ends.
    place: of each operation.
    """

    def __init__(self, order: int, operations: SpanOperations) -> None:
        self.order = order
        by_begin = np.argsort(operations.begin, kind="stable")
        line = _lines(operations.process, by_begin) if order == BY_PROCESS else np.zeros(len(by_begin), dtype=np.int64)
        sequence = by_begin[np.argsort(line[by_begin], kind="stable")]
        stop = np.searchsorted(line[sequence], line, side="right")
        place = np.empty_like(sequence)
        place[sequence] = np.arange(len(sequence))
        later = np.maximum(place + 1, _began_after_end(order, operations, line, sequence))
        first = np.where(operations.end == FOREVER, stop, later)
        self.sequence: list[int] = sequence.tolist()
        self.first: list[int] = first.tolist()
        self.stop: list[int] = stop.tolist()
        self.place: list[int] = place.tolist()

    def followers(self, operation: int) -> list[int]:
        return self.sequence[self.first[operation] : self.stop[operation]]

    def leads(self, operation: int, other: int) -> bool:
        """True if the other operation follows."""
        return self.first[operation] <= self.place[other] < self.stop[operation]

    def ends(self) -> Iterator[tuple[int, int]]:
        """From each operation to the first and the last of those that follow it."""
        for operation in self.sequence:
            followers = self.followers(operation)
            for other in dict.fromkeys((*followers[:1], *followers[-1:])):
                yield operation, other


def _lines(process: Ints, by_begin: Ints) -> Ints:
    """The timeline of each operation: processes are numbered in the order of their first operations."""
    _, firsts, which = np.unique(process[by_begin], return_index=True, return_inverse=True)
    number = np.empty_like(firsts)
    number[np.argsort(firsts)] = np.arange(len(firsts))
    line = np.empty(len(process), dtype=np.int64)
    line[by_begin] = number[which]
    return line


def _began_after_end(order: int, operations: SpanOperations, line: Ints, sequence: Ints) -> Ints:
    """The place of the first operation on a timeline that began after the end of each: in a process it may begin at that time.

    Times are taken as places among all begins, so that a timeline and a time are one number, which rises along the sequence.
    """
    begins = np.unique(operations.begin)
    end = np.searchsorted(begins, operations.end, side="left" if order == BY_PROCESS else "right")
    scale = len(begins) + 1
    keys = line * scale + np.searchsorted(begins, operations.begin)
    return np.searchsorted(keys[sequence], line * scale + end, side="left")
