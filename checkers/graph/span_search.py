"""The shortest cycle of one layer inside one span.

1. Split the operations of the span into strongly connected components: a cycle lies in one of them. A component without an edge
   of some kind that the layer must use has none.
2. Look for an edge of such a kind that lies on a cycle of the layer *for certain* (`_Component._certain`): no way back from its
   head to its tail avoids another kind that the layer must use. The shortest way back makes a cycle then.
3. Before it a few times, and afterwards for shorter cycles, or where no edge was certain: search breadth first from each place
   where a cycle may begin (`_Component._starts`), within bounds (`checkers.graph.walks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

import numpy as np

from fencepost.checkers.graph.layers import ONE, READS, RW, WW, Layer
from fencepost.checkers.graph.reachability import Reachability
from fencepost.checkers.graph.span_graph import Expanded, SpanGraph
from fencepost.checkers.graph.span_rows import Edge, SpanOperations, SpanRows
from fencepost.checkers.graph.walks import STEPS_OF_SIZE, BestCycle, Start, Walks
from fencepost.checkers.model.arrays import Bools

BATCH, BATCHES = 4096, 8  # rw edges of which is looked at once whether a way leads back, and how often

FEW = 3  # searches before an edge that lies on a cycle for certain is looked for: mostly they show a shorter one


def search_span(layer: Layer, rows: SpanRows, operations: SpanOperations, best: BestCycle) -> None:
    """Look for a shorter cycle of the layer than `best` holds, among these edges of one span."""
    graph = SpanGraph.of_rows(layer, rows, operations)
    best.work += graph.size
    for part in graph.components():
        _Component(part, best).search()
        if best.good_enough:
            return


class _Component:
    """The search in one strongly connected component. Operations and edges are numbers, as in its graph."""

    def __init__(self, graph: SpanGraph, best: BestCycle) -> None:
        self.graph, self.layer, self.best = graph, graph.layer, best
        self.walks = Walks(graph)
        kind = graph.edges.kind
        self.anti: list[int] = np.flatnonzero(kind == RW).tolist()
        self.reads: list[int] = np.flatnonzero((kind != WW) & (kind != RW)).tolist()

    def search(self) -> None:
        """Look for a shorter cycle than the best one; without any, note what was given up."""
        if not self._has_all_kinds():
            return
        given_up = self.best.unfinished
        starts = self._search_closing() if self.layer.anti == ONE else self._search_all()
        if self.best.unfinished > given_up:
            self.best.starts += starts
            self.best.largest = max(self.best.largest, len(self.graph))

    def _search_all(self) -> int:
        """Search from everywhere; returns from how many places that is."""
        starts = self._starts()
        self._search_from(starts[:FEW])
        certain = None if self.best.cycle else self._certain()
        if certain is not None:
            self.walks.own += STEPS_OF_SIZE * self.graph.size  # enough for one search
            self.walks.search_from(Start.along(certain), self.best)
        self._search_from(starts[FEW:])
        return len(starts)

    def _has_all_kinds(self) -> bool:
        """True if there are as many rw edges, a wr edge, and an edge of time, as a cycle of the layer must use."""
        if len(self.anti) < self.layer.anti or (self.layer.must_read and not self.reads):
            return False
        return not self.layer.order or self.graph.time_edge() is not None

    def _search_from(self, starts: Sequence[Start]) -> None:
        for number, start in enumerate(starts):
            if self.best.good_enough:
                return
            if self.walks.spent(self.best):
                self.best.unfinished += len(starts) - number
                return
            self.walks.search_from(start, self.best)

    def _starts(self) -> Sequence[Start]:
        """Beginnings of which every cycle has one: its backward edges; of rw edges there are few. Where lso edges may be the
        backward ones, operations to which they lead.
        """
        graph, rank = self.graph, self.graph.operations.rank
        backward = np.flatnonzero(rank[graph.sources] > rank[graph.heads])
        if self.layer.family != READS:
            by_kind = backward[np.argsort(-graph.edges.kind[backward], kind="stable")].tolist()
            return _Starts(by_kind, lambda row: Start.along(graph.edge(row)))
        readers = (op for lists in graph.passed.values() for op in lists.highest)
        return _Starts(sorted({*graph.heads[backward].tolist(), *readers}), lambda op: Start.at(graph.names[op]))

    # ----------------------------------------------------------------------------------------------
    # Edges that lie on a cycle for certain
    # ----------------------------------------------------------------------------------------------
    def _certain(self) -> Edge | None:
        """An edge of a kind that the layer must use, from whose head no way back avoids another such kind; None: unknown."""
        if self.layer.anti:
            return self._certain_anti()
        if self.layer.must_read:
            return self._certain_read() if self.layer.order else self.graph.edge(self.reads[0])
        ends = self.graph.time_edge() if self.layer.order else None
        return self.graph.as_edge(ends) if ends else None

    def _certain_read(self) -> Edge | None:
        """A wr edge that lies on no cycle without time, or an edge of time that lies on none without wr edges."""
        component = self._reachability(self._expanded().onward).component
        for row in self.reads:
            if not _together(component, self._ends(row)):
                return self.graph.edge(row)
        component = self._reachability(self._expanded(self.graph.edges.kind == WW).with_order()).component
        return next((self.graph.as_edge(ends) for ends in self.graph.time_edges() if not _together(component, ends)), None)

    def _certain_anti(self) -> Edge | None:
        """An rw edge that lies on no cycle without another one, nor (where the layer must use an edge of time) without time."""
        component = self._reachability(self._expanded().onward).component if self.layer.order else []
        onward = self._reachability(self._expanded(self._without_anti()).with_order())
        for batch in self._batches(onward):
            closing = onward.answers(self._ends(row)[::-1] for row in batch)
            for row, closes in zip(batch, closing, strict=True):
                if not closes and not (self.layer.order and _together(component, self._ends(row))):
                    return self.graph.edge(row)
        return None

    def _ends(self, row: int) -> tuple[int, int]:
        return int(self.graph.sources[row]), self.graph.targets[row]

    # ----------------------------------------------------------------------------------------------
    # One rw edge
    # ----------------------------------------------------------------------------------------------
    def _search_closing(self) -> int:
        """Search from the rw edges to which a way without another one leads back, which uses an edge of time if the layer must.
        Returns how many there are.

        Those for which no such way avoids edges of time come first: they lie on a cycle for certain.
        """
        expanded = self._expanded(self._without_anti())
        count = len(expanded.onward) if self.layer.order else 0
        onward, starts = self._reachability(expanded.doubled() if self.layer.order else expanded.onward), 0
        for batch in self._batches(onward):
            ends = [self._ends(row)[::-1] for row in batch]
            closes = onward.answers((start, end + count) for start, end in ends)
            avoids = onward.answers(ends) if count else [False] * len(batch)
            closing = sorted((avoiding, row) for row, closed, avoiding in zip(batch, closes, avoids, strict=True) if closed)
            starts += len(closing)
            self._search_from(_Starts([row for _, row in closing], lambda row: Start.along(self.graph.edge(row))))
        left = max(0, len(self.anti) - BATCH * BATCHES)
        self.best.unfinished += left
        return starts + left

    def _without_anti(self) -> Bools:
        return np.asarray(self.graph.edges.kind != RW)

    def _expanded(self, which: Bools | None = None) -> Expanded:
        self.best.work += self.graph.size
        return self.graph.expanded(which)

    def _reachability(self, onward: Sequence[Sequence[int]]) -> Reachability:
        self.best.work += len(onward)
        return Reachability(onward)

    def _batches(self, onward: Reachability) -> Iterator[list[int]]:
        """The first rw edges, so many at once as one look at the whole graph answers."""
        for start in range(0, min(len(self.anti), BATCH * BATCHES), BATCH):
            if self.best.good_enough:
                return
            self.best.work += onward.size
            yield self.anti[start : start + BATCH]


class _Starts(Sequence[Start]):
    """Beginnings that are made as they are taken: of many the first few mostly do."""

    def __init__(self, numbers: list[int], make: Callable[[int], Start]) -> None:
        self._numbers, self._make = numbers, make

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, at: int) -> Start: ...
    @overload
    def __getitem__(self, at: slice) -> _Starts: ...
    def __getitem__(self, at: int | slice) -> Start | _Starts:
        return _Starts(self._numbers[at], self._make) if isinstance(at, slice) else self._make(self._numbers[at])


def _together(component: Sequence[int], ends: tuple[int, int]) -> bool:
    return component[ends[0]] == component[ends[1]]
