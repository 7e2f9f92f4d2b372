"""The shortest cycle of one layer inside one span.

1. Split the operations of the span into strongly connected components: a cycle lies in one of them (`_components`).
2. Every cycle has a backward edge. From the head of each backward edge search breadth first for the way back to its tail
   (`_Component.search_from`). A *state* of this search is an operation together with what the walk to it has used: a wr edge? a
   process or realtime edge? how many rw edges? A closed walk is a cycle of the layer if its state says that it used what the
   layer must use.
3. A shortest closed walk may visit an operation twice, because it had to fetch an edge of some kind. Then look for a cycle that
   does not, by depth first search in rising length, within bounds (`_Component.detour`).

Realtime and process edges are never listed; there would be one for nearly every pair of operations. Operations stand on
*timelines*, sorted by when they began: one timeline of all for realtime edges, one per process for process edges. The followers
of an operation are the rest of its timeline from the first operation on that began after its end.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fencepost.checkers.graph.components import strongly_connected
from fencepost.checkers.graph.layers import BY_PROCESS, BY_TIME, NO_ORDER, PROCESS, REALTIME, RW, SEVERAL, WW, Layer
from fencepost.checkers.model.values import FOREVER

BUDGET = 200_000  # steps of one search from one edge
DETOUR_BUDGET, DETOUR_LENGTH = 20_000, 12
DETOURS = 150_000  # steps of all detours of one layer
ENOUGH = 20_000  # steps spent on a shorter cycle after one was found
ORDERS = {NO_ORDER: (), BY_PROCESS: (BY_PROCESS,), BY_TIME: (BY_TIME, BY_PROCESS)}  # the timelines whose edges a layer may use
READ, ORDERED, COUNT = 1, 2, 4  # of a state: a wr edge was used; a process or realtime edge was; rw edges are counted in fours


class Edge(NamedTuple):
    """One step of a cycle: operations by index, kind, and the versions behind it (`place` counts partitions, -1 for none)."""

    source: int
    target: int
    kind: int
    place: int = -1
    low: int = -1
    high: int = -1


class OperationInterval(NamedTuple):
    """The interval of an operation: when it began and was surely over (FOREVER: never), and its process."""

    begin: int
    end: int
    process: int


@dataclass
class BestCycle:
    """The shortest cycle of a layer so far.

    unfinished: how many searches gave up before they were through.
    effort: steps made since there is a cycle.
    detours: steps that all detours together may still make.
    """

    cycle: tuple[Edge, ...] = ()
    unfinished: int = 0
    effort: int = 0
    detours: int = DETOURS

    @property
    def good_enough(self) -> bool:
        """True if there can be no shorter cycle, or none was found with much effort."""
        return bool(self.cycle) and (len(self.cycle) == 2 or self.effort > ENOUGH)

    def count_step(self) -> None:
        self.effort += bool(self.cycle)

    def offer(self, cycle: tuple[Edge, ...]) -> None:
        """Keep the shorter one; of equal ones the first by operations."""
        cycle = _from_lowest(cycle)
        if not self.cycle or (len(cycle), cycle) < (len(self.cycle), self.cycle):
            self.cycle = cycle


def _from_lowest(cycle: tuple[Edge, ...]) -> tuple[Edge, ...]:
    """The same cycle, beginning at its lowest operation."""
    first = min(range(len(cycle)), key=lambda at: cycle[at].source)
    return cycle[first:] + cycle[:first]


def search_span(
    layer: Layer, edges: Sequence[Edge], ranks: Mapping[int, int], intervals: Mapping[int, OperationInterval], best: BestCycle
) -> None:
    """Look for a shorter cycle of the layer than `best` holds, among these edges of one span."""
    usable = [edge for edge in edges if edge.kind in layer.kinds]
    for operations in _components(layer, usable, intervals):
        inside = [edge for edge in usable if edge.source in operations and edge.target in operations]
        if _may_hold_cycle(layer, inside):
            component = _Component(layer, inside, intervals)
            backward = (edge for edge in component.distinct if ranks[edge.source] > ranks[edge.target])
            for start in sorted(backward, key=lambda edge: (-edge.kind, edge)):  # rw first: they are few
                if best.good_enough:
                    return
                component.search_from(start, best)


def _may_hold_cycle(layer: Layer, edges: Sequence[Edge]) -> bool:
    """True if there are as many rw edges, and a wr edge, as a cycle of the layer must use."""
    anti = sum(edge.kind == RW for edge in edges)
    reads = any(edge.kind not in (WW, RW) for edge in edges)
    return anti >= layer.anti and (reads or not layer.must_read)


# --------------------------------------------------------------------------------------------------
# Components
# --------------------------------------------------------------------------------------------------
def _components(layer: Layer, edges: Sequence[Edge], intervals: Mapping[int, OperationInterval]) -> list[set[int]]:
    """Strongly connected operations, two or more.

    Chains stand for realtime and process edges: each timeline is a chain of auxiliary nodes, one for each operation on it, in
    order. A node leads to the next node and to its operation; an operation leads to the node of the first operation that
    follows it, and so along the chain to all that follow. So the graph stays linear in the number of operations.
    """
    ops = list(dict.fromkeys(op for edge in edges for op in (edge.source, edge.target)))
    number = {op: place for place, op in enumerate(ops)}
    onward: list[list[int]] = [[] for _ in ops]
    for edge in edges:
        onward[number[edge.source]].append(number[edge.target])
    for order in ORDERS[layer.order]:
        _add_chains(onward, number, intervals, order)
    groups = ({ops[node] for node in group if node < len(ops)} for group in strongly_connected(onward))
    return sorted((group for group in groups if len(group) > 1), key=min)


def _add_chains(
    onward: list[list[int]], number: Mapping[int, int], intervals: Mapping[int, OperationInterval], order: int
) -> None:
    """Add the auxiliary nodes of all timelines of an order, and the edges from and to them."""
    for _, members, begins in _timelines(number, intervals, order):
        first, last = len(onward), len(onward) + len(members) - 1
        onward.extend([node + 1, number[op]] for node, op in enumerate(members, first))
        onward[last] = [number[members[-1]]]
        for place, op in enumerate(members):
            at = max(_first_after(begins, intervals[op].end, order), place + 1)
            if intervals[op].end != FOREVER and at < len(members):
                onward[number[op]].append(first + at)


def _timelines(
    ops: Iterable[int], intervals: Mapping[int, OperationInterval], order: int
) -> list[tuple[int, list[int], list[int]]]:
    """Operations by begin, and the begins: a timeline per process, or one of all (number -1)."""
    timelines: dict[int, list[int]] = {}
    for op in sorted(ops, key=lambda op: (intervals[op].begin, op)):
        timelines.setdefault(intervals[op].process if order == BY_PROCESS else -1, []).append(op)
    return [(number, members, [intervals[op].begin for op in members]) for number, members in timelines.items()]


def _first_after(begins: Sequence[int], end: int, order: int) -> int:
    """The place on a timeline of the first operation that begins after a time; in a process it may begin at that very time."""
    return bisect_left(begins, end) if order == BY_PROCESS else bisect_right(begins, end)


# --------------------------------------------------------------------------------------------------
# Walks
# --------------------------------------------------------------------------------------------------
class _Onward:
    """The edges from an operation, each with the state after it.

    places: by target, where they stand in the list.
    """

    def __init__(self, edges: list[tuple[Edge, int]]) -> None:
        self.edges = edges
        self.places: dict[int, list[int]] = {}
        for place, (edge, _) in enumerate(edges):
            self.places.setdefault(edge.target, []).append(place)


@dataclass
class _Component:
    """A strongly connected component of one layer: its edges by operation, and its timelines.

    distinct: of several edges of one kind from one operation to another, the first.
    """

    layer: Layer
    edges: Sequence[Edge]
    intervals: Mapping[int, OperationInterval]
    distinct: list[Edge] = field(init=False)
    onward: dict[tuple[int, int], _Onward] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        first: dict[tuple[int, int, int], Edge] = {}
        for edge in sorted(self.edges):
            first.setdefault((edge.source, edge.target, min(edge.kind, RW)), edge)
        self.distinct = list(first.values())
        self.edges_from: dict[int, list[Edge]] = {}
        for edge in self.distinct:
            self.edges_from.setdefault(edge.source, []).append(edge)
        ops = {op for edge in self.edges for op in (edge.source, edge.target)}
        self.orders = ORDERS[self.layer.order]
        self.timelines = {
            (order, number): rest for order in self.orders for number, *rest in _timelines(ops, self.intervals, order)
        }
        self.time_kind = {NO_ORDER: -1, BY_PROCESS: PROCESS, BY_TIME: REALTIME}[self.layer.order]
        self.place_on = {(timeline, op): at for timeline, (members, _) in self.timelines.items() for at, op in enumerate(members)}

    def state_after(self, state: int, kind: int) -> int | None:
        """The state of a walk after one more edge: what it has used; None when the layer does not allow that many."""
        if kind == RW:
            count = min(state // COUNT + 1, SEVERAL)
            return None if self.layer.anti == 1 and state >= COUNT else count * COUNT | state % COUNT
        if kind == self.time_kind:
            return state | ORDERED
        return state | READ if kind not in (WW, PROCESS, REALTIME) else state

    def is_cycle(self, state: int) -> bool:
        """True if a closed walk that used this is a cycle of the layer."""
        read, ordered, anti = state & READ, state & ORDERED, state // COUNT
        return bool((read or not self.layer.must_read) and (ordered or not self.layer.order) and anti == self.layer.anti)

    def followers(self, op: int, timeline: tuple[int, int], limit: int) -> tuple[list[int], int]:
        """Operations on a timeline that follow an operation, below a place on it; and the place of the first of them."""
        members, begins = self.timelines[timeline]
        start = max(_first_after(begins, self.intervals[op].end, timeline[0]), self.place_on[timeline, op] + 1)
        return members[start:limit], start

    def timeline_of(self, op: int, order: int) -> tuple[int, int]:
        return order, self.intervals[op].process if order == BY_PROCESS else -1

    def search_from(self, start: Edge, best: BestCycle) -> None:
        """Breadth first from the head of a backward edge to its tail: the shortest closed walk through the edge.

        A state is an operation and what was used up to it; each is entered once, from the state that reached it first.
        `unreached` has, by timeline and state, the place below which operations of the timeline were not reached in that state
        yet: whoever comes later needs to look at those only, so each operation is reached once by edges of time.
        """
        first = self.state_after(0, start.kind)
        if first is None:
            return
        goal, origin = start.source, (start.target, first)
        parents: dict[tuple[int, int], tuple[tuple[int, int], Edge] | None] = {origin: None}
        depth = {origin: 1}
        unreached: dict[tuple[tuple[int, int], int], int] = {}
        queue, left = deque([origin]), BUDGET
        while queue:
            here = queue.popleft()
            if best.cycle and depth[here] + 1 >= len(best.cycle):
                return
            for edge, state in self._edges_onward(*here, unreached):
                left -= 1
                best.count_step()
                if edge.target == goal and self.is_cycle(state):
                    walk = (start, *_path(parents, here), edge)
                    if len({step.source for step in walk}) == len(walk):
                        best.offer(walk)
                    else:
                        self.detour(start, len(walk), best)
                    return
                there = (edge.target, state)
                if edge.target != goal and there not in parents:
                    parents[there], depth[there] = (here, edge), depth[here] + 1
                    queue.append(there)
            if left < 0 or best.good_enough:
                best.unfinished += left < 0
                return

    def _edges_onward(self, op: int, state: int, unreached: dict[tuple[tuple[int, int], int], int]) -> Iterator[tuple[Edge, int]]:
        """Every edge from an operation, with the state after it; of the edges of time only those to what is `unreached`."""
        for edge in self.edges_from.get(op, ()):
            after = self.state_after(state, edge.kind)
            if after is not None:
                yield edge, after
        if self.intervals[op].end == FOREVER:
            return
        for order in self.orders:
            kind, timeline = PROCESS if order == BY_PROCESS else REALTIME, self.timeline_of(op, order)
            after = self.state_after(state, kind)
            assert after is not None
            limit = unreached.get((timeline, after), len(self.timelines[timeline][0]))
            others, first = self.followers(op, timeline, limit)
            unreached[timeline, after] = min(limit, first)
            for other in others:
                yield Edge(op, other, kind), after

    def detour(self, start: Edge, shortest: int, best: BestCycle) -> None:
        """The shortest closed walk visits an operation twice: look for a cycle that does not, in rising length, within bounds."""
        allowed = min(DETOUR_BUDGET, best.detours)
        budget = [allowed]  # steps left, counted down by the recursion
        first = self.state_after(0, start.kind)
        members = len({op for edge in self.edges for op in (edge.source, edge.target)})
        for length in range(shortest, min(DETOUR_LENGTH, members) + 1):
            if best.cycle and length >= len(best.cycle):
                return
            if first is not None and self._simple_cycle([start], first, {start.source, start.target}, length, budget, best):
                return
            if budget[0] < 0:
                break
        best.detours -= allowed - max(0, budget[0])
        best.unfinished += int(budget[0] < 0 or members > DETOUR_LENGTH)

    def _simple_cycle(
        self, walk: list[Edge], state: int, seen: set[int], length: int, budget: list[int], best: BestCycle
    ) -> bool:
        """Depth first: whether a walk can be closed within so many edges, without a second visit anywhere. Keeps the cycle.

        walk, seen: as they were given when it cannot.
        """
        goal, onward = walk[0].source, self._all_onward(walk[-1].target, state)
        last, shorter = len(walk) + 1 == length, best.cycle
        if last and not shorter:
            return self._closed(walk, onward, budget, best)
        for edge, after in onward.edges:
            budget[0] -= 1
            if shorter:
                best.count_step()
            if budget[0] < 0 or (shorter and best.good_enough):
                return False
            target = edge.target
            if target == goal and self.is_cycle(after):
                best.offer((*walk, edge))
                return True
            if last or target in seen:
                continue
            walk.append(edge)
            seen.add(target)
            if self._simple_cycle(walk, after, seen, length, budget, best):
                return True
            walk.pop()
            seen.remove(target)
        return False

    def _closed(self, walk: Sequence[Edge], onward: _Onward, budget: list[int], best: BestCycle) -> bool:
        """True if an edge closes a walk, at the cost of looking at one after the other: the last step, as most steps are."""
        for at in onward.places.get(walk[0].source, ()):
            edge, after = onward.edges[at]
            if at < budget[0] and self.is_cycle(after):
                budget[0] -= at + 1
                best.offer((*walk, edge))
                return True
        budget[0] = max(-1, budget[0] - len(onward.edges))
        return False

    def _all_onward(self, op: int, state: int) -> _Onward:
        """Every edge from an operation, listed once: a detour comes by again and again."""
        onward = self.onward.get((op, state))
        if onward is None:
            onward = self.onward[op, state] = _Onward(list(self._edges_onward(op, state, {})))
        return onward


def _path(parents: Mapping[tuple[int, int], tuple[tuple[int, int], Edge] | None], state: tuple[int, int]) -> list[Edge]:
    path: list[Edge] = []
    step = parents[state]
    while step is not None:
        path.append(step[1])
        step = parents[step[0]]
    return path[::-1]
