"""Closed walks in one strongly connected component of a layer, the shortest first.

A *state* of the search is an operation together with what the walk to it has used: a wr edge? an edge of time? how many rw edges?
A closed walk is a cycle of the layer if its state says that it used what the layer must use. A shortest closed walk may visit an
operation twice, because it had to fetch an edge of some kind; then a cycle that does not is looked for by depth first search in
rising length, within bounds (`Walks.detour`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fencepost.checkers.graph.layers import BY_PROCESS, LSO, PROCESS, REALTIME, RW, SEVERAL, WW
from fencepost.checkers.graph.span_graph import TIME_KINDS, SpanGraph
from fencepost.checkers.graph.span_rows import Edge
from fencepost.checkers.graph.timelines import Timelines
from fencepost.checkers.model.values import NONE

STEPS, STEPS_OF_SIZE = 150_000, 8  # of a layer without a cycle, and besides for each operation and edge of a component
DETOUR_BUDGET, DETOUR_LENGTH = 20_000, 12
DETOURS = 150_000  # steps of all detours of one layer
ENOUGH = 20_000  # steps spent on a shorter cycle after one was found
READ, ORDERED, COUNT = 1, 2, 4  # of a state: a wr edge was used; a process or realtime edge was; rw edges are counted in fours
STATES = COUNT * (SEVERAL + 1)


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

    def count_steps(self, steps: int) -> None:
        self.work += steps
        self.effort += steps if self.cycle else 0

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

    below: by timeline (its order and where it ends) and state, the place below which operations of the timeline were not reached
        in that state yet. Whoever comes later needs to look at those only, so each operation is reached once by edges of time.
    passing: nodes of `PassingReaders` by partition, number and state.
    """

    below: dict[tuple[int, int, int], int] = field(default_factory=dict)
    passing: set[tuple[int, int, int]] = field(default_factory=set)


@dataclass(frozen=True)
class _Listed:
    """The listed edges that may be taken in a state, for all operations.

    ends: to where each leads: operation * STATES + state after the edge.
    rows: their numbers in the graph.
    bounds: the edges of operation n are those from `bounds[n]` to `bounds[n + 1]`.
    """

    ends: list[int]
    rows: Any
    bounds: list[int]

    @classmethod
    def of(cls, walks: Walks, state: int) -> _Listed:
        graph = walks.graph
        states = [walks.state_after(state, kind) for kind in range(1 + RW)]
        after = np.array([NONE if each is None else each for each in states])[graph.edges.kind]
        rows = np.flatnonzero(after != NONE)
        bounds = np.searchsorted(graph.sources[rows], np.arange(len(graph) + 1)).tolist()
        return cls((graph.heads[rows] * STATES + after[rows]).tolist(), rows, bounds)


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
        self._listed: dict[int, _Listed] = {}
        self._onward: dict[tuple[int, int], _Onward] = {}

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

    @cached_property
    def _closing(self) -> list[int]:
        """The states in which a closed walk is a cycle."""
        return [state for state in range(STATES) if self.is_cycle(state)]

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
        goal = self._number(start.goal) * STATES
        closing = {goal + state for state in self._closing}
        parents = dict.fromkeys(range(goal, goal + STATES), NONE)  # the goal is never gone on from
        origin = self._number(start.end) * STATES + first
        parents[origin] = NONE
        entered, level, depth = _Entered(), [origin], len(start.walk)
        while level and not (best.cycle and depth + 1 >= len(best.cycle)):
            following: list[int] = []
            is_last = bool(best.cycle) and depth + 2 >= len(best.cycle)  # whatever goes on from here comes back too late
            for here in level:
                ends = self._ends(here // STATES, here % STATES, entered)
                if not closing.isdisjoint(ends):
                    at = next(at for at, there in enumerate(ends) if there in closing)
                    self._count(best, at + 1)
                    self._close(start, (*start.walk, *self._path(parents, here), self._edge_to(here, ends[at])), best)
                    return
                for there in () if is_last else ends:
                    if there not in parents:
                        parents[there] = here
                        following.append(there)
                self._count(best, len(ends))
                if best.good_enough or self.spent(best):
                    best.unfinished += self.spent(best)
                    return
            level, depth = following, depth + 1

    def _number(self, op: int) -> int:
        return bisect_left(self.graph.names, op)

    def _close(self, start: Start, walk: tuple[Edge, ...], best: BestCycle) -> None:
        """Take a closed walk as a cycle; where it visits an operation twice, look for another."""
        if len({step.source for step in walk}) == len(walk):
            best.offer(walk)
        else:
            self.detour(start, len(walk), best)

    def _path(self, parents: Mapping[int, int], here: int) -> list[Edge]:
        """The edges by which a search came to an operation in a state."""
        path: list[Edge] = []
        while (before := parents[here]) != NONE:
            path.append(self._edge_to(before, here))
            here = before
        return path[::-1]

    def _first_state(self, start: Start) -> int | None:
        state: int | None = 0
        for edge in start.walk:
            state = None if state is None else self.state_after(state, edge.kind)
        return state

    def _count(self, best: BestCycle, steps: int) -> None:
        best.count_steps(steps)
        if not best.cycle:
            own = min(max(0, self.own), steps)
            self.own -= own
            best.steps -= steps - own

    def _ends(self, op: int, state: int, entered: _Entered) -> list[int]:
        """To where edges lead from an operation (operation * STATES + state after the edge); of those that are not listed only to
        what was not entered.
        """
        listed = self._listed_in(state)
        ends = listed.ends[listed.bounds[op] : listed.bounds[op + 1]]
        for place, nodes in self.graph.passed_by.get(op, ()):
            ends += self._passing_ends(op, state, place, nodes, entered)
        for lines in self.graph.timelines:
            first, stop = lines.first[op], lines.stop[op]
            if first < stop:
                after = self._after(state, lines)
                timeline = (lines.order, stop, after)
                stop = entered.below.get(timeline, stop)
                if first < stop:
                    entered.below[timeline] = first
                    ends += [other * STATES + after for other in lines.sequence[first:stop]]
        return ends

    def _listed_in(self, state: int) -> _Listed:
        listed = self._listed.get(state)
        if listed is None:
            listed = self._listed[state] = _Listed.of(self, state)
        return listed

    def _after(self, state: int, lines: Timelines) -> int:
        """The state after an edge of time."""
        return state | ORDERED if lines.order == self.layer.order else state

    def _passing_ends(self, op: int, state: int, place: int, nodes: Sequence[int], entered: _Entered) -> list[int]:
        """To where lso edges lead past an operation's record in one partition, from the nodes that lead to its readers."""
        passing, ends, pending = self.graph.passing[place].nodes, list[int](), list(nodes)
        while pending:
            node = pending.pop()
            if (place, node, state) in entered.passing:
                continue
            reader, before = passing[node]
            if before != NONE:
                pending.append(before)
            if reader != op:  # its own record: another writer may still lead to it, as to the goal of a walk that began here
                entered.passing.add((place, node, state))
                ends.append(reader * STATES + state)
        return ends

    def _edge_to(self, here: int, there: int) -> Edge:
        """The first edge between two operations and states, in the order of `_ends`."""
        op, state = divmod(here, STATES)
        listed = self._listed_in(state)
        start, stop = listed.bounds[op], listed.bounds[op + 1]
        if there in listed.ends[start:stop]:
            return self.graph.edge(int(listed.rows[listed.ends.index(there, start, stop)]))
        return self._unlisted_edge(here, there)

    def _unlisted_edge(self, here: int, there: int) -> Edge:
        (op, state), (other, after) = divmod(here, STATES), divmod(there, STATES)
        names = self.graph.names
        for place, _ in self.graph.passed_by.get(op, ()) if after == state else ():
            low, high = self.graph.passed[place].lowest[op], self.graph.passed[place].highest.get(other, NONE)
            if high > low and self.graph.begin[other] <= self.graph.end[op]:
                return Edge(names[op], names[other], LSO, place, low, high)
        lines = next(lines for lines in self.graph.timelines if lines.leads(op, other) and self._after(state, lines) == after)
        return Edge(names[op], names[other], PROCESS if lines.order == BY_PROCESS else REALTIME)

    # ----------------------------------------------------------------------------------------------
    # Depth first
    # ----------------------------------------------------------------------------------------------
    def detour(self, start: Start, shortest: int, best: BestCycle) -> None:
        """The shortest closed walk visits an operation twice: look for a cycle that does not, in rising length, within bounds."""
        allowed = min(DETOUR_BUDGET, best.detours)
        budget = [allowed]  # steps left, counted down by the recursion
        first, seen = self._first_state(start), {start.goal, start.end}
        members = len(self.graph)
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
            best.count_steps(1)
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
            number, listed = self._number(op), self._listed_in(state)
            rows = listed.rows[listed.bounds[number] : listed.bounds[number + 1]].tolist()
            ends = self._ends(number, state, _Entered())
            some = [self.graph.edge(row) for row in rows]
            some += [self._unlisted_edge(number * STATES + state, there) for there in ends[len(rows) :]]
            edges = [(edge, there % STATES) for edge, there in zip(some, ends, strict=True)]
            onward = self._onward[op, state] = _Onward(edges)
            budget[0] -= len(onward.edges)
            best.work += len(onward.edges)
        return onward
