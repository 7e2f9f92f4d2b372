"""Operations with two or more records over all partitions, counted without a list of all operations.

A partition hands out which operations have a record here, and which have several: as two rows of bits, a bit for every operation
from its lowest to its highest, or, where only few of these have one, as their numbers. The driver lays them over each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fencepost.checkers.model.arrays import distinct

SPARSE = 64  # operations for each one that has a record, beyond which numbers take less room than bits


@dataclass(frozen=True, slots=True)
class RecordCounts:
    """The operations of a partition that have some record there, and those that have several.

    low: the lowest operation (history index), from which both count.
    bits: they are bits; else numbers.
    """

    low: int
    size: int
    some: Any
    several: Any
    bits: bool


def record_counts(ops: Any) -> RecordCounts | None:
    """The counts for the operations (history indices) of some records of a partition; None for none.

    Those of one operation follow each other.
    """
    if not len(ops):
        return None
    low = int(ops.min())
    size, again = int(ops.max()) - low + 1, ops[1:] == ops[:-1]
    if size > SPARSE * len(ops):
        return RecordCounts(low, size, np.unique(ops) - low, distinct(ops[1:][again]) - low, bits=False)
    some, several = (np.zeros(size, dtype=np.bool_) for _ in range(2))
    some[ops - low] = True
    several[ops[1:][again] - low] = True
    return RecordCounts(low, size, np.packbits(some), np.packbits(several), bits=True)


def count(counts: Iterable[RecordCounts | None]) -> tuple[int, int]:
    """The numbers of operations that have two or more records over all partitions, and of those that have one."""
    parts = [part for part in counts if part is not None]
    if not parts:
        return 0, 0
    size = max(part.low + part.size for part in parts)
    some, several = (np.zeros(size, dtype=np.bool_) for _ in range(2))
    for part in parts:
        if part.bits:
            here, more = (np.unpackbits(row, count=part.size).view(np.bool_) for row in (part.some, part.several))
            place = slice(part.low, part.low + part.size)
            several[place] |= more | (some[place] & here)
            some[place] |= here
        else:
            several[part.low + part.some[some[part.low + part.some]]] = True
            several[part.low + part.several] = True
            some[part.low + part.some] = True
    return int(several.sum()), int((some & ~several).sum())
