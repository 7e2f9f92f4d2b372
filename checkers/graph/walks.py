"""Closed walks in one strongly connected component of a layer, the shortest first.

A *state* of the search is an operation together with what the walk to it has used: a wr edge? an edge of time? how many rw edges?
A closed walk is a cycle of the layer if its state says that it used what the layer must use. A shortest closed walk may visit an
operation twice, because it had to fetch an edge of some kind; then a cycle that does not is looked for by depth first search in
rising length, within bounds (`Walks.detour`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fencepost.checkers.graph.layers import BY_PROCESS, LSO, PROCESS, REALTIME, RW, SEVERAL, WW
from fencepost.checkers.graph.span_graph import TIME_KINDS, SpanGraph
from fencepost.checkers.graph.span_rows import Edge
from fencepost.checkers.graph.timelines import Timelines
from fencepost.checkers.model.values import FOREVER, NONE

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
class _Steps:
    """Edges of one sort from an operation: where they lead, and what each is.

    ends: operation and state after the edge, as one number: operation * STATES + state.
    edge: by its position.
    """

    ends: list[int]
    edge: Callable[[int], Edge]


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
        self._kinds: list[int] = graph.edges.kind.tolist()
        self._after = [[self.state_after(state, kind) for kind in range(1 + REALTIME)] for state in range(STATES)]
        self._keeps_state = [all(row[kind] == state for kind in self.layer.kinds) for state, row in enumerate(self._after)]
        self._listed: dict[tuple[int, int], _Steps] = {}
        self._onward: dict[tuple[int, int], _Onward] = {}
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
        goal = self._number(start.goal) * STATES
        closing = {goal + state for state in range(STATES) if self.is_cycle(state)}
        parents = dict.fromkeys(range(goal, goal + STATES), NONE)  # the goal is never gone on from
        origin = self._number(start.end) * STATES + first
        parents[origin] = NONE
        entered, level, depth = _Entered(), [origin], len(start.walk)
        while level and not (best.cycle and depth + 1 >= len(best.cycle)):
            following: list[int] = []
            for here in level:
                for steps in self._steps(here // STATES, here % STATES, entered):
                    if not closing.isdisjoint(steps.ends):
                        at = next(at for at, there in enumerate(steps.ends) if there in closing)
                        self._count(best, at + 1)
                        self._close(start, (*start.walk, *self._path(parents, here), steps.edge(at)), best)
                        return
                    self._count(best, len(steps.ends))
                    new = dict.fromkeys([there for there in steps.ends if there not in parents], here)
                    parents.update(new)
                    following.extend(new)
                if best.good_enough or self.spent(best):
                    best.unfinished += self.spent(best)
                    return
            level, depth = following, depth + 1

    def _number(self, op: int) -> int:
        return int(self.graph.operations.numbers(op))

    def _close(self, start: Start, walk: tuple[Edge, ...], best: BestCycle) -> None:
        """Take a closed walk as a cycle; where it visits an operation twice, look for another."""
        if len({step.source for step in walk}) == len(walk):
            best.offer(walk)
        else:
            self.detour(start, len(walk), best)

    def _path(self, parents: Mapping[int, int], here: int) -> list[Edge]:
        """The edges by which a search came to an operation in a state. The first one that leads there was taken: what a search
        leaves out, since it was entered before, leads nowhere new.
        """
        path: list[Edge] = []
        while (before := parents[here]) != NONE:
            every = self._steps(before // STATES, before % STATES, _Entered())
            path.append(next(steps.edge(steps.ends.index(here)) for steps in every if here in steps.ends))
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

    def _steps(self, op: int, state: int, entered: _Entered) -> Iterator[_Steps]:
        """Every edge from an operation; of those that are not listed only to what was not entered."""
        yield self._listed_steps(op, state)
        for place, low in self._passed_by.get(op, ()):
            yield self._passing_steps(op, state, (place, low), entered)
        if self.graph.end[op] == FOREVER:
            return
        for lines in self.graph.timelines:
            yield self._time_steps(op, state, lines, entered)

    def _listed_steps(self, op: int, state: int) -> _Steps:
        steps = self._listed.get((op, state))
        if steps is None:
            rows = range(self.graph.bounds[op], self.graph.bounds[op + 1])
            targets, after = self.graph.targets, self._after[state]
            if self._keeps_state[state]:
                ends = [targets[row] * STATES + state for row in rows]
                steps = _Steps(ends, lambda at: self.graph.edge(rows[at]))
            else:
                leads = [(row, end) for row in rows if (end := after[self._kinds[row]]) is not None]
                steps = _Steps([targets[row] * STATES + end for row, end in leads], lambda at: self.graph.edge(leads[at][0]))
            self._listed[op, state] = steps
        return steps

    def _passing_steps(self, op: int, state: int, passed: tuple[int, int], entered: _Entered) -> _Steps:
        """The lso edges past an operation's record in one partition (place, offset)."""
        place, low = passed
        readers, highest = self.graph.passing[place], self.graph.passed[place].highest
        nodes, reached = readers.past(low, self.graph.end[op]), list[int]()
        while nodes:
            node = nodes.pop()
            if (place, node, state) in entered.passing:
                continue
            reader, before = readers.nodes[node]
            if before != NONE:
                nodes.append(before)
            if reader != op:  # its own record: another writer may still lead to it, as to the goal of a walk that began here
                entered.passing.add((place, node, state))
                reached.append(reader)
        names = self.graph.names
        return _Steps(
            [reader * STATES + state for reader in reached],
            lambda at: Edge(names[op], names[reached[at]], LSO, place, low, highest[reached[at]]),
        )

    def _time_steps(self, op: int, state: int, lines: Timelines, entered: _Entered) -> _Steps:
        kind = PROCESS if lines.order == BY_PROCESS else REALTIME
        after = self._after[state][kind]
        assert after is not None
        timeline, first = (lines.order, lines.stop[op], after), lines.first[op]
        stop = entered.below.get(timeline, lines.stop[op])
        entered.below[timeline] = min(stop, first)
        followers, names = lines.sequence[first:stop], self.graph.names
        ends = [other * STATES + after for other in followers]
        return _Steps(ends, lambda at: Edge(names[op], names[followers[at]], kind))

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
            every = self._steps(self._number(op), state, _Entered())
            edges = [(steps.edge(at), end % STATES) for steps in every for at, end in enumerate(steps.ends)]
            onward = self._onward[op, state] = _Onward(edges)
            budget[0] -= len(onward.edges)
            best.work += len(onward.edges)
        return onward
