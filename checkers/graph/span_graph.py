"""The graph of one layer inside one span, in a size that is (nearly) linear in its operations and records.

Two kinds of edges are never listed, since there would be one for nearly every pair of operations:

* Realtime and process edges (`checkers.graph.timelines`).
* lso edges (`checkers.graph.passing`).

For both, auxiliary nodes stand in the graph of which strongly connected components are made (`SpanGraph.expanded`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from fencepost.checkers.graph.components import strongly_connected
from fencepost.checkers.graph.layers import BY_PROCESS, BY_TIME, LSO, NO_ORDER, PROCESS, REALTIME, Layer
from fencepost.checkers.graph.passing import PassingReaders
from fencepost.checkers.graph.span_rows import Edge, SpanOperations, SpanRows, ends_of
from fencepost.checkers.graph.timelines import Timelines
from fencepost.checkers.model.arrays import Bools
from fencepost.checkers.model.values import NONE

ORDERS = {NO_ORDER: (), BY_PROCESS: (BY_PROCESS,), BY_TIME: (BY_TIME, BY_PROCESS)}  # the timelines whose edges a layer may use
TIME_KINDS = {NO_ORDER: NONE, BY_PROCESS: PROCESS, BY_TIME: REALTIME}


@dataclass
class PassedPlaces:
    """The two lists of one partition (`checkers.graph.passed_records`): by writer its lowest record, by reader its highest."""

    lowest: dict[int, int] = field(default_factory=dict)
    highest: dict[int, int] = field(default_factory=dict)


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
    """Operations of one span and the edges between them that a layer may use. Operations and edges are numbered.

    operations, edges: of several edges of one kind from one operation to another, the first.
    passed: the two lists of each partition that has both, by operations' numbers.
    targets: of each edge, the operation to which it leads.
    bounds: the edges of operation n are those from `bounds[n]` to `bounds[n + 1]`.
    """

    def __init__(self, layer: Layer, operations: SpanOperations, edges: SpanRows, passed: Mapping[int, PassedPlaces]) -> None:
        self.layer, self.operations, self.edges = layer, operations, edges
        self.passed = {place: lists for place, lists in passed.items() if lists.lowest and lists.highest}
        self.sources, self.heads = operations.numbers(edges.source), operations.numbers(edges.target)
        self.targets: list[int] = self.heads.tolist()
        self.bounds: list[int] = np.searchsorted(self.sources, np.arange(len(operations) + 1)).tolist()
        self.begin: list[int] = operations.begin.tolist()
        self.end: list[int] = operations.end.tolist()
        self.names: list[int] = operations.index.tolist()

    @classmethod
    def of_rows(cls, layer: Layer, rows: SpanRows, operations: SpanOperations) -> SpanGraph:
        """Make the graph of those rows that the layer may use, and of the operations at their ends."""
        rows = rows.pick(np.isin(rows.kind, list(layer.kinds)))
        listed = rows.kind == LSO
        lists, edges = _with_both(rows.pick(listed)) if listed.any() else rows.pick(listed), rows.pick(~listed)
        ends = np.union1d(ends_of(edges), ends_of(lists)) if len(lists) else ends_of(edges)
        operations = operations.pick(operations.numbers(ends))
        return cls(layer, operations, edges, _passed_places(lists, operations))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def size(self) -> int:
        """The number of operations and of everything that is listed."""
        lists = sum(len(lists.lowest) + len(lists.highest) for lists in self.passed.values())
        return len(self) + len(self.edges) + lists

    @cached_property
    def timelines(self) -> list[Timelines]:
        """Those whose edges the layer may use."""
        return [Timelines(order, self.operations) for order in ORDERS[self.layer.order]]

    @cached_property
    def passing(self) -> dict[int, PassingReaders]:
        """By partition."""
        return {place: PassingReaders(lists.highest, self.begin) for place, lists in self.passed.items()}

    @cached_property
    def passed_by(self) -> dict[int, list[tuple[int, list[int]]]]:
        """Of each writer, by partition the nodes of `PassingReaders` that lead to those who read past its record."""
        nodes: dict[int, list[tuple[int, list[int]]]] = {}
        for place, readers in self.passing.items():
            lowest = self.passed[place].lowest
            for op, past in zip(lowest, readers.past([*lowest.values()], [self.end[op] for op in lowest]), strict=True):
                nodes.setdefault(op, []).append((place, past))
        return nodes

    def edge(self, row: int) -> Edge:
        return self.edges.edge(row)

    def time_edges(self) -> Iterator[tuple[int, int]]:
        """Some of the edges of time that a cycle of the layer has to use: from each operation to the first and the last of those
        that follow it on a timeline.
        """
        return (ends for lines in self.timelines if lines.order == self.layer.order for ends in lines.ends())

    def time_edge(self) -> tuple[int, int] | None:
        return next(self.time_edges(), None)

    def as_edge(self, ends: tuple[int, int]) -> Edge:
        """An edge of time that a cycle of the layer has to use."""
        return Edge(self.names[ends[0]], self.names[ends[1]], TIME_KINDS[self.layer.order])

    # ----------------------------------------------------------------------------------------------
    # Components
    # ----------------------------------------------------------------------------------------------
    def components(self) -> Iterator[SpanGraph]:
        """The strongly connected operations, two or more, with what is between them; by their lowest operations."""
        groups = strongly_connected(self.expanded().with_order())
        among = ([node for node in group if node < len(self)] for group in groups if len(group) > 1)
        several = sorted((sorted(group) for group in among if len(group) > 1), key=lambda group: group[0])
        if len(several) == 1 and len(several[0]) == len(self):
            yield self
        elif several:
            yield from self._parts(several)

    def _parts(self, groups: Sequence[list[int]]) -> Iterator[SpanGraph]:
        """The graph between the operations of each group: edges and lists are looked through once for all of them."""
        part = np.full(len(self), NONE)
        for number, group in enumerate(groups):
            part[group] = number
        of_edge = np.where(part[self.sources] == part[self.heads], part[self.sources], NONE)
        order = np.argsort(of_edge, kind="stable")
        bounds = np.searchsorted(of_edge[order], np.arange(len(groups) + 1))
        passed = self._passed_by_part(part.tolist(), groups)
        for number, group in enumerate(groups):
            edges = self.edges.pick(order[bounds[number] : bounds[number + 1]])
            yield SpanGraph(self.layer, self.operations.pick(group), edges, passed.get(number, {}))

    def _passed_by_part(self, part: Sequence[int], groups: Sequence[list[int]]) -> dict[int, dict[int, PassedPlaces]]:
        """The lists of each group, by its operations' places in the group."""
        if not self.passed:
            return {}
        at = {op: place for group in groups for place, op in enumerate(group)}
        made: dict[int, dict[int, PassedPlaces]] = {}
        for place, lists in self.passed.items():
            for name in ("lowest", "highest"):
                for op, offset in getattr(lists, name).items():
                    if part[op] != NONE:
                        of_place = made.setdefault(part[op], {}).setdefault(place, PassedPlaces())
                        getattr(of_place, name)[at[op]] = offset
        return made

    # ----------------------------------------------------------------------------------------------
    # Auxiliary nodes
    # ----------------------------------------------------------------------------------------------
    def expanded(self, which: Bools | None = None) -> Expanded:
        """The graph of some of the edges, with all edges of time and all lso edges.

        Each timeline is a chain of auxiliary nodes, one for each operation on it, in order. A node leads to the next node and to
        its operation; an operation leads to the node of the first operation that follows it, and so to all that follow.
        """
        targets, bounds = self.targets, self.bounds
        if which is not None:
            targets = self.heads[which].tolist()
            bounds = np.searchsorted(self.sources[which], np.arange(len(self) + 1)).tolist()
        onward = [targets[start:stop] for start, stop in pairwise(bounds)]
        ordered: list[list[int]] = [[] for _ in self.names]
        for lines in self.timelines:
            _add_chains(lines, onward, ordered if lines.order == self.layer.order else onward)
        self._add_passing(onward)
        return Expanded(onward, ordered + [[] for _ in range(len(onward) - len(self))])

    def _add_passing(self, onward: list[list[int]]) -> None:
        first = dict[int, int]()
        for place, readers in self.passing.items():
            first[place] = start = len(onward)
            onward.extend([reader] if before == NONE else [reader, start + before] for reader, before in readers.nodes)
        for op, passed in self.passed_by.items():
            onward[op].extend([first[place] + node for place, nodes in passed for node in nodes])


def _with_both(lists: SpanRows) -> SpanRows:
    """The rows of partitions that have both a writer and a reader."""
    wrote = lists.target == NONE
    return lists.pick(np.isin(lists.place, np.intersect1d(lists.place[wrote], lists.place[~wrote])))


def _passed_places(lists: SpanRows, operations: SpanOperations) -> dict[int, PassedPlaces]:
    passed: dict[int, PassedPlaces] = {}
    wrote = lists.target == NONE
    numbers = operations.numbers(np.where(wrote, lists.source, lists.target)).tolist()
    offsets = np.where(wrote, lists.low, lists.high).tolist()
    for number, place, offset, is_writer in zip(numbers, lists.place.tolist(), offsets, wrote.tolist(), strict=True):
        of_place = passed.setdefault(place, PassedPlaces())
        (of_place.lowest if is_writer else of_place.highest)[number] = offset
    return passed


def _add_chains(lines: Timelines, onward: list[list[int]], links: list[list[int]]) -> None:
    """Add the chains of some timelines to a graph, and the links to them."""
    first = len(onward)
    for place, op in enumerate(lines.sequence):
        if lines.first[op] < lines.stop[op]:
            links[op].append(first + lines.first[op])
        onward.append([first + place + 1, op] if place + 1 < lines.stop[op] else [op])
