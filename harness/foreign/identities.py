"""Records named by (key, value), as Jepsen does it, get the identities of docs/history.md: process, operation, sequence.

Jepsen sends every value at most once to a key, so the pair names one record, and its identity is that of its send. What was read
and never sent gets a negative number of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints = NDArray[np.int64]
NONE = -1
FIRST_UNKNOWN = -2  # -1 is a record that could not be read at all


@dataclass(frozen=True)
class Names:
    """Records as columns. key: code of the partition; number: the value when it is a whole number, else the text is."""

    key: Ints
    number: pa.Array
    text: pa.Array

    def at(self, which: Any) -> Names:
        mask = pa.array(which)
        return Names(self.key[which], self.number.filter(mask), self.text.filter(mask))

    def __len__(self) -> int:
        return len(self.key)

    def values(self) -> pa.Array:
        """The values as text."""
        return pc.fill_null(pc.coalesce(self.text, pc.cast(self.number, pa.string())), "nil")


class Identities:
    """Exact: sorted arrays of everything that was sent, no hashing. The first send of a name keeps it."""

    def __init__(self, names: Sequence[Names], identities: Sequence[Ints]) -> None:
        texts = pa.chunked_array([name.text for name in names], pa.string())
        self._texts = pc.unique(texts.drop_null())
        coded = [self._coded(name) for name in names]
        key = np.concatenate([key for key, _ in coded]) if coded else np.empty(0, np.int64)
        number = np.concatenate([number for _, number in coded]) if coded else key
        v = np.concatenate(identities) if identities else key
        self._numbers = np.unique(number)
        packed = self._packed(key, np.searchsorted(self._numbers, number))
        order = np.argsort(packed, kind="stable")
        self._sorted, self._v = packed[order], v[order]
        self._unknown: dict[tuple[int, int | str | None], int] = {}

    def find(self, names: Names) -> Ints:
        """The identity of each record, NONE of those that nobody sent."""
        if not len(self._sorted):
            return np.full(len(names), NONE, dtype=np.int64)
        key, number = self._coded(names)
        rank = np.minimum(np.searchsorted(self._numbers, number), len(self._numbers) - 1)
        packed = self._packed(key, rank)
        at = np.minimum(np.searchsorted(self._sorted, packed), len(self._sorted) - 1)
        there = (self._numbers[rank] == number) & (self._sorted[at] == packed)
        return np.where(there, self._v[at], NONE)

    def unknown(self, names: Names) -> Ints:
        """Numbers for records that nobody sent: the same for the same record, wherever it was read."""
        whole, texts = names.number.to_pylist(), names.text.to_pylist()
        values = [number if text is None else text for number, text in zip(whole, texts, strict=True)]
        pairs = zip(names.key.tolist(), values, strict=True)
        return np.array([self._unknown.setdefault(pair, FIRST_UNKNOWN - len(self._unknown)) for pair in pairs], dtype=np.int64)

    def _coded(self, names: Names) -> tuple[Ints, Ints]:
        """Texts get numbers too, in a space of their own: an odd key."""
        is_text = names.text.is_valid().to_numpy(zero_copy_only=False)
        number = pc.fill_null(names.number, NONE).to_numpy(zero_copy_only=False)
        if is_text.any():
            codes = pc.fill_null(pc.index_in(names.text, value_set=self._texts), NONE).to_numpy(zero_copy_only=False)
            number = np.where(is_text, codes, number)
        return names.key * 2 + is_text, number.astype(np.int64)

    def _packed(self, key: Ints, rank: Any) -> Ints:
        return np.asarray(key * max(1, len(self._numbers)) + rank, dtype=np.int64)
