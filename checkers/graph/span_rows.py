"""The rows with which a span is searched, and the operations at their ends, as columns: objects only for edges of a walk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fencepost.checkers.graph.layers import LSO
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.values import NONE


class Edge(NamedTuple):
    """One step of a cycle: operations by index, kind, and the versions behind it (`place` counts partitions, -1 for none)."""

    source: int
    target: int
    kind: int
    place: int = NONE
    low: int = NONE
    high: int = NONE


@dataclass(frozen=True)
class SpanRows:
    """Edges, and rows of the lists of `checkers.graph.passed_records` (kind LSO: a writer has no target, a reader no source).

    Sorted as `Edge`s are; of several edges of one kind from one operation to another there is the first.
    """

    source: Ints
    target: Ints
    kind: Ints
    place: Ints
    low: Ints
    high: Ints

    @classmethod
    def of_edges(cls, edges: Iterable[Edge]) -> SpanRows:
        """Make the columns from edges in any order."""
        table = np.array(sorted(edges), dtype=np.int64).reshape(-1, len(Edge._fields))
        columns = dict(zip(Edge._fields, table.T, strict=True))
        first = first_of_kind(columns)
        return cls(*(values[first] for values in columns.values()))

    def __len__(self) -> int:
        return len(self.source)

    def pick(self, which: Any) -> SpanRows:
        """Some of the rows, in the same order."""
        return SpanRows(*(values[which] for values in vars(self).values()))

    def edge(self, row: int) -> Edge:
        return Edge(*(values.item(row) for values in vars(self).values()))


def first_of_kind(rows: Mapping[str, Any]) -> Bools:
    """True for every sorted row but further edges of one kind from one operation to another; rows of lists all stay."""
    first = np.ones(len(rows["kind"]), dtype=np.bool_)
    same = [rows[name][1:] == rows[name][:-1] for name in ("source", "target", "kind")]
    first[1:] = ~np.logical_and.reduce(same) | (rows["kind"][1:] == LSO)
    return first


@dataclass(frozen=True)
class SpanOperations:
    """Operations by history index, rising: ranks, and when each began and was surely over (FOREVER: never)."""

    index: Ints
    rank: Ints
    begin: Ints
    end: Ints
    process: Ints

    def __len__(self) -> int:
        return len(self.index)

    def pick(self, which: Any) -> SpanOperations:
        """Some of the operations, in the same order."""
        return SpanOperations(*(values[which] for values in vars(self).values()))

    def numbers(self, ops: Any) -> Any:
        """Positions of operations, which must be here."""
        return np.searchsorted(self.index, ops)


def ends_of(rows: SpanRows) -> Ints:
    """The operations at the ends of some rows, rising."""
    ends = np.concatenate([rows.source, rows.target])
    ends = ends[ends != NONE]
    lowest = int(ends.min(initial=np.iinfo(np.int64).max))
    if not len(ends) or int(ends.max()) - lowest > 8 * len(ends):
        return np.unique(ends)
    there = np.zeros(int(ends.max()) - lowest + 1, dtype=np.bool_)
    there[ends - lowest] = True
    return np.asarray(np.flatnonzero(there) + lowest)
