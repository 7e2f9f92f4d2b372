"""The operations of a run in the order of their points: what the search looks up of them, in every process that searches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fencepost.checkers.graph.edge_filter import EdgeFilter
from fencepost.checkers.graph.edges import FIRSTS, LATEST, TIME_COLUMNS, decode
from fencepost.checkers.graph.gathered_edges import SharedArrays
from fencepost.checkers.graph.layers import ANTI, ANTI_TIME, DATA, RW
from fencepost.checkers.graph.spans import ends, points, rank, reading_points
from fencepost.checkers.history.overview import Overview
from fencepost.checkers.model.arrays import Ints, among
from fencepost.checkers.model.values import FOREVER, NONE
from fencepost.checkers.views.log import slices


@dataclass(frozen=True)
class OperationOrder:
    """The operations of a run as arrays in order of history index: their ranks, and what realtime and process edges need.

    index: history indices; empty when operations are numbered without a gap, so that an index is a position.
    by_point: rank of each operation in the order of points (`checkers.graph.spans`).
    by_reading_point: rank of each operation in the order of reading points.
    begin: when it began (ns).
    end: when it was surely over (ns).
    writes: 2 for an operation that writes, 1 for another of a process that does, 0 for the others.
    edge_filter: what the partitions left out.
    """

    index: Any
    by_point: Any
    by_reading_point: Any
    begin: Ints
    end: Ints
    process: Any
    writes: Any
    edge_filter: EdgeFilter | None = None

    def at(self, ops: Any) -> Any:
        """Positions of operations, given by history index."""
        return np.searchsorted(self.index, ops) if len(self.index) else ops

    def ranks(self, family: str) -> Any:
        """The ranks of which the spans of a family are ranges."""
        return self.by_reading_point if family == ANTI else self.by_point

    def searched(self, family: str, part: Mapping[str, Any]) -> Any:
        """Edges that count for a family, as positions. `wanted` is a table by kind, looked up for all edges at once."""
        wanted = np.zeros(1 + RW, dtype=np.bool_)
        wanted[list(DATA[family])] = True
        which = wanted[part["kind"]]
        if self.edge_filter is not None and family in (ANTI, ANTI_TIME):
            which &= self.edge_filter.in_one_stretch(part["source"], part["target"])
        return np.flatnonzero(which)


@dataclass(frozen=True)
class SharedOrder:
    """`OperationOrder` in whatever process looks at it."""

    arrays: SharedArrays
    edge_filter: EdgeFilter | None

    @property
    def value(self) -> OperationOrder:
        return OperationOrder(**self.arrays.value, edge_filter=self.edge_filter)


def order_arrays(to_driver: Sequence[tuple[str, bytes]], view: Overview) -> Iterator[tuple[str, Any]]:
    """The arrays of `OperationOrder`, by name and one by one, so that few are in memory at once.

    to_driver: what the partitions handed out: first returns and latest commits by operation.
    """
    yield "index", view.index[:0] if view.dense else view.index
    yield "begin", view.time
    yield "end", view.arrays.joined(lambda: (ends(view, part) for part in slices(len(view))), len(view), np.int64)
    yield "process", view.process
    pure = ~(view.txn | view.send)
    yield "writes", among(view.process, view.writing_processes).astype(np.int8) + ~pure
    firsts = np.full(len(view), FOREVER)
    for part in _times(to_driver, FIRSTS):
        np.minimum.at(firsts, view.at(part["op"]), part["time"])
    placed = points(view, firsts)
    del firsts
    yield "by_point", rank(placed, view.time)
    latest = np.full(len(view), NONE, dtype=np.int64)
    for part in _times(to_driver, LATEST):
        np.maximum.at(latest, view.at(part["op"]), part["time"])
    yield "by_reading_point", rank(reading_points(placed, latest, pure), view.time)


def _times(to_driver: Sequence[tuple[str, bytes]], wanted: str) -> Iterator[dict[str, Ints]]:
    return (decode(message, TIME_COLUMNS) for name, message in to_driver if name == wanted)
