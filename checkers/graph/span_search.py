"""The shortest cycle of one layer inside one span.

1. Split the operations of the span into strongly connected components: a cycle lies in one of them. A component without an edge
   of some kind that the layer must use has none.
2. Look for an edge of such a kind that lies on a cycle of the layer *for certain* (`_Component._certain`): no way back from its
   head to its tail avoids another kind that the layer must use. The shortest way back makes a cycle then.
3. Before it a few times, and afterwards for shorter cycles, or where no edge was certain: search breadth first from each place
   where a cycle may begin (`_Component._starts`), within bounds (`checkers.graph.walks`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fencepost.checkers.graph.layers import ONE, READS, RW, WW, Layer
from fencepost.checkers.graph.reachability import Reachability
from fencepost.checkers.graph.span_graph import Edge, Expanded, Intervals, SpanGraph
from fencepost.checkers.graph.walks import STEPS_OF_SIZE, BestCycle, Start, Walks

BATCH, BATCHES = 4096, 8  # rw edges of which is looked at once whether a way leads back, and how often

FEW = 3  # searches before an edge that lies on a cycle for certain is looked for: mostly they show a shorter one


def search_span(layer: Layer, rows: Sequence[Edge], ranks: Mapping[int, int], intervals: Intervals, best: BestCycle) -> None:
    """Look for a shorter cycle of the layer than `best` holds, among these edges of one span."""
    graph = SpanGraph.of_rows(layer, (row for row in rows if row.kind in layer.kinds), intervals)
    best.work += graph.size
    for part in graph.components():
        _Component(part, ranks, best).search()
        if best.good_enough:
            return


class _Component:
    """The search in one strongly connected component."""

    def __init__(self, graph: SpanGraph, ranks: Mapping[int, int], best: BestCycle) -> None:
        self.graph, self.layer, self.ranks, self.best = graph, graph.layer, ranks, best
        self.walks = Walks(graph)
        self.anti = [edge for edge in graph.edges if edge.kind == RW]
        self.reads = [edge for edge in graph.edges if edge.kind not in (WW, RW)]
        self.number = {op: place for place, op in enumerate(graph.operations)}

    def search(self) -> None:
        """Look for a shorter cycle than the best one; without any, note what was given up."""
        if not self._has_all_kinds():
            return
        given_up = self.best.unfinished
        starts = self._search_closing() if self.layer.anti == ONE else self._search_all()
        if self.best.unfinished > given_up:
            self.best.starts += starts
            self.best.largest = max(self.best.largest, len(self.graph.operations))

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
        reads, ordered = not self.layer.must_read or self.reads, not self.layer.order or self.graph.time_edge()
        return bool(len(self.anti) >= self.layer.anti and reads and ordered)

    def _search_from(self, starts: Sequence[Start]) -> None:
        for number, start in enumerate(starts):
            if self.best.good_enough:
                return
            if self.walks.spent(self.best):
                self.best.unfinished += len(starts) - number
                return
            self.walks.search_from(start, self.best)

    def _starts(self) -> list[Start]:
        """Beginnings of which every cycle has one: its backward edges; of rw edges there are few. Where lso edges may be the
        backward ones, operations to which they lead.
        """
        backward = [edge for edge in self.graph.edges if self.ranks[edge.source] > self.ranks[edge.target]]
        if self.layer.family != READS:
            return [Start.along(edge) for edge in sorted(backward, key=lambda edge: (-edge.kind, edge))]
        readers = (op for lists in self.graph.passed.values() for op in lists.highest)
        return [Start.at(op) for op in sorted({*(edge.target for edge in backward), *readers})]

    # ----------------------------------------------------------------------------------------------
    # Edges that lie on a cycle for certain
    # ----------------------------------------------------------------------------------------------
    def _certain(self) -> Edge | None:
        """An edge of a kind that the layer must use, from whose head no way back avoids another such kind; None: unknown."""
        if self.layer.anti:
            return self._certain_anti()
        if self.layer.must_read:
            return self._certain_read() if self.layer.order else self.reads[0]
        return self.graph.time_edge() if self.layer.order else None

    def _certain_read(self) -> Edge | None:
        """A wr edge that lies on no cycle without time, or an edge of time that lies on none without wr edges."""
        component = self._reachability(self._expanded(self.graph.edges).onward).component
        for edge in self.reads:
            if not self._together(component, edge):
                return edge
        unread = [edge for edge in self.graph.edges if edge.kind == WW]
        component = self._reachability(self._expanded(unread).with_order()).component
        return next((edge for edge in self.graph.time_edges() if not self._together(component, edge)), None)

    def _certain_anti(self) -> Edge | None:
        """An rw edge that lies on no cycle without another one, nor (where the layer must use an edge of time) without time."""
        component = self._reachability(self._expanded(self.graph.edges).onward).component if self.layer.order else []
        onward = self._reachability(self._expanded(self._without_anti()).with_order())
        for batch in self._batches(onward):
            closing = onward.answers((self.number[edge.target], self.number[edge.source]) for edge in batch)
            for edge, closes in zip(batch, closing, strict=True):
                if not closes and not (self.layer.order and self._together(component, edge)):
                    return edge
        return None

    def _together(self, component: Sequence[int], edge: Edge) -> bool:
        return component[self.number[edge.source]] == component[self.number[edge.target]]

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
            ends = [(self.number[edge.target], self.number[edge.source]) for edge in batch]
            closes = onward.answers((start, end + count) for start, end in ends)
            avoids = onward.answers(ends) if count else [False] * len(batch)
            closing = sorted((avoiding, edge) for edge, closed, avoiding in zip(batch, closes, avoids, strict=True) if closed)
            starts += len(closing)
            self._search_from([Start.along(edge) for _, edge in closing])
        left = max(0, len(self.anti) - BATCH * BATCHES)
        self.best.unfinished += left
        return starts + left

    def _without_anti(self) -> list[Edge]:
        return [edge for edge in self.graph.edges if edge.kind != RW]

    def _expanded(self, edges: Sequence[Edge]) -> Expanded:
        self.best.work += self.graph.size
        return self.graph.expanded(edges)

    def _reachability(self, onward: Sequence[Sequence[int]]) -> Reachability:
        self.best.work += len(onward)
        return Reachability(onward)

    def _batches(self, onward: Reachability) -> Iterator[list[Edge]]:
        """The first rw edges, so many at once as one look at the whole graph answers."""
        for start in range(0, min(len(self.anti), BATCH * BATCHES), BATCH):
            if self.best.good_enough:
                return
            self.best.work += onward.size
            yield self.anti[start : start + BATCH]
