"""Cycles of a whole run, in three light passes over the edges of its partitions. No process ever holds a long run's graph.

1. Each partition makes its edges (`checkers.graph.edges`); they stay where they were made. Those of a group's offsets come from
   the driver (`checkers.graph.group_offsets`).
2. Every message of edges is looked through for backward ones. Their ranges of ranks are merged into spans (`_spans`).
3. Edges with both ends in one span go, span by span, to the processes that search them for the shortest cycle of each layer
   (`_search`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.checkers.graph.edge_filter import edge_filter_for
from fencepost.checkers.graph.edges import ENDS
from fencepost.checkers.graph.explain import records_behind
from fencepost.checkers.graph.gathered_edges import GatheredEdges, Job, gathered_edges
from fencepost.checkers.graph.group_offsets import edge_messages
from fencepost.checkers.graph.joined_messages import COLUMNS, PlacedMessage, columns, holds_lists
from fencepost.checkers.graph.layers import (
    ANTI,
    ANTI_TIME,
    BY_PROCESS,
    BY_TIME,
    DIRTY_WR,
    FAMILIES,
    LAYERS,
    LSO,
    NO_ORDER,
    READS,
    RW,
    WR,
    WRITES,
    WW,
    Layer,
)
from fencepost.checkers.graph.lso_edges import PassedLists, backward_ranges, inside, passing_readers
from fencepost.checkers.graph.operation_order import OperationOrder, SharedOrder, order_arrays
from fencepost.checkers.graph.rules import forbidden_layers
from fencepost.checkers.graph.search_tasks import Cycles, LayerAnswer, SearchTask, mark_unknown, rounds
from fencepost.checkers.graph.span_rows import Edge, SpanOperations, SpanRows, ends_of, first_of_kind
from fencepost.checkers.graph.span_search import search_span
from fencepost.checkers.graph.spans import SpanSet, merge, merge_all
from fencepost.checkers.graph.walks import BestCycle
from fencepost.checkers.history.overview import Overview
from fencepost.checkers.model.arrays import Ints
from fencepost.checkers.model.values import NONE
from fencepost.checkers.views.run_view import RunView

BUCKET = 50_000  # operations searched in one task
TRIMS = 8  # rounds: what they leave is for the search of components, so that a long chain takes no round for each edge
BACKWARD_RANGES = pa.schema([("family", pa.int32()), ("low", pa.int64()), ("high", pa.int64())])
_SMALL = ("bucket", "task", "kind", "place")
EDGES_INSIDE = pa.schema(
    [
        (name, pa.int32() if name in _SMALL else pa.int64())
        for name in ("bucket", "task", "span", "source", "target", "kind", "place", "low", "high")
    ]
)
LAYER_CYCLE = pa.schema(
    [("layer", pa.string()), *((name, pa.int64()) for name in ("unfinished", "starts", "largest")), ("cycle", pa.string())]
)


def find_cycles(run: RunView) -> Cycles:
    """The shortest cycle of every layer. Raises RuntimeError when a partition's edges could not be made."""
    with gathered_edges(run.gathered, *edge_messages(run)) as edges:
        cycles = cycles_among(edges, run.overview, forbidden_layers(run.contract))
    cycles.records = records_behind((answer.cycle for answer in cycles.layers.values()), run)
    return cycles


def cycles_among(edges: GatheredEdges, view: Overview, forbidden: Collection[str]) -> Cycles:
    """The shortest cycle of every layer among the edges that the partitions kept.

    forbidden: layers that must be searched to the end whatever that takes, because their cycles are forbidden.
    """
    edge_filter = edge_filter_for(view, forbidden)
    shared = SharedOrder(edges.share(order_arrays(edges.to_driver, view)), edge_filter)
    view.arrays.drop_pages()
    spans, counts = _spans(edges, shared)
    cycles = Cycles({layer.name: LayerAnswer(_compared(layer, counts)) for layer in LAYERS}, edges.partitions)
    cycles.sizes = {family: sorted(map(int, span_set.sizes), reverse=True)[:20] for family, span_set in spans.items()}
    for tasks in rounds(spans, cycles, forbidden):
        _search(edges, tasks, shared, cycles)
    mark_unknown(spans, cycles, edge_filter)
    return cycles


def _compared(layer: Layer, counts: Mapping[int, int]) -> int:
    """Edges without which the layer has no cycle: a read leads on only where its reader writes, its process does, or in time."""
    if layer.anti:
        return counts.get(RW, 0)
    if layer.family == WRITES and not layer.must_read:
        return counts.get(WW, 0)
    return sum(counts.get(_count(kind, layer.order), 0) for kind in layer.kinds - {WW})


def _count(kind: int, order: int) -> int:
    """Key of a count: of the edges of a kind, or of those that lead to an operation that writes (NO_ORDER) or to a process that
    does (BY_PROCESS).
    """
    return kind if order == BY_TIME else 10 * (1 + order) + kind


# --------------------------------------------------------------------------------------------------
# SpanSet
# --------------------------------------------------------------------------------------------------
def _spans(edges: GatheredEdges, shared: SharedOrder) -> tuple[dict[str, SpanSet], dict[int, int]]:
    """The spans of each family, and how many edges there are of each kind."""
    table = edges.each(_backward(shared), BACKWARD_RANGES)
    family, low, high = (table[name].to_numpy() for name in BACKWARD_RANGES.names)
    parts = {name: SpanSet(low[family == number], high[family == number]) for number, name in enumerate(FAMILIES)}
    counted = family < 0
    kinds, counts = -1 - family[counted], low[counted]
    return {name: merge_all([part]) for name, part in parts.items()}, {
        int(kind): int(counts[kinds == kind].sum()) for kind in np.unique(kinds)
    }


def _backward(shared: SharedOrder) -> Job:
    """Merged ranges of backward edges per family, and (family below 0) how many edges there are of each kind.

    An edge goes back where its source has the higher rank. Its range goes from the rank of its target to that of its source.
    """

    def job(edges: Iterable[PlacedMessage]) -> Iterator[pa.RecordBatch]:
        orders: OperationOrder = shared.value
        for message in edges:
            part = columns(message, ENDS)
            if holds_lists(part):
                lists = PassedLists.of_rows(columns(message))
                spans = merge(*backward_ranges(lists, orders))
                yield from _ranges(READS, spans)
                yield _count_batch(_leading(orders, LSO, passing_readers(lists)))
                continue
            for families in ((READS,), (WRITES,), (ANTI, ANTI_TIME)):
                which = orders.searched(families[0], part)
                ends = [orders.at(part[end][which]) for end in ("source", "target")]
                for family in families:
                    start, stop = (orders.ranks(family)[end] for end in ends)
                    back = start > stop
                    yield from _ranges(family, merge(stop[back].astype(np.int64), start[back].astype(np.int64)))
            yield _count_batch(_counts(orders, part))

    return job


def _ranges(family: str, spans: SpanSet) -> Iterator[pa.RecordBatch]:
    """The batch of a family's ranges; none where there are none, as in most partitions."""
    if len(spans):
        yield _batch(BACKWARD_RANGES, len(spans), family=FAMILIES.index(family), low=spans.low, high=spans.high)


def _count_batch(counts: Mapping[int, int]) -> pa.RecordBatch:
    numbers, amounts = np.array(list(counts)), np.array(list(counts.values()))
    return _batch(BACKWARD_RANGES, len(numbers), family=-1 - numbers, low=amounts, high=amounts)


def _counts(orders: OperationOrder, part: Mapping[str, Any]) -> dict[int, int]:
    """The number of edges of each kind, and of those that lead on."""
    counts = dict(enumerate(np.bincount(part["kind"], minlength=1 + RW).tolist()))
    for kind in (WR, DIRTY_WR):
        counts |= _leading(orders, kind, part["target"][part["kind"] == kind])
    return counts


def _leading(orders: OperationOrder, kind: int, readers: Ints) -> dict[int, int]:
    """The number of edges of a kind that lead to these readers, and of those that lead on."""
    writes = orders.writes[orders.at(readers)]
    return {kind: len(readers), **{_count(kind, order): int((writes >= 2 - order).sum()) for order in (NO_ORDER, BY_PROCESS)}}


def _batch(schema: pa.Schema, count: int, **columns: Any) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        value = columns[field.name]
        arrays.append(pa.repeat(pa.scalar(value, field.type), count) if isinstance(value, int) else pa.array(value, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


# --------------------------------------------------------------------------------------------------
# Searching
# --------------------------------------------------------------------------------------------------
def _search(edges: GatheredEdges, tasks: Sequence[SearchTask], shared: SharedOrder, cycles: Cycles) -> None:
    """Search some tasks, and put into `cycles` what is new."""
    if not tasks:
        return
    buckets = np.cumsum([0, *(1 + int(task.spans.sizes.sum()) // BUCKET for task in tasks)])
    inside = _edges_inside(tasks, buckets, shared)
    table = edges.grouped(inside, EDGES_INSIDE, _search_bucket(tasks, shared), LAYER_CYCLE, int(buckets[-1]))
    best: dict[str, BestCycle] = {}
    for row in table.to_pylist():
        shortest = best.setdefault(row["layer"], BestCycle())
        shortest.unfinished += row["unfinished"]
        shortest.starts += row["starts"]
        shortest.largest = max(shortest.largest, row["largest"])
        if row["cycle"]:
            shortest.offer(tuple(Edge(*step) for step in json.loads(row["cycle"])))
    for name, shortest in best.items():
        answer = cycles.layers[name]
        answer.cycle = answer.cycle or shortest.cycle
        if shortest.unfinished and not answer.cycle:
            answer.unknown = shortest.given_up


def _edges_inside(tasks: Sequence[SearchTask], buckets: Ints, shared: SharedOrder) -> Job:
    """Edges with both ends in one span of a task.

    The spans of a task are dealt out to buckets, one for every so many operations; the edges of one bucket are searched in one
    process. `buckets[n]` is the first bucket of task n.
    """

    def job(edges: Iterable[PlacedMessage]) -> Iterator[pa.RecordBatch]:
        orders: OperationOrder = shared.value
        for message in edges:
            part = columns(message)
            for number, task in enumerate(tasks):
                some, span = (_lso_inside if holds_lists(part) else _inside)(task, part, orders)
                if not len(span):
                    continue
                bucket = buckets[number] + span % (buckets[number + 1] - buckets[number])
                yield _batch(EDGES_INSIDE, len(span), bucket=bucket, task=number, span=span, **some)

    return job


def _inside(task: SearchTask, part: Mapping[str, Any], orders: OperationOrder) -> tuple[dict[str, Any], Ints]:
    """The edges of a message with both ends in one span of a task, and the span of each."""
    ranks, which = orders.ranks(task.rank_family), orders.searched(task.family, part)
    inside, span = task.spans.around(*(ranks[orders.at(part[end][which])] for end in ("source", "target")))
    return {name: part[name][which[inside]] for name in COLUMNS}, span


def _lso_inside(task: SearchTask, part: Mapping[str, Any], orders: OperationOrder) -> tuple[dict[str, Any], Ints]:
    """The rows of the lists of `checkers.graph.passed_records` whose operation lies in a span of a task, and the span of each."""
    spans = task.spans if task.family == READS else task.spans.pick(slice(0))
    which, span = inside(part, orders, orders.ranks(task.rank_family), spans)
    return {name: part[name][which] for name in COLUMNS}, span


def _search_bucket(tasks: Sequence[SearchTask], shared: SharedOrder) -> Callable[[pa.Table], pa.Table]:
    """The shortest cycle of each layer among the edges of a bucket. Sorted edges make the answer always the same."""

    def job(group: pa.Table) -> pa.Table:
        orders: OperationOrder = shared.value
        rows = {name: group[name].to_numpy() for name in EDGES_INSIDE.names}
        order = np.lexsort([rows[name] for name in ("high", "low", "place", "kind", "target", "source", "span", "task")])
        rows = {name: values[order] for name, values in rows.items()}
        best: dict[str, BestCycle] = {}
        for task in np.unique(rows["task"]):
            of_task = slice(*np.searchsorted(rows["task"], [task, task + 1]))
            in_task = {name: values[of_task] for name, values in rows.items()}
            first = first_of_kind(in_task)
            _search_task(tasks[int(task)], {name: values[first] for name, values in in_task.items()}, orders, best)
        answers = [
            (name, some.unfinished, some.starts, some.largest, json.dumps(some.cycle) if some.cycle else "")
            for name, some in best.items()
        ]
        return pa.Table.from_pylist([dict(zip(LAYER_CYCLE.names, answer, strict=True)) for answer in answers], schema=LAYER_CYCLE)

    return job


def _search_task(task: SearchTask, rows: dict[str, Any], orders: OperationOrder, best: dict[str, BestCycle]) -> None:
    """Every layer in every span, until its cycle is short enough. Rows are sorted by span; `bounds` are where a span begins."""
    for layer in task.layers:
        which = _trimmed(layer, rows, orders)
        answer = best.setdefault(layer.name, BestCycle())
        bounds = [*np.flatnonzero(np.diff(rows["span"][which], prepend=NONE)).tolist(), len(which)]
        for start, stop in pairwise(bounds):
            some = which[start:stop]
            in_span = SpanRows(*(rows[name][some] for name in Edge._fields))
            search_span(layer, in_span, _operations(in_span, orders, task.family), answer)
            if answer.good_enough:
                break


def _trimmed(layer: Layer, rows: dict[str, Any], orders: OperationOrder) -> Ints:
    """Rows that may lie on a cycle of the layer: a few times drop edges whose source is no target, or whose target no source.

    With process edges an end is not an operation but a process in a span, as one number: an operation may lead to any later one
    of its process. With realtime edges it may lead to any operation, so nothing is dropped. A row of the lists of
    `checkers.graph.passed_records` has one end; NONE stands for the other one.
    """
    which = np.flatnonzero(np.isin(rows["kind"], list(layer.kinds)))
    ends = [rows["source"], rows["target"]]
    if layer.order == BY_PROCESS:
        ends = [_process_in_span(ops, rows["span"], orders) for ops in ends]
    for _ in range(TRIMS if layer.order != BY_TIME else 0):
        source, target = ends[0][which], ends[1][which]
        keep = np.isin(source, target) & np.isin(target, source)
        which = which[keep]
        if keep.all():
            break
    return which


def _process_in_span(ops: Ints, span: Ints, orders: OperationOrder) -> Ints:
    processes = orders.process[orders.at(np.maximum(ops, 0))] - int(orders.process.min(initial=0))
    return np.where(ops == NONE, NONE, processes * (int(span.max(initial=0)) + 1) + span)


def _operations(rows: SpanRows, orders: OperationOrder, family: str) -> SpanOperations:
    """The operations at the ends of some rows."""
    ops = ends_of(rows)
    at = orders.at(ops)
    return SpanOperations(ops, orders.ranks(family)[at], orders.begin[at], orders.end[at], orders.process[at])
