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
class RecordNames:
    """Names of records as columns.

    key: code of the partition.
    number: the value, where it is a whole number.
    text: the value, where it is none.
    """

    key: Ints
    number: pa.Array
    text: pa.Array

    def at(self, which: Any) -> RecordNames:
        mask = pa.array(which)
        return RecordNames(self.key[which], self.number.filter(mask), self.text.filter(mask))

    def __len__(self) -> int:
        return len(self.key)

    def values(self) -> pa.Array:
        """The values as text."""
        return pc.fill_null(pc.coalesce(self.text, pc.cast(self.number, pa.string())), "nil")


class Identities:
    """Exact: sorted arrays of everything that was sent, no hashing. The first send of a name keeps it.

    ambiguous: identities of all sends whose name was sent more than once, so that nobody can tell which of them a reader got.
    """

    def __init__(self, names: Sequence[RecordNames], identities: Sequence[Ints]) -> None:
        self._texts = pc.unique(pa.chunked_array([name.text for name in names], pa.string()).drop_null())
        coded = [self._coded(name) for name in names]
        key, number = (np.concatenate([pair[place] for pair in coded]) for place in (0, 1))
        self._low, self._span, self._ranked = _space(key, number)
        packed, _ = self._packed(key, number)
        order = np.argsort(packed, kind="stable")
        self._sorted, self._v = packed[order], np.concatenate(identities)[order]
        same = self._sorted[1:] == self._sorted[:-1]
        self.ambiguous = np.unique(np.concatenate([self._v[:-1][same], self._v[1:][same]]))
        self._unknown: dict[tuple[int, int | str | None], int] = {}

    def find(self, names: RecordNames) -> Ints:
        """The identity of each record, NONE of those that nobody sent."""
        if not len(self._sorted):
            return np.full(len(names), NONE, dtype=np.int64)
        packed, possible = self._packed(*self._coded(names))
        at = _places(self._sorted, packed)
        return np.where(possible & (self._sorted[at] == packed), self._v[at], NONE)

    def unknown(self, names: RecordNames) -> Ints:
        """Numbers for records that nobody sent: the same for the same record, wherever it was read."""
        whole, texts = names.number.to_pylist(), names.text.to_pylist()
        values = [number if text is None else text for number, text in zip(whole, texts, strict=True)]
        pairs = zip(names.key.tolist(), values, strict=True)
        return np.array([self._unknown.setdefault(pair, FIRST_UNKNOWN - len(self._unknown)) for pair in pairs], dtype=np.int64)

    def _coded(self, names: RecordNames) -> tuple[Ints, Ints]:
        """Texts get numbers too, in a space of their own: an odd key."""
        is_text = names.text.is_valid().to_numpy(zero_copy_only=False)
        number = pc.fill_null(names.number, NONE).to_numpy(zero_copy_only=False)
        if is_text.any():
            codes = pc.fill_null(pc.index_in(names.text, value_set=self._texts), NONE).to_numpy(zero_copy_only=False)
            number = np.where(is_text, codes, number)
        return names.key * 2 + is_text, number.astype(np.int64)

    def _packed(self, key: Ints, number: Ints) -> tuple[Ints, Any]:
        """Key and number in one, and whether there was such a number among those that were sent."""
        if self._ranked is None:
            rank, possible = number - self._low, (number >= self._low) & (number - self._low < self._span)
        elif len(self._ranked):
            rank = _places(self._ranked, number)
            possible = self._ranked[rank] == number
        else:
            rank, possible = number, np.zeros(len(number), dtype=np.bool_)
        return key * self._span + rank, possible


def _space(key: Ints, number: Ints) -> tuple[int, int, Ints | None]:
    """The packing of key and number into an integer: lowest number and span; when that is too wide, the numbers are ranked."""
    if not len(number):
        return 0, 1, np.empty(0, dtype=np.int64)
    low, span = int(number.min()), int(number.max()) - int(number.min()) + 1
    if span * (int(key.max()) + 1) < 1 << 62 and abs(low) < 1 << 62:
        return low, span, None
    ranked = np.unique(number)
    return 0, len(ranked), ranked


def _places(values: Ints, wanted: Ints) -> Ints:
    """The place of each wanted number in the sorted values. Searched in order, which spares the caches."""
    order = np.argsort(wanted, kind="stable")
    places = np.empty(len(wanted), dtype=np.int64)
    places[order] = np.searchsorted(values, wanted[order])
    return np.minimum(places, len(values) - 1)
