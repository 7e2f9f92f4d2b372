"""The graph of one layer inside one span, in a size that is (nearly) linear in its operations and records.

Two kinds of edges are never listed, since there would be one for nearly every pair of operations:

* Realtime and process edges. Operations stand on *timelines*, sorted by when they began: one timeline of all for realtime edges,
  one per process for process edges. The followers of an operation are the rest of its timeline from the first operation on that
  began after its end.
* lso edges (`checkers.graph.passing`).

For both, auxiliary nodes stand in the graph of which strongly connected components are made (`SpanGraph.expanded`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from fencepost.checkers.graph.components import strongly_connected
from fencepost.checkers.graph.layers import BY_PROCESS, BY_TIME, NO_ORDER, PROCESS, REALTIME, Layer
from fencepost.checkers.graph.passing import PassingReaders
from fencepost.checkers.model.values import FOREVER, NONE

ORDERS = {NO_ORDER: (), BY_PROCESS: (BY_PROCESS,), BY_TIME: (BY_TIME, BY_PROCESS)}  # the timelines whose edges a layer may use
TIME_KINDS = {NO_ORDER: NONE, BY_PROCESS: PROCESS, BY_TIME: REALTIME}
Timeline = tuple[int, int]  # order and process (-1: all operations)


class Edge(NamedTuple):
    """One step of a cycle: operations by index, kind, and the versions behind it (`place` counts partitions, -1 for none)."""

    source: int
    target: int
    kind: int
    place: int = NONE
    low: int = NONE
    high: int = NONE


class OperationInterval(NamedTuple):
    """The interval of an operation: when it began and was surely over (FOREVER: never), and its process."""

    begin: int
    end: int
    process: int


Intervals = Mapping[int, OperationInterval]


@dataclass
class PassedPlaces:
    """The two lists of one partition (`checkers.graph.passed_records`): by writer its lowest record, by reader its highest."""

    lowest: dict[int, int] = field(default_factory=dict)
    highest: dict[int, int] = field(default_factory=dict)

    def among(self, operations: Collection[int]) -> PassedPlaces:
        lists = ({op: offset for op, offset in some.items() if op in operations} for some in (self.lowest, self.highest))
        return PassedPlaces(*lists)


@dataclass(frozen=True)
class Expanded:
    """A graph with auxiliary nodes; operations have the first numbers, in the order of `SpanGraph.operations`.

    onward: the nodes to which each node leads.
    ordered: those to which it leads besides, by edges of time that a cycle of the layer has to use.
    """

    onward: list[list[int]]
    ordered: list[list[int]]

    def with_order(self) -> list[list[int]]:
        return [plain + ordered if ordered else plain for plain, ordered in zip(self.onward, self.ordered, strict=True)]

    def doubled(self) -> list[list[int]]:
        """Every node twice, the second time (its number moved by the number of nodes) for walks that used an ordered edge."""
        count = len(self.onward)
        first = [plain + [node + count for node in other] for plain, other in zip(self.onward, self.ordered, strict=True)]
        return first + [[node + count for node in nodes] for nodes in self.with_order()]


class SpanGraph:
    """Operations of one span and the edges between them that a layer may use.

    edges: of several edges of one kind from one operation to another, the first.
    """

    def __init__(
        self,
        layer: Layer,
        operations: Iterable[int],
        edges: Iterable[Edge],
        passed: Mapping[int, PassedPlaces],
        intervals: Intervals,
    ) -> None:
        self.layer, self.intervals, self.operations = layer, intervals, list(operations)
        self.edges = list(edges)
        self.passed = {place: lists for place, lists in passed.items() if lists.lowest and lists.highest}
        self.orders = ORDERS[layer.order]

    @classmethod
    def of_rows(cls, layer: Layer, rows: Iterable[Edge], intervals: Intervals) -> SpanGraph:
        """Make the graph from edges, and rows of `PassedPlaces`: a writer has no target, a reader no source."""
        edges, passed = [], dict[int, PassedPlaces]()
        for row in rows:
            if row.target == NONE:
                passed.setdefault(row.place, PassedPlaces()).lowest[row.source] = row.low
            elif row.source == NONE:
                passed.setdefault(row.place, PassedPlaces()).highest[row.target] = row.high
            else:
                edges.append(row)
        first: dict[tuple[int, int, int], Edge] = {}
        for edge in sorted(edges):  # mostly they are sorted
            first.setdefault((edge.source, edge.target, edge.kind), edge)
        edges = list(first.values())
        both = [lists for lists in passed.values() if lists.lowest and lists.highest]
        ends = [op for edge in edges for op in (edge.source, edge.target)]
        operations = dict.fromkeys([*ends, *(op for lists in both for some in (lists.lowest, lists.highest) for op in some)])
        return cls(layer, operations, edges, passed, intervals)

    @property
    def size(self) -> int:
        """The number of operations and of everything that is listed."""
        lists = sum(len(lists.lowest) + len(lists.highest) for lists in self.passed.values())
        return len(self.operations) + len(self.edges) + lists

    @cached_property
    def timelines(self) -> dict[Timeline, tuple[list[int], list[int]]]:
        """The operations on each timeline by begin, and the begins."""
        lines: dict[Timeline, list[int]] = {}
        for op in sorted(self.operations, key=lambda op: (self.intervals[op].begin, op)) if self.orders else ():
            for order in self.orders:
                lines.setdefault(self.timeline_of(op, order), []).append(op)
        return {line: (ops, [self.intervals[op].begin for op in ops]) for line, ops in lines.items()}

    @cached_property
    def place_on(self) -> dict[tuple[Timeline, int], int]:
        return {(timeline, op): at for timeline, (ops, _) in self.timelines.items() for at, op in enumerate(ops)}

    @cached_property
    def passing(self) -> dict[int, PassingReaders]:
        """By partition."""
        return {
            place: PassingReaders(lists.highest, {op: self.intervals[op].begin for op in lists.highest})
            for place, lists in self.passed.items()
        }

    def timeline_of(self, op: int, order: int) -> Timeline:
        return order, self.intervals[op].process if order == BY_PROCESS else NONE

    def first_follower(self, op: int, timeline: Timeline) -> int:
        """The place on a timeline of the first operation after another one, the length of the timeline if there is none: in a
        process an operation may begin at the very time at which the one before it ends.
        """
        end, begins = self.intervals[op].end, self.timelines[timeline][1]
        if end == FOREVER:
            return len(begins)
        after = bisect_left(begins, end) if timeline[0] == BY_PROCESS else bisect_right(begins, end)
        return max(after, self.place_on[timeline, op] + 1)

    def time_edges(self) -> Iterator[Edge]:
        """Some of the edges of time that a cycle of the layer has to use: from each operation to the first and the last of those
        that follow it on a timeline.
        """
        for timeline, (ops, _) in self.timelines.items():
            for op in ops if timeline[0] == self.layer.order else ():
                at = self.first_follower(op, timeline)
                for other in dict.fromkeys((*ops[at : at + 1], *ops[max(at, len(ops) - 1) :])):
                    yield Edge(op, other, TIME_KINDS[self.layer.order])

    def time_edge(self) -> Edge | None:
        return next(self.time_edges(), None)

    def components(self) -> Iterator[SpanGraph]:
        """The strongly connected operations, two or more, with what is between them."""
        groups = strongly_connected(self.expanded(self.edges).with_order())
        sets = [{self.operations[node] for node in group if node < len(self.operations)} for group in groups if len(group) > 1]
        for operations in sorted((some for some in sets if len(some) > 1), key=min):
            yield self._among(operations)

    def _among(self, operations: Collection[int]) -> SpanGraph:
        if len(operations) == len(self.operations):
            return self
        edges = (edge for edge in self.edges if edge.source in operations and edge.target in operations)
        passed = {place: lists.among(operations) for place, lists in self.passed.items()}
        return SpanGraph(self.layer, sorted(operations), edges, passed, self.intervals)

    def expanded(self, edges: Iterable[Edge]) -> Expanded:
        """The graph of some of the edges, with all edges of time and all lso edges.

        Each timeline is a chain of auxiliary nodes, one for each operation on it, in order. A node leads to the next node and to
        its operation; an operation leads to the node of the first operation that follows it, and so to all that follow.
        """
        number = {op: place for place, op in enumerate(self.operations)}
        onward: list[list[int]] = [[] for _ in number]
        for edge in edges:
            onward[number[edge.source]].append(number[edge.target])
        ordered: list[list[int]] = [[] for _ in number]
        for timeline, (ops, _) in self.timelines.items():
            first, links = len(onward), ordered if timeline[0] == self.layer.order else onward
            for place, op in enumerate(ops):
                at = self.first_follower(op, timeline)
                if at < len(ops):
                    links[number[op]].append(first + at)
                onward.append([first + place + 1, number[op]])
            onward[-1].pop(0)
        self._add_passing(onward, number)
        return Expanded(onward, ordered + [[] for _ in range(len(onward) - len(number))])

    def _add_passing(self, onward: list[list[int]], number: Mapping[int, int]) -> None:
        for place, readers in self.passing.items():
            first = len(onward)
            for reader, before in readers.nodes:
                onward.append([number[reader]] if before == NONE else [number[reader], first + before])
            for op, low in self.passed[place].lowest.items():
                onward[number[op]].extend(first + node for node in readers.past(low, self.intervals[op].end))
