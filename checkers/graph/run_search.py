"""Cycles of a whole run in three light passes over the edges that the partitions kept; no process ever holds a long run's graph.

kept edges -> backward ones -> merged spans (numbers only) -> edges inside spans, by span -> the shortest cycle of each layer
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.arrays import Ints
from checkers.graph.edge_filter import Brief, brief_for
from checkers.graph.edge_store import Arrays, Job, KeptEdges, Message, Shared, edges_of
from checkers.graph.edges import ENDS, FIRSTS, decode
from checkers.graph.explain import Records, records_behind
from checkers.graph.layers import (
    ANTI,
    ANTI_TIME,
    BY_PROCESS,
    BY_TIME,
    DATA,
    DIRTY_WR,
    FAMILIES,
    LAYERS,
    NO_ORDER,
    READS,
    RW,
    WR,
    WRITES,
    WW,
    Layer,
)
from checkers.graph.span_search import Edge, Found, Moment, search
from checkers.graph.spans import FOREVER, Spans, ends, merge, merge_all, points, rank, reading_points
from checkers.partition.log import NONE
from checkers.run_view import RunView
from checkers.spark.overview import Overview
from checkers.verdict.rules import FORBIDDEN, rule_for

LARGEST = {READS: 20_000, WRITES: 20_000, ANTI: 3_000, ANTI_TIME: 3_000}  # operations of a span that is searched whole
SAMPLE = 30  # spans of a permitted family looked at first
QUICK = 5_000  # operations: a permitted class is searched beyond the sample only while that is so little
PIECES, PIECE = 2, 250  # of a span too large: so many stretches, so long
BUCKET = 50_000  # operations searched in one task
NAMED = "a contract with `cycles` naming the class has all searched"
BACK = pa.schema([("family", pa.int32()), ("low", pa.int64()), ("high", pa.int64())])
_SMALL = ("bucket", "area", "kind", "place")
INSIDE = pa.schema(
    [
        (name, pa.int32() if name in _SMALL else pa.int64())
        for name in ("bucket", "area", "span", "source", "target", "kind", "place", "low", "high")
    ]
)
CYCLE = pa.schema([("layer", pa.string()), ("unfinished", pa.int64()), ("cycle", pa.string())])


@dataclass
class LayerAnswer:
    """What is known of one layer: its shortest cycle, how many edges were looked at, and why it cannot be answered."""

    compared: int = 0
    cycle: tuple[Edge, ...] = ()
    unknown: str = ""


@dataclass
class Cycles:
    """Every layer's answer by name, the partitions that `Edge.place` counts, and the records behind the cycles' edges."""

    layers: dict[str, LayerAnswer]
    partitions: list[str]
    records: Records = field(default_factory=dict)
    sizes: dict[str, list[int]] = field(default_factory=dict)  # family -> sizes of its spans, largest first (a few)


@dataclass(frozen=True)
class Orders:
    """Operations as arrays in order of index: both orders of points, and what realtime and process edges need.

    index: empty when operations are numbered without a gap. writes: 2 for an operation that writes, 1 for another of a process
    that does, 0 for the others. brief: what the partitions left out.
    """

    index: Any
    placed: Any
    reading: Any
    begin: Ints
    end: Ints
    process: Any
    writes: Any
    brief: Brief | None = None

    def at(self, ops: Any) -> Any:
        return np.searchsorted(self.index, ops) if len(self.index) else ops

    def ranks(self, family: str) -> Any:
        return self.reading if family == ANTI else self.placed

    def searched(self, family: str, part: Mapping[str, Any]) -> Any:
        """Which edges count for a family, as positions."""
        wanted = np.zeros(1 + RW, dtype=np.bool_)
        wanted[list(DATA[family])] = True
        which = wanted[part["kind"]]
        if self.brief is not None and family in (ANTI, ANTI_TIME):
            which &= self.brief.together(part["source"], part["target"])
        return np.flatnonzero(which)


@dataclass(frozen=True)
class Area:
    """Spans to look into for the layers of a family. by: the family whose order `spans` are ranges of. whole: no span was cut."""

    family: str
    by: str
    spans: Spans
    layers: tuple[Layer, ...]


def find_cycles(run: RunView) -> Cycles:
    """The shortest cycle of every layer. Raises RuntimeError when a partition's edges could not be made."""
    with edges_of(run.gathered) as edges:
        cycles = cycles_among(edges, run.overview, demanded(run.contract))
    cycles.records = records_behind((answer.cycle for answer in cycles.layers.values()), run)
    return cycles


def demanded(contract: Mapping[str, str]) -> list[str]:
    """The layers whose cycles are forbidden."""
    return [layer.name for layer in LAYERS if rule_for(layer.name, contract).judged == FORBIDDEN]


def cycles_among(edges: KeptEdges, view: Overview, demanded: Collection[str]) -> Cycles:
    """The shortest cycle of every layer among the edges that the partitions kept.

    demanded: layers that must be searched to the end whatever that takes, because their cycles are forbidden.
    """
    brief = brief_for(view, demanded)
    shared = _Ordered(edges.share(_orders(edges.leaves, view)), brief)
    spans, counts = _spans(edges, shared)
    cycles = Cycles({layer.name: LayerAnswer(_compared(layer, counts)) for layer in LAYERS}, edges.partitions)
    cycles.sizes = {family: sorted(map(int, one.sizes), reverse=True)[:20] for family, one in spans.items()}
    for areas in _rounds(spans, cycles, demanded):
        _search(edges, areas, shared, cycles)
    _own_up(spans, cycles, brief)
    return cycles


def _compared(layer: Layer, counts: Mapping[int, int]) -> int:
    """Edges without which the layer has no cycle: a read leads on only where its reader writes, its process does, or in time."""
    if layer.anti:
        return counts.get(RW, 0)
    if layer.family == WRITES and not layer.must_read:
        return counts.get(WW, 0)
    return sum(counts.get(_count(kind, layer.order), 0) for kind in layer.kinds - {WW})


def _count(kind: int, order: int) -> int:
    """Beside the kinds of edges: those that lead to an operation that writes (NO_ORDER), to a process that does (BY_PROCESS)."""
    return kind if order == BY_TIME else 10 * (1 + order) + kind


# --------------------------------------------------------------------------------------------------
# Points
# --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Ordered:
    """`Orders` wherever they are asked for."""

    arrays: Shared
    brief: Brief | None

    @property
    def value(self) -> Orders:
        return Orders(**self.arrays.value, brief=self.brief)


def _orders(leaves: Sequence[tuple[str, bytes]], view: Overview) -> Arrays:
    firsts, latest = np.full(len(view), FOREVER), np.full(len(view), NONE, dtype=np.int64)
    for role, message in leaves:
        part = decode(message)
        if role == FIRSTS:
            np.minimum.at(firsts, view.at(part["op"]), part["time"])
        else:
            np.maximum.at(latest, view.at(part["op"]), part["time"])
    placed = points(view, firsts)
    pure = ~(view.txn | view.send)
    return {
        "index": view.index[:0] if view.dense else view.index,
        "placed": rank(placed, view.time),
        "reading": rank(reading_points(placed, latest, pure), view.time),
        "begin": view.time,
        "end": ends(view),
        "process": view.process,
        "writes": np.isin(view.process, np.unique(view.process[~pure])).astype(np.int8) + ~pure,
    }


# --------------------------------------------------------------------------------------------------
# Spans
# --------------------------------------------------------------------------------------------------
def _spans(edges: KeptEdges, shared: _Ordered) -> tuple[dict[str, Spans], dict[int, int]]:
    table = edges.each(_backward(shared), BACK)
    family, low, high = (table[name].to_numpy() for name in BACK.names)
    parts = {name: Spans(low[family == number], high[family == number]) for number, name in enumerate(FAMILIES)}
    counted = family < 0
    kinds, counts = -1 - family[counted], low[counted]
    return {name: merge_all([part]) for name, part in parts.items()}, {
        int(kind): int(counts[kinds == kind].sum()) for kind in np.unique(kinds)
    }


def _backward(shared: _Ordered) -> Job:
    """Merged ranges of backward edges per family, and (family below 0) how many edges there are of each kind."""

    def job(edges: Iterable[Message]) -> Iterator[pa.RecordBatch]:
        orders: Orders = shared.value
        for _, message in edges:
            part = decode(message, ENDS)
            for families in ((READS,), (WRITES,), (ANTI, ANTI_TIME)):
                which = orders.searched(families[0], part)
                ends = [orders.at(part[end][which]) for end in ("source", "target")]
                for family in families:
                    start, stop = (orders.ranks(family)[end] for end in ends)
                    back = start > stop
                    spans = merge(stop[back].astype(np.int64), start[back].astype(np.int64))
                    yield _batch(BACK, len(spans), family=FAMILIES.index(family), low=spans.low, high=spans.high)
            counts = _counts(orders, part)
            numbers, amounts = np.array(list(counts)), np.array(list(counts.values()))
            yield _batch(BACK, len(numbers), family=-1 - numbers, low=amounts, high=amounts)

    return job


def _counts(orders: Orders, part: Mapping[str, Any]) -> dict[int, int]:
    """How many edges there are of each kind, and how many of those lead on."""
    counts = dict(enumerate(np.bincount(part["kind"], minlength=1 + RW).tolist()))
    for kind in (WR, DIRTY_WR):
        writes = orders.writes[orders.at(part["target"][part["kind"] == kind])]
        counts |= {_count(kind, order): int((writes >= 2 - order).sum()) for order in (NO_ORDER, BY_PROCESS)}
    return counts


def _batch(schema: pa.Schema, count: int, **columns: Any) -> pa.RecordBatch:
    arrays = []
    for one in schema:
        value = columns[one.name]
        arrays.append(pa.repeat(pa.scalar(value, one.type), count) if isinstance(value, int) else pa.array(value, one.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


# --------------------------------------------------------------------------------------------------
# Where to look, in which order
# --------------------------------------------------------------------------------------------------
def _rounds(spans: Mapping[str, Spans], cycles: Cycles, demanded: Collection[str]) -> Iterator[list[Area]]:
    """First everything of the forbidden family, and some of the others; then the rest, for layers that showed no cycle yet.

    A permitted layer that showed none in the sample is searched on only where that is quick, and else says so.
    """
    first, rest = [], []
    for family, all_of_it in spans.items():
        layers = tuple(layer for layer in LAYERS if layer.family == family and cycles.layers[layer.name].compared)
        small = all_of_it.pick(all_of_it.sizes <= LARGEST[family])
        some = np.zeros(len(small), dtype=np.bool_)
        some[np.unique(np.linspace(0, len(small) - 1, SAMPLE).astype(np.int64)) if len(small) else []] = True
        some |= family == READS
        first.append(Area(family, family, small.pick(some), layers))
        rest.append((family, small.pick(~some), layers))
        if len(small) < len(all_of_it):
            by = ANTI if family == ANTI_TIME else family
            first.append(Area(family, by, _pieces(all_of_it.pick(all_of_it.sizes > LARGEST[family])), layers))
    yield [area for area in first if len(area.spans) and area.layers]
    yield [area for area in _again(rest, cycles, demanded) if area.layers]


def _again(rest: Sequence[tuple[str, Spans, tuple[Layer, ...]]], cycles: Cycles, demanded: Collection[str]) -> Iterator[Area]:
    """What the first round left out, for the layers that want it; the others are told how much was not searched."""
    for family, spans, layers in rest:
        left = int(spans.sizes.sum())
        if not left:
            continue
        open_ = [layer for layer in layers if not cycles.layers[layer.name].cycle]
        wanted = tuple(layer for layer in open_ if layer.name in demanded or left <= QUICK)
        yield Area(family, family, spans, wanted)
        for layer in open_:
            if layer not in wanted:
                why = f"permitted here, so {len(spans)} places of {left} operations were left out after a sample showed none"
                cycles.layers[layer.name].unknown = f"{why}; {NAMED}"


def _pieces(large: Spans) -> Spans:
    """A few stretches, evenly over the large spans."""
    parts = []
    for low, high in zip(large.low[:PIECES], large.high[:PIECES], strict=True):
        starts = np.unique(np.linspace(low, max(low, high - PIECE), max(1, PIECES // len(large))).astype(np.int64))
        parts.append(Spans(starts, np.minimum(starts + PIECE - 1, high)))
    return merge_all(parts)


def _own_up(spans: Mapping[str, Spans], cycles: Cycles, brief: Brief | None) -> None:
    """Layers without a cycle are unknown when not everything was searched."""
    for layer in LAYERS:
        answer, sizes = cycles.layers[layer.name], spans[layer.family].sizes
        large = sizes[sizes > LARGEST[layer.family]]
        if answer.cycle or not answer.compared:
            continue
        if len(large):
            what = f"{len(large)} span(s) of up to {int(large.max())} operations"
            answer.unknown = f"{what} are too large to be searched whole"
        elif brief is not None and layer.anti:
            what = f"{len(brief.stretches)} stretches of {int(brief.stretches.sizes.max())} operations showed none, and"
            answer.unknown = f"permitted here: {what} the rest was left out; {NAMED}"


# --------------------------------------------------------------------------------------------------
# Searching
# --------------------------------------------------------------------------------------------------
def _search(edges: KeptEdges, areas: Sequence[Area], shared: _Ordered, cycles: Cycles) -> None:
    if not areas:
        return
    places = {partition: number for number, partition in enumerate(cycles.partitions)}
    table = edges.grouped(_inside(areas, places, shared), INSIDE, _searched(areas, shared), CYCLE)
    best: dict[str, Found] = {}
    for row in table.to_pylist():
        found = best.setdefault(row["layer"], Found())
        found.unfinished += row["unfinished"]
        if row["cycle"]:
            found.offer(tuple(Edge(*step) for step in json.loads(row["cycle"])))
    for name, found in best.items():
        answer = cycles.layers[name]
        answer.cycle = answer.cycle or found.cycle
        if found.unfinished and not answer.cycle:
            answer.unknown = f"{found.unfinished} search(es) among tangled operations were given up"


def _inside(areas: Sequence[Area], places: Mapping[str, int], shared: _Ordered) -> Job:
    """Edges with both ends in one span, with a bucket for every so many operations."""
    buckets = np.cumsum([0, *(1 + int(area.spans.sizes.sum()) // BUCKET for area in areas)])

    def job(edges: Iterable[Message]) -> Iterator[pa.RecordBatch]:
        orders: Orders = shared.value
        for partition, message in edges:
            part = decode(message)
            for number, area in enumerate(areas):
                ranks, which = orders.ranks(area.by), orders.searched(area.family, part)
                inside, span = area.spans.around(*(ranks[orders.at(part[end][which])] for end in ("source", "target")))
                which = which[inside]
                bucket = buckets[number] + span % (buckets[number + 1] - buckets[number])
                columns = {name: part[name][which] for name in ("source", "target", "kind", "low", "high")}
                yield _batch(INSIDE, len(which), bucket=bucket, area=number, span=span, place=places[partition], **columns)

    return job


def _searched(areas: Sequence[Area], shared: _Ordered) -> Callable[[pa.Table], pa.Table]:
    def job(group: pa.Table) -> pa.Table:
        orders: Orders = shared.value
        rows = {name: group[name].to_numpy() for name in INSIDE.names}
        order = np.lexsort((rows["high"], rows["low"], rows["place"], rows["span"], rows["area"]))
        rows = {name: values[order] for name, values in rows.items()}
        found: dict[str, Found] = {}
        for area in np.unique(rows["area"]):
            mine = slice(*np.searchsorted(rows["area"], [area, area + 1]))
            _search_area(areas[int(area)], {name: values[mine] for name, values in rows.items()}, orders, found)
        answers = [(name, one.unfinished, json.dumps(one.cycle) if one.cycle else "") for name, one in found.items()]
        return pa.Table.from_pylist([dict(zip(CYCLE.names, answer, strict=True)) for answer in answers], schema=CYCLE)

    return job


def _search_area(area: Area, rows: dict[str, Any], orders: Orders, found: dict[str, Found]) -> None:
    """Every layer in every span, until its cycle is short enough."""
    for layer in area.layers:
        which = _trimmed(layer, rows, orders)
        answer = found.setdefault(layer.name, Found())
        bounds = [*np.flatnonzero(np.diff(rows["span"][which], prepend=NONE)).tolist(), len(which)]
        for start, stop in pairwise(bounds):
            some = which[start:stop]
            search(layer, _edges(rows, some), *_about(rows, some, orders, area.family), answer)
            if answer.settled:
                break


def _trimmed(layer: Layer, rows: dict[str, Any], orders: Orders) -> Ints:
    """Rows that may lie on a cycle of the layer: those whose ends lead on and are led to.

    With process edges the operations of one process in one span stand for each other (they lead to each other at most). With
    realtime edges everything may lead to everything.
    """
    which = np.flatnonzero(np.isin(rows["kind"], list(layer.kinds)))
    ends = [rows["source"], rows["target"]]
    if layer.order == BY_PROCESS:
        lines = [orders.process[orders.at(ops)] - int(orders.process.min(initial=0)) for ops in ends]
        ends = [line * (int(rows["span"].max(initial=0)) + 1) + rows["span"] for line in lines]
    while layer.order != BY_TIME and len(which):
        source, target = ends[0][which], ends[1][which]
        keep = np.isin(source, target) & np.isin(target, source)
        if keep.all():
            break
        which = which[keep]
    return which


def _edges(rows: dict[str, Any], which: Ints) -> list[Edge]:
    columns = [rows[name][which].tolist() for name in ("source", "target", "kind", "place", "low", "high")]
    return list(map(Edge, *columns))


def _about(rows: dict[str, Any], which: Ints, orders: Orders, family: str) -> tuple[dict[int, int], dict[int, Moment]]:
    """Ranks and moments of the operations of some edges."""
    ops = np.unique(np.concatenate([rows["source"][which], rows["target"][which]]))
    at = orders.at(ops)
    names = ops.tolist()
    moments = map(Moment, orders.begin[at].tolist(), orders.end[at].tolist(), orders.process[at].tolist())
    return dict(zip(names, orders.ranks(family)[at].tolist(), strict=True)), dict(zip(names, moments, strict=True))
