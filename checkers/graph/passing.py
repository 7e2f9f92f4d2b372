"""The lso edges of one partition in a size that is linear but for a logarithm; listed, there may be one for each pair.

A transaction has an edge to every reader that got something above its lowest record, and began before the transaction was over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fencepost.checkers.model.arrays import Ints
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
        readers = sorted(highest, key=lambda op: (-highest[op], op))
        self._heights = np.array([-highest[op] for op in readers], dtype=np.int64)
        begin = np.array([begins[op] for op in readers], dtype=np.int64)
        self._begins, rank = np.unique(begin, return_inverse=True)
        self.nodes: list[tuple[int, int]] = []
        self._blocks: list[tuple[int, int, Ints]] = []  # of each size: the size, the first node, and block and begin of each node
        size = 1
        while size * FAN <= len(readers):
            size *= FAN
        while size:
            self._add_blocks(size, np.array(readers, dtype=np.int64), rank)
            size //= FAN

    def _add_blocks(self, size: int, readers: Ints, rank: Ints) -> None:
        """Add the nodes of all blocks of a size. Block and begin of a node are one number, which rises from node to node."""
        whole = len(readers) // size * size
        block = np.arange(whole) // size
        key = block * self._scale + rank[:whole]
        chain = np.argsort(key, kind="stable")
        first = len(self.nodes)
        before = np.where(np.arange(whole) % size, first + np.arange(whole) - 1, NONE)
        self.nodes.extend(zip(readers[:whole][chain].tolist(), before.tolist(), strict=True))
        self._blocks.append((size, first, key[chain]))

    @property
    def _scale(self) -> int:
        return len(self._begins) + 1

    def past(self, lows: Sequence[int], ends: Sequence[int]) -> list[list[int]]:
        """For each record, and the end of its transaction, the nodes from which all readers past it are reached that began no
        later.
        """
        count = np.searchsorted(self._heights, -np.array(lows, dtype=np.int64), side="left")
        begun = np.searchsorted(self._begins, np.array(ends, dtype=np.int64), side="right")
        start, columns = np.zeros_like(count), list[Ints]()
        for size, first, keys in self._blocks:
            while (whole := start + size <= count).any():
                block = start // size
                last = np.searchsorted(keys, block * self._scale + begun, side="left")  # one behind the last that had begun
                columns.append(np.where(whole & (last > block * size), first + last - 1, NONE))
                start += size * whole
        nodes = np.array(columns, dtype=np.int64).reshape(len(columns), len(count)).T
        some = nodes != NONE
        bounds, values = np.cumsum(some.sum(axis=1)).tolist(), nodes[some].tolist()
        return [values[low:high] for low, high in zip([0, *bounds], bounds, strict=False)]
