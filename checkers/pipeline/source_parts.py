"""Positions of sources that have several parts, as a file and an offset in it: their order, as numbers (docs/connect.md).

An entry with such a position has the kind `record at ["binlog.000003",154]`, or `offset at ...`. Checks compare numbers: the
positions of a source that a history knows, of records and of stored offsets, are numbered in their order from 0. So neighbours
there differ by one whatever lies between them in the source. Where a record also tells its number in a sequence (`sequence_by`),
that is the entry's `number` in the history, and its `sequence` here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fencepost.checkers.model.frames import pd

_AT = re.compile(r"(record|offset) at (\[.*\])", re.DOTALL)
_MOST_PARTS = 20


@dataclass(frozen=True)
class PartedPositions:
    """The positions of several parts of a history.

    known: those of each source in their order, each as its parts in words.
    sequenced: records tell their number in a sequence besides.
    """

    known: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sequenced: bool = False

    def words(self, name: str, number: int) -> str | None:
        """A position of a source by its number; None: the source has no positions of several parts."""
        known = self.known.get(name)
        return None if known is None else known[number] if 0 <= number < len(known) else str(number)


def numbered_parts(entries: pd.DataFrame, strange: str) -> tuple[pd.DataFrame, PartedPositions]:
    """Entries whose positions of several parts are numbers, with `sequence`: the number in the sequence, or of the position.

    strange: the kind of what does not tell its position: parts that are no numbers and texts.
    """
    codes, kinds = pd.factorize(entries["kind"])
    found = [_parsed(kind) for kind in kinds]
    claimed = np.array([kind.startswith(("record at ", "offset at ")) for kind in kinds], dtype=np.bool_)
    if not claimed.any():
        return entries.assign(sequence=entries["number"]), PartedPositions()
    parted = np.array([position is not None for position in found])[codes]
    plain = np.array([position[0] if position else kind for position, kind in zip(found, kinds, strict=True)], dtype=object)
    numbers, known = entries["number"].to_numpy(dtype=np.int64).copy(), {}
    for name, at in entries[parted].groupby("name").indices.items():
        places = np.flatnonzero(parted)[at]
        order = sorted({_key(found[code]) for code in codes[places]})
        ranks = {key: rank for rank, key in enumerate(order)}
        numbers[places] = [ranks[_key(found[code])] for code in codes[places]]
        known[str(name)] = [", ".join(str(part) for _, part in key) for key in order]
    wrong = claimed[codes] & ~parted
    kind = pd.Series(plain[codes], index=entries.index).where(~wrong, strange)
    counted = parted & (kind == "record").to_numpy() & (entries["number"] >= 0).to_numpy()
    sequence = np.where(counted, entries["number"], numbers)
    return entries.assign(kind=kind, number=numbers, sequence=sequence), PartedPositions(known, bool(counted.any()))


def _parsed(kind: str) -> tuple[str, list[Any]] | None:
    """`record` or `offset`, and the parts of its position; None: it has no such position."""
    match = _AT.fullmatch(kind)
    if match is None:
        return None
    try:
        parts = json.loads(match[2])
    except (ValueError, RecursionError):
        return None
    fine = len(parts) <= _MOST_PARTS and all(isinstance(part, int | str) for part in parts)
    return (match[1], parts) if fine else None


def _key(position: tuple[str, list[Any]] | None) -> tuple[tuple[bool, Any], ...]:
    """A key by which positions are in their order: numbers before texts."""
    return tuple((isinstance(part, str), part) for part in (position[1] if position else ()))
