"""The shortest cycle of one layer inside one span: strongly connected components, then breadth first from every backward edge.

A cycle has at least one backward edge, so starting from those finds all. A state of the search is an operation together with
what the walk has used so far (a wr edge? a process or realtime edge? how many rw edges?). Realtime and process edges are never
listed: from an operation, all that begins after its end follows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from checkers.graph.layers import BY_PROCESS, BY_TIME, NO_ORDER, PROCESS, REALTIME, RW, SEVERAL, WW, Layer
from checkers.graph.spans import FOREVER

BUDGET = 200_000  # steps of one search from one edge
DETOUR_BUDGET, DETOUR_LENGTH = 20_000, 12
DETOURS = 150_000  # steps of all detours of one layer
ENOUGH = 20_000  # steps spent on a shorter cycle after one was found
ORDERS = {NO_ORDER: (), BY_PROCESS: (BY_PROCESS,), BY_TIME: (BY_TIME, BY_PROCESS)}  # whose edges a layer may use
READ, ORDERED, COUNT = 1, 2, 4  # what a walk has used: bits, and rw edges counted above them


class Edge(NamedTuple):
    """One step of a cycle: operations by index, kind, and the versions behind it (`place` counts partitions, -1 for none)."""

    source: int
    target: int
    kind: int
    place: int = -1
    low: int = -1
    high: int = -1


class Moment(NamedTuple):
    """When an operation began and was surely over (FOREVER: never), and its process."""

    begin: int
    end: int
    process: int


@dataclass
class Found:
    """The shortest cycle met, how many searches gave up before they were through, the steps made since there is a cycle, and
    those that detours may still make."""

    cycle: tuple[Edge, ...] = ()
    unfinished: int = 0
    effort: int = 0
    detours: int = DETOURS

    @property
    def settled(self) -> bool:
        """Whether no shorter cycle can be, or was found with much effort."""
        return bool(self.cycle) and (len(self.cycle) == 2 or self.effort > ENOUGH)

    def step(self) -> None:
        self.effort += bool(self.cycle)

    def offer(self, cycle: tuple[Edge, ...]) -> None:
        """Keep the shorter one; of equal ones the first by operations."""
        turned = _turned(cycle)
        if not self.cycle or (len(turned), turned) < (len(self.cycle), self.cycle):
            self.cycle = turned


def _turned(cycle: tuple[Edge, ...]) -> tuple[Edge, ...]:
    """The same cycle, beginning at its lowest operation."""
    first = min(range(len(cycle)), key=lambda at: cycle[at].source)
    return cycle[first:] + cycle[:first]


def search(layer: Layer, edges: Sequence[Edge], ranks: Mapping[int, int], moments: Mapping[int, Moment], found: Found) -> None:
    """Look for a shorter cycle of the layer than `found` holds, among these edges of one span."""
    mine = [edge for edge in edges if edge.kind in layer.kinds]
    for group in _components(layer, mine, moments):
        inside = [edge for edge in mine if edge.source in group and edge.target in group]
        if _can_close(layer, inside):
            graph = _Graph(layer, inside, moments)
            back = (edge for edge in graph.distinct if ranks[edge.source] > ranks[edge.target])
            for start in sorted(back, key=lambda edge: (-edge.kind, edge)):  # rw first: they are few
                if found.settled:
                    return
                graph.close(start, found)


def _can_close(layer: Layer, edges: Sequence[Edge]) -> bool:
    anti = sum(edge.kind == RW for edge in edges)
    reads = any(edge.kind not in (WW, RW) for edge in edges)
    return anti >= layer.anti and (reads or not layer.must_read)


# --------------------------------------------------------------------------------------------------
# Components
# --------------------------------------------------------------------------------------------------
def _components(layer: Layer, edges: Sequence[Edge], moments: Mapping[int, Moment]) -> list[set[int]]:
    """Strongly connected operations, two or more. Time is a chain of knots: an operation leads to the first one after its end."""
    import networkx as nx  # where something is searched: every process of a check would wait for it

    graph = nx.DiGraph()
    graph.add_edges_from((edge.source, edge.target) for edge in edges)
    ops = list(graph)
    for order in ORDERS[layer.order]:
        graph.add_edges_from(_knots(ops, moments, order))
    groups = ({node for node in group if isinstance(node, int)} for group in nx.strongly_connected_components(graph))
    return sorted((group for group in groups if len(group) > 1), key=min)


def _knots(ops: Sequence[int], moments: Mapping[int, Moment], order: int) -> Iterator[tuple[object, object]]:
    for line, members, begins in _lines(ops, moments, order):
        knots = [(order, line, at) for at in range(len(members))]
        yield from pairwise(knots)
        yield from zip(knots, members, strict=True)
        for place, op in enumerate(members):
            at = max(_next(begins, moments[op].end, order), place + 1)
            if moments[op].end != FOREVER and at < len(members):
                yield op, knots[at]


def _lines(ops: Iterable[int], moments: Mapping[int, Moment], order: int) -> list[tuple[int, list[int], list[int]]]:
    """Operations by begin: one line per process, or one line of all."""
    lines: dict[int, list[int]] = {}
    for op in sorted(ops, key=lambda op: (moments[op].begin, op)):
        lines.setdefault(moments[op].process if order == BY_PROCESS else -1, []).append(op)
    return [(line, members, [moments[op].begin for op in members]) for line, members in lines.items()]


def _next(begins: Sequence[int], end: int, order: int) -> int:
    """The first operation that comes after one that ended: strictly later in real time; in a process, ending may be beginning."""
    return bisect_left(begins, end) if order == BY_PROCESS else bisect_right(begins, end)


# --------------------------------------------------------------------------------------------------
# Walks
# --------------------------------------------------------------------------------------------------
@dataclass
class _Graph:
    """One component of one layer."""

    layer: Layer
    edges: Sequence[Edge]
    moments: Mapping[int, Moment]
    distinct: list[Edge] = field(init=False)

    def __post_init__(self) -> None:
        first: dict[tuple[int, int, int], Edge] = {}
        for edge in sorted(self.edges):
            first.setdefault((edge.source, edge.target, min(edge.kind, RW)), edge)
        self.distinct = list(first.values())
        self.steps: dict[int, list[Edge]] = {}
        for edge in self.distinct:
            self.steps.setdefault(edge.source, []).append(edge)
        ops = {op for edge in self.edges for op in (edge.source, edge.target)}
        self.orders = ORDERS[self.layer.order]
        self.lines = {(order, line): rest for order in self.orders for line, *rest in _lines(ops, self.moments, order)}
        self.ordering = {NO_ORDER: -1, BY_PROCESS: PROCESS, BY_TIME: REALTIME}[self.layer.order]
        self.places = {(line, op): at for line, (members, _) in self.lines.items() for at, op in enumerate(members)}

    def used(self, state: int, kind: int) -> int | None:
        """What a walk has used after one more edge; None when the layer does not allow that many."""
        if kind == RW:
            count = min(state // COUNT + 1, SEVERAL)
            return None if self.layer.anti == 1 and state >= COUNT else count * COUNT | state % COUNT
        if kind == self.ordering:
            return state | ORDERED
        return state | READ if kind not in (WW, PROCESS, REALTIME) else state

    def enough(self, state: int) -> bool:
        """Whether a closed walk that used this is a cycle of the layer."""
        read, ordered, anti = state & READ, state & ORDERED, state // COUNT
        return bool((read or not self.layer.must_read) and (ordered or not self.layer.order) and anti == self.layer.anti)

    def after(self, op: int, line: tuple[int, int], limit: int) -> tuple[list[int], int]:
        """Operations on a line that come after an operation's end, up to a place on the line; and where they start."""
        members, begins = self.lines[line]
        start = max(_next(begins, self.moments[op].end, line[0]), self.places[line, op] + 1)
        return members[start:limit], start

    def line_of(self, op: int, order: int) -> tuple[int, int]:
        return order, self.moments[op].process if order == BY_PROCESS else -1

    def close(self, start: Edge, found: Found) -> None:
        """The shortest way from the head of a backward edge to its tail."""
        first = self.used(0, start.kind)
        if first is None:
            return
        goal, origin = start.source, (start.target, first)
        parents: dict[tuple[int, int], tuple[tuple[int, int], Edge] | None] = {origin: None}
        depth = {origin: 1}
        cuts: dict[tuple[tuple[int, int], int], int] = {}
        queue, left = deque([origin]), BUDGET
        while queue:
            here = queue.popleft()
            if found.cycle and depth[here] + 1 >= len(found.cycle):
                return
            for edge, state in self._onward(*here, cuts):
                left -= 1
                found.step()
                if edge.target == goal and self.enough(state):
                    walk = (start, *_path(parents, here), edge)
                    if len({step.source for step in walk}) == len(walk):
                        found.offer(walk)
                    else:
                        self.detour(start, len(walk), found)
                    return
                there = (edge.target, state)
                if edge.target != goal and there not in parents:
                    parents[there], depth[there] = (here, edge), depth[here] + 1
                    queue.append(there)
            if left < 0 or found.settled:
                found.unfinished += left < 0
                return

    def _onward(self, op: int, state: int, cuts: dict[tuple[tuple[int, int], int], int]) -> Iterator[tuple[Edge, int]]:
        """Every edge from an operation; of process and realtime edges those that reach what no walk of this state reached."""
        for edge in self.steps.get(op, ()):
            after = self.used(state, edge.kind)
            if after is not None:
                yield edge, after
        if self.moments[op].end == FOREVER:
            return
        for order in self.orders:
            kind, line = PROCESS if order == BY_PROCESS else REALTIME, self.line_of(op, order)
            after = self.used(state, kind)
            assert after is not None
            limit = cuts.get((line, after), len(self.lines[line][0]))
            others, begun = self.after(op, line, limit)
            cuts[line, after] = min(limit, begun)
            for other in others:
                yield Edge(op, other, kind), after

    def detour(self, start: Edge, shortest: int, found: Found) -> None:
        """The shortest closed walk visits an operation twice: look for a cycle that does not, in rising length, within bounds."""
        given = min(DETOUR_BUDGET, found.detours)
        budget = [given]
        first = self.used(0, start.kind)
        members = len({op for edge in self.edges for op in (edge.source, edge.target)})
        for length in range(shortest, min(DETOUR_LENGTH, members) + 1):
            if found.cycle and length >= len(found.cycle):
                return
            if first is not None and self._simple((start,), first, {start.source, start.target}, length, budget, found):
                return
            if budget[0] < 0:
                break
        found.detours -= given - max(0, budget[0])
        found.unfinished += int(budget[0] < 0 or members > DETOUR_LENGTH)

    def _simple(self, walk: tuple[Edge, ...], state: int, seen: set[int], length: int, budget: list[int], found: Found) -> bool:
        for edge, after in self._onward(walk[-1].target, state, {}):
            budget[0] -= 1
            found.step()
            if budget[0] < 0 or found.settled:
                return False
            if edge.target == walk[0].source and self.enough(after):
                found.offer((*walk, edge))
                return True
            longer = len(walk) + 1 < length and edge.target not in seen
            if longer and self._simple((*walk, edge), after, seen | {edge.target}, length, budget, found):
                return True
        return False


def _path(parents: Mapping[tuple[int, int], tuple[tuple[int, int], Edge] | None], state: tuple[int, int]) -> list[Edge]:
    path: list[Edge] = []
    step = parents[state]
    while step is not None:
        path.append(step[1])
        step = parents[step[0]]
    return path[::-1]
