"""Positions of sources that give several records each: their numbering, in which neighbours differ by one (docs/connect.md).

An entry of such a record has the kind `record 2/3`: the second of the three that its position gives. Checks compare numbers: the
records of a source are numbered through, in the order of positions and within each, from the number of the first position on. A
position of which no record is known counts as one record. Where each position gives one record, its number is the position.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.frames import pd

_SEVERAL = re.compile(r"record (\d{1,9})/(\d{1,9})")
RECORD, OFFSET = "record", "offset"
CONTRADICTORY = "its position gives {} records by one record, and {} by another"
IMPOSSIBLE = "it is record {} of the {} of its position"


@dataclass(frozen=True)
class Several:
    """The positions of a source that give more than one record.

    positions: in order.
    counts: how many records each gives.
    before: how many records beyond one each the positions before give.
    """

    positions: Ints
    counts: Ints
    before: Ints

    @classmethod
    def of(cls, counts: Mapping[int, int]) -> Several:
        positions = np.array(sorted(counts), dtype=np.int64)
        beyond = np.array([counts[position] for position in positions.tolist()], dtype=np.int64)
        return cls(positions, beyond, np.concatenate([[0], np.cumsum(beyond - 1)])[:-1].astype(np.int64))

    def first(self, positions: Ints) -> Ints:
        """The number of the first record of each position."""
        at = np.searchsorted(self.positions, positions)
        total = np.append(self.before, self.before[-1] + self.counts[-1] - 1 if len(self.counts) else 0)
        return np.asarray(positions + total[at], dtype=np.int64)

    def last(self, positions: Ints) -> Ints:
        """The number of the last record of each position; a position below 0 stands for none."""
        return np.where(positions < 0, positions, self.first(positions + 1) - 1).astype(np.int64)

    def words(self, number: int) -> str:
        """A record by its number: its position, and which of its records it is: `5 (2 of 3)`."""
        first = self.positions + self.before
        at = int(np.searchsorted(first, number, side="right")) - 1
        if at < 0:
            return str(number)
        place = number - int(first[at])
        if place < int(self.counts[at]):
            return f"{self.positions[at]} ({place + 1} of {self.counts[at]})"
        return str(int(self.positions[at]) + place - int(self.counts[at]) + 1)

    def position(self, number: int) -> int:
        """The position of the record of this number."""
        return int(self.words(number).partition(" ")[0])


@dataclass(frozen=True)
class Positions:
    """The positions of all sources of a history.

    several: those that give several records, by source; sources without any are left out.
    """

    several: Mapping[str, Several] = field(default_factory=dict)

    def words(self, name: str, number: int) -> str:
        """A record by its source and its number, as `Several.words`."""
        several = self.several.get(name)
        return several.words(number) if several else str(number)

    def position(self, name: str, number: int) -> int:
        several = self.several.get(name)
        return several.position(number) if several else number

    def begin(self, name: str, number: int) -> int:
        """The number of the first record of the position of a record of this number."""
        several = self.several.get(name)
        return int(several.first(np.array([several.position(number)], dtype=np.int64))[0]) if several else number

    def last(self, name: str, position: int) -> int:
        """The number of the last record of a position."""
        several = self.several.get(name)
        return int(several.last(np.array([position], dtype=np.int64))[0]) if several else position

    def numbered(self, entries: pd.DataFrame, strange: str) -> pd.DataFrame:
        """Entries with numbers instead of positions, and the kind `record` for every record.

        strange: the kind of what does not tell its position: a record that contradicts another one, or itself.
        """
        places = _places(entries)
        if places is None:
            return entries
        records, place, count = places
        plain = entries.assign(kind=np.where(records, RECORD, entries["kind"]))
        numbers = self._numbers(plain, place - 1)
        reasons = _reasons(plain, records, place, count)
        wrong = reasons.notna().to_numpy()
        kind, name = plain["kind"].where(~wrong, strange), plain["name"].where(~wrong, reasons)
        return plain.assign(kind=kind, name=name, number=np.where(wrong, -1, numbers))

    def _numbers(self, entries: pd.DataFrame, place: Ints) -> Ints:
        numbers: Ints = entries["number"].to_numpy(dtype=np.int64).copy()
        for name, several in self.several.items():
            mine = (entries["name"] == name).to_numpy()
            records, offsets = (mine & (entries["kind"] == kind).to_numpy() for kind in (RECORD, OFFSET))
            numbers[records] = several.first(numbers[records]) + place[records]
            numbers[offsets] = several.last(numbers[offsets])
        return numbers


def positions_of(entries: pd.DataFrame) -> Positions:
    """The positions of a history, as its records tell them; of records that contradict each other the largest count is taken."""
    places = _places(entries)
    if places is None:
        return Positions()
    rows = entries[["name", "number"]].assign(count=places[2])[places[2] > 1]
    most = rows.groupby(["name", "number"])["count"].max()
    by_source: dict[str, dict[int, int]] = {}
    for (name, number), count in most.items():
        by_source.setdefault(str(name), {})[int(number)] = int(count)
    return Positions({name: Several.of(found) for name, found in by_source.items()})


def _places(entries: pd.DataFrame) -> tuple[Bools, Ints, Ints] | None:
    """Of each entry whether it is a record, which one of its position, and of how many; None where no position gives several."""
    codes, kinds = pd.factorize(entries["kind"])
    parsed = [_SEVERAL.fullmatch(kind) for kind in kinds]
    if not any(parsed):
        return None
    place, count = (np.array([int(match[group]) if match else 1 for match in parsed])[codes] for group in (1, 2))
    return np.array([bool(match) or kind == RECORD for match, kind in zip(parsed, kinds, strict=True)])[codes], place, count


def _reasons(entries: pd.DataFrame, records: Bools, place: Ints, count: Ints) -> Any:
    """The reason why each entry cannot be compared; None for most."""
    rows = entries.assign(count=count)[records].groupby(["name", "number"])["count"]
    least, most = (rows.transform(function).reindex(entries.index) for function in ("min", "max"))
    reasons = pd.Series([None] * len(entries), index=entries.index, dtype=object)
    for at in np.flatnonzero((least != most).to_numpy() & records):
        reasons.iloc[at] = CONTRADICTORY.format(int(least.iloc[at]), int(most.iloc[at]))
    for at in np.flatnonzero(records & ((place < 1) | (place > count))):
        reasons.iloc[at] = IMPOSSIBLE.format(int(place[at]), int(count[at]))
    return reasons
