"""The lso edges of one partition in a size that is linear but for a logarithm; listed, there may be one for each pair.

A transaction has an edge to every reader that got something above its lowest record, and began before the transaction was over.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from fencepost.checkers.model.values import NONE

Begins = Mapping[int, int] | Sequence[int]  # by operation
FAN = 4  # blocks of one size in a block of the next


class PassingReaders:
    """The readers of a partition as blocks of 1, 4, 16, ... neighbours, from the highest place down.

    Those that read past a record are the first so many, and so some whole blocks, few of each size. The readers of a block stand
    in the order in which they began, as a chain of nodes: those that began before a transaction was over are the first so many.

    nodes: the reader of each node, and the node before it in its block (NONE: the first one). It leads to both.
    """

    def __init__(self, highest: Mapping[int, int], begins: Begins) -> None:
        self.nodes: list[tuple[int, int]] = []
        self._readers = sorted(highest, key=lambda op: (-highest[op], op))
        self._heights = [-highest[op] for op in self._readers]
        self._sizes = [1]
        while self._sizes[0] * FAN <= len(self._readers):
            self._sizes.insert(0, self._sizes[0] * FAN)
        self._blocks = {
            (size, start): self._block(self._readers[start : start + size], begins)
            for size in self._sizes
            for start in range(0, len(self._readers) - size + 1, size)
        }

    def _block(self, readers: Sequence[int], begins: Begins) -> tuple[int, list[int]]:
        """Add the nodes of a block; returns the first of them, and when their readers began."""
        first = len(self.nodes)
        chain = sorted(readers, key=begins.__getitem__)
        self.nodes.extend((op, first + place - 1 if place else NONE) for place, op in enumerate(chain))
        return first, [begins[op] for op in chain]

    def past(self, low: int, end: int) -> list[int]:
        """The nodes from which all readers past a record are reached that began no later than its transaction was over."""
        count, start, nodes = bisect_left(self._heights, -low), 0, []
        for size in self._sizes:
            while start + size <= count:
                first, begins = self._blocks[size, start]
                before = bisect_right(begins, end)
                if before:
                    nodes.append(first + before - 1)
                start += size
        return nodes
