"""Closed walks in one strongly connected component of a layer, the shortest first.

A *state* of the search is an operation together with what the walk to it has used: a wr edge? an edge of time? how many rw edges?
A closed walk is a cycle of the layer if its state says that it used what the layer must use. A shortest closed walk may visit an
operation twice, because it had to fetch an edge of some kind; then a cycle that does not is looked for by depth first search in
rising length, within bounds (`Walks.detour`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fencepost.checkers.graph.layers import BY_PROCESS, LSO, PROCESS, REALTIME, RW, SEVERAL, WW
from fencepost.checkers.graph.span_graph import TIME_KINDS, Edge, SpanGraph, Timeline
from fencepost.checkers.model.values import FOREVER, NONE

STEPS, STEPS_OF_SIZE = 150_000, 8  # of a layer without a cycle, and besides for each operation and edge of a component
DETOUR_BUDGET, DETOUR_LENGTH = 20_000, 12
DETOURS = 150_000  # steps of all detours of one layer
ENOUGH = 20_000  # steps spent on a shorter cycle after one was found
READ, ORDERED, COUNT = 1, 2, 4  # of a state: a wr edge was used; a process or realtime edge was; rw edges are counted in fours


@dataclass
class BestCycle:
    """The shortest cycle of a layer so far.

    unfinished: how many searches gave up before they were through, or were not made.
    starts: how many there were to make in the components of these; `largest`: the operations of the largest such component.
    effort: steps made since there is a cycle.
    steps: steps that may still be made without one, beyond those of a component's size.
    detours: steps that all detours together may still make.
    work: all steps, and the size of every graph that was searched.
    """

    cycle: tuple[Edge, ...] = ()
    unfinished: int = 0
    starts: int = 0
    largest: int = 0
    effort: int = 0
    steps: int = field(default_factory=lambda: STEPS)
    detours: int = field(default_factory=lambda: DETOURS)
    work: int = 0

    @property
    def good_enough(self) -> bool:
        """True if there can be no shorter cycle, or none was found with much effort."""
        return bool(self.cycle) and (len(self.cycle) == 2 or self.effort > ENOUGH)

    @property
    def given_up(self) -> str:
        """The part that was not searched, in words."""
        tangles = f"among operations of which up to {self.largest} all lead to each other"
        return f"{tangles}, {self.unfinished} of {self.starts} edges with which a cycle may begin were not followed to the end"

    def count_step(self) -> None:
        self.work += 1
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


@dataclass(frozen=True)
class Start:
    """The beginning of all walks of a search: one edge, or only an operation.

    goal: where the walks have to come back to.
    """

    walk: tuple[Edge, ...]
    goal: int

    @classmethod
    def along(cls, edge: Edge) -> Start:
        return cls((edge,), edge.source)

    @classmethod
    def at(cls, op: int) -> Start:
        return cls((), op)

    @property
    def end(self) -> int:
        return self.walk[-1].target if self.walk else self.goal


@dataclass
class _Entered:
    """States that a search need not enter again by edges that are not listed.

    below: by timeline and state, the place below which operations of the timeline were not reached in that state yet. Whoever
        comes later needs to look at those only, so each operation is reached once by edges of time.
    passing: nodes of `PassingReaders` by partition, number and state.
    """

    below: dict[tuple[Timeline, int], int] = field(default_factory=dict)
    passing: set[tuple[int, int, int]] = field(default_factory=set)


class _Onward:
    """The edges from an operation, each with the state after it.

    places: by target, where they stand in the list.
    """

    def __init__(self, edges: list[tuple[Edge, int]]) -> None:
        self.edges = edges
        self.places: dict[int, list[int]] = {}
        for place, (edge, _) in enumerate(edges):
            self.places.setdefault(edge.target, []).append(place)


class Walks:
    """The searches in one component.

    own: steps that they may still make without a cycle, before those of the layer are used up.
    """

    def __init__(self, graph: SpanGraph) -> None:
        self.graph, self.layer = graph, graph.layer
        self.own = STEPS_OF_SIZE * graph.size
        self._onward: dict[tuple[int, int], _Onward] = {}
        self._edges_from: dict[int, list[Edge]] = {}
        for edge in graph.edges:
            self._edges_from.setdefault(edge.source, []).append(edge)
        self._passed_by: dict[int, list[tuple[int, int]]] = {}
        for place, lists in graph.passed.items():
            for op, low in lists.lowest.items():
                self._passed_by.setdefault(op, []).append((place, low))

    def state_after(self, state: int, kind: int) -> int | None:
        """The state of a walk after one more edge: what it has used; None when the layer does not allow that many."""
        if kind == RW:
            count = min(state // COUNT + 1, SEVERAL)
            return None if self.layer.anti == 1 and state >= COUNT else count * COUNT | state % COUNT
        if kind == TIME_KINDS[self.layer.order]:
            return state | ORDERED
        return state | READ if self.layer.must_read and kind not in (WW, PROCESS, REALTIME) else state

    def is_cycle(self, state: int) -> bool:
        """True if a closed walk that used this is a cycle of the layer."""
        read, ordered, anti = state & READ, state & ORDERED, state // COUNT
        return bool((read or not self.layer.must_read) and (ordered or not self.layer.order) and anti == self.layer.anti)

    # ----------------------------------------------------------------------------------------------
    # Breadth first
    # ----------------------------------------------------------------------------------------------
    def spent(self, best: BestCycle) -> bool:
        """True if there is no cycle, and no search may be made any more."""
        return not best.cycle and self.own + best.steps <= 0

    def search_from(self, start: Start, best: BestCycle) -> None:
        """Breadth first from a beginning back to its goal: the shortest closed walk. Each state is entered once, from the one
        that reached it first.
        """
        first = self._first_state(start)
        if first is None:
            return
        origin = (start.end, first)
        parents: dict[tuple[int, int], tuple[tuple[int, int], Edge] | None] = {origin: None}
        depth = {origin: len(start.walk)}
        entered, queue = _Entered(), deque([origin])
        while queue:
            here = queue.popleft()
            if best.cycle and depth[here] + 1 >= len(best.cycle):
                return
            for edge, state in self._edges_onward(*here, entered):
                self._count(best)
                if edge.target == start.goal and self.is_cycle(state):
                    walk = (*start.walk, *_path(parents, here), edge)
                    if len({step.source for step in walk}) == len(walk):
                        best.offer(walk)
                    else:
                        self.detour(start, len(walk), best)
                    return
                there = (edge.target, state)
                if edge.target != start.goal and there not in parents:
                    parents[there], depth[there] = (here, edge), depth[here] + 1
                    queue.append(there)
            if best.good_enough or self.spent(best):
                best.unfinished += self.spent(best)
                return

    def _first_state(self, start: Start) -> int | None:
        state: int | None = 0
        for edge in start.walk:
            state = None if state is None else self.state_after(state, edge.kind)
        return state

    def _count(self, best: BestCycle) -> None:
        best.count_step()
        if not best.cycle:
            if self.own > 0:
                self.own -= 1
            else:
                best.steps -= 1

    def _edges_onward(self, op: int, state: int, entered: _Entered) -> Iterator[tuple[Edge, int]]:
        """Every edge from an operation, with the state after it; of those that are not listed only to what was not entered."""
        for edge in self._edges_from.get(op, ()):
            after = self.state_after(state, edge.kind)
            if after is not None:
                yield edge, after
        yield from self._passing_onward(op, state, entered)
        if self.graph.intervals[op].end == FOREVER:
            return
        for order in self.graph.orders:
            kind, timeline = PROCESS if order == BY_PROCESS else REALTIME, self.graph.timeline_of(op, order)
            after = self.state_after(state, kind)
            assert after is not None
            ops = self.graph.timelines[timeline][0]
            stop, first = entered.below.get((timeline, after), len(ops)), self.graph.first_follower(op, timeline)
            entered.below[timeline, after] = min(stop, first)
            for other in ops[first:stop]:
                yield Edge(op, other, kind), after

    def _passing_onward(self, op: int, state: int, entered: _Entered) -> Iterator[tuple[Edge, int]]:
        """The lso edges from an operation, as `_edges_onward`."""
        for place, low in self._passed_by.get(op, ()):
            readers, highest = self.graph.passing[place], self.graph.passed[place].highest
            nodes = readers.past(low, self.graph.intervals[op].end)
            while nodes:
                node = nodes.pop()
                if (place, node, state) in entered.passing:
                    continue
                reader, before = readers.nodes[node]
                if before != NONE:
                    nodes.append(before)
                if reader != op:  # its own record: another writer may still lead to it, as to the goal of a walk that began here
                    entered.passing.add((place, node, state))
                    yield Edge(op, reader, LSO, place, low, highest[reader]), state

    # ----------------------------------------------------------------------------------------------
    # Depth first
    # ----------------------------------------------------------------------------------------------
    def detour(self, start: Start, shortest: int, best: BestCycle) -> None:
        """The shortest closed walk visits an operation twice: look for a cycle that does not, in rising length, within bounds."""
        allowed = min(DETOUR_BUDGET, best.detours)
        budget = [allowed]  # steps left, counted down by the recursion
        first, seen = self._first_state(start), {start.goal, start.end}
        members = len(self.graph.operations)
        for length in range(shortest, min(DETOUR_LENGTH, members) + 1):
            if best.cycle and length >= len(best.cycle):
                return
            if first is not None and self._simple_cycle(
                start.goal, list(start.walk), start.end, first, seen, length, budget, best
            ):
                return
            if budget[0] < 0:
                break
        best.detours -= allowed - max(0, budget[0])
        best.unfinished += int(budget[0] < 0 or members > DETOUR_LENGTH)

    def _simple_cycle(
        self, goal: int, walk: list[Edge], op: int, state: int, seen: set[int], length: int, budget: list[int], best: BestCycle
    ) -> bool:
        """Depth first: whether a walk to `op` can be closed within so many edges, without a second visit anywhere. Keeps the
        cycle.

        walk, seen: as they were given when it cannot.
        """
        onward = self._all_onward(op, state, budget, best)
        last, shorter = len(walk) + 1 == length, best.cycle
        if last and not shorter:
            return self._closed(goal, walk, onward, budget, best)
        for edge, after in onward.edges:
            budget[0] -= 1
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
            if self._simple_cycle(goal, walk, target, after, seen, length, budget, best):
                return True
            walk.pop()
            seen.remove(target)
        return False

    def _closed(self, goal: int, walk: Sequence[Edge], onward: _Onward, budget: list[int], best: BestCycle) -> bool:
        """True if an edge closes a walk, at the cost of looking at one after the other: the last step, as most steps are."""
        for at in onward.places.get(goal, ()):
            edge, after = onward.edges[at]
            if at < budget[0] and self.is_cycle(after):
                budget[0] -= at + 1
                best.offer((*walk, edge))
                return True
        budget[0] = max(-1, budget[0] - len(onward.edges))
        return False

    def _all_onward(self, op: int, state: int, budget: list[int], best: BestCycle) -> _Onward:
        """Every edge from an operation, listed once: a detour comes by again and again. A list costs as many steps as it has
        edges.
        """
        onward = self._onward.get((op, state))
        if onward is None:
            onward = self._onward[op, state] = _Onward(list(self._edges_onward(op, state, _Entered())))
            budget[0] -= len(onward.edges)
            best.work += len(onward.edges)
        return onward


def _path(parents: Mapping[tuple[int, int], tuple[tuple[int, int], Edge] | None], state: tuple[int, int]) -> list[Edge]:
    path: list[Edge] = []
    step = parents[state]
    while step is not None:
        path.append(step[1])
        step = parents[step[0]]
    return path[::-1]
