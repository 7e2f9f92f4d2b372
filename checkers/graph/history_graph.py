"""The graph of a history, or of the surroundings of some operations, as columns: for those who want to look at it themselves.

The search for cycles (`checkers.graph.run_search`) lists neither edges of time nor lso edges. Here they are listed: lso edges as
docs/graphs.md defines them, and edges of time. Of both, those that follow from others are left out (a transitive reduction).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from fencepost.checkers.graph.edges import gather
from fencepost.checkers.graph.explain import KINDS
from fencepost.checkers.graph.gathered_edges import GatheredEdges, Job, gathered_edges
from fencepost.checkers.graph.group_offsets import PLACE, edge_messages, partition_of
from fencepost.checkers.graph.joined_messages import COLUMNS, PlacedMessage, columns, holds_lists
from fencepost.checkers.graph.layers import DIRTY_WR, LSO, PROCESS, REALTIME, WR
from fencepost.checkers.graph.spans import ends
from fencepost.checkers.history.overview import Overview
from fencepost.checkers.model.arrays import Bools, Ints, among
from fencepost.checkers.model.values import FOREVER, NONE
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api import CampaignError
from fencepost.harness.api.services import GraphColumns
from fencepost.harness.api.words import plural

GATHERER = gather
BLOCK = 128  # transactions of a partition that are looked at together
_TYPES = {"kind": pa.int32(), "place": pa.int32()}
_COUNTED = pa.schema([(name, _TYPES.get(name, pa.int64())) for name in (*COLUMNS, "records")])
_NONE = np.empty(0, dtype=np.int64)
_SAME = ("source", "target", "kind", "place")
_EDGES = pa.schema(
    [
        ("source", pa.int64()),
        ("target", pa.int64()),
        ("kind", pa.string()),
        ("partition", pa.string()),
        ("low", pa.int64()),
        ("high", pa.int64()),
        ("records", pa.int64()),
        ("group_offset", pa.bool_()),
        ("judged", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class _Times:
    """When each operation began, and when it was surely over (FOREVER: never), by position; `index`: empty, an index is a
    position."""

    index: Any
    begin: Ints
    over: Ints

    @classmethod
    def of(cls, view: Overview) -> _Times:
        return cls(view.index[:0] if view.dense else view.index, view.time, ends(view))

    def at(self, ops: Any) -> Any:
        return np.searchsorted(self.index, ops) if len(self.index) else ops


def history_graph(run: RunView, start: Sequence[int] | None, radius: int, most: int) -> GraphColumns:
    """The operations and edges of a run whose edges were gathered: all, or those up to `radius` edges away from some operations.

    Raises CampaignError when more than `most` operations lie there, or one of those to start from is none of the history;
    RuntimeError when a partition's edges could not be made.
    """
    view, times = run.overview, _Times.of(run.overview)
    with gathered_edges(run.gathered, *edge_messages(run)) as edges:
        ops = np.asarray(view.index, dtype=np.int64)
        if start is not None:
            ops = _near(edges, view, times, _known(view, start), radius, most)
        whole = len(ops) == len(view)
        between = _collected(edges, _job(times, None if whole else ops, _both))
        return GraphColumns(ops, pa.concat_tables([_named(between, edges.partitions), _of_time(view, ops)]))


def _known(view: Overview, start: Sequence[int]) -> Ints:
    ops = np.unique(np.asarray(start, dtype=np.int64))
    unknown = np.setdiff1d(ops, view.index)
    if len(unknown):
        raise CampaignError([f"operation {unknown[0]} is none of the history, which has {len(view):,}"])
    return ops


def _near(edges: GatheredEdges, view: Overview, times: _Times, ops: Ints, radius: int, most: int) -> Ints:
    """The operations up to so many edges away; edges of time in a process count, others in real time do not."""
    process = _process_pairs(view, np.asarray(view.index, dtype=np.int64))
    for _ in range(radius):
        step = _collected(edges, _job(times, ops, _either))
        neighbours = [ops, *(step[name].to_numpy() for name in ("source", "target"))]
        touching = among(process[0], ops) | among(process[1], ops)
        ops = np.unique(np.concatenate([*neighbours, *(ends[touching] for ends in process)]))
        if len(ops) > most:
            there = f"{len(ops):,} operations lie within {plural(radius, 'edge')}, more than {most:,}"
            raise CampaignError([f"{there}: ask for a smaller radius, or allow more"])
    return ops


# --------------------------------------------------------------------------------------------------
# Edges of records and offsets
# --------------------------------------------------------------------------------------------------
Chosen = Callable[[Any, Any, Ints], Bools]  # of two ends and some operations: which edges are taken


def _both(source: Any, target: Any, ops: Ints) -> Bools:
    return among(source, ops) & among(target, ops)


def _either(source: Any, target: Any, ops: Ints) -> Bools:
    return among(source, ops) | among(target, ops)


def _job(times: _Times, ops: Ints | None, chosen: Chosen) -> Job:
    """The edges of all operations (None), or those that some operations choose, with lso edges listed."""

    def job(messages: Iterable[PlacedMessage]) -> Iterator[pa.RecordBatch]:
        for message in messages:
            part = columns(message)
            if holds_lists(part):
                yield from map(_counted, _lso_edges(part, times, ops, chosen))
                continue
            which = slice(None) if ops is None else np.flatnonzero(chosen(part["source"], part["target"], ops))
            yield _counted({name: part[name][which] for name in COLUMNS})

    return job


def _lso_edges(part: Any, times: _Times, ops: Ints | None, chosen: Chosen) -> Iterator[dict[str, Any]]:
    """The lso edges of the lists of one message (`checkers.graph.passed_records`), partition by partition.

    Those that follow from another one and a realtime edge are left out: a transaction of which nobody knows when it was over
    would have one to every later reader.
    """
    for place in np.unique(part["place"]):
        of_place = part["place"] == place
        wrote, read = of_place & (part["target"] == NONE), of_place & (part["target"] != NONE)
        reader, high = part["target"][read], part["high"][read]
        if ops is not None and chosen is _both:
            inside = among(reader, ops)
            reader, high = reader[inside], high[inside]
        if not wrote.any() or not len(reader):
            continue
        writer, low = part["source"][wrote], part["low"][wrote]
        known = _known_from(low, high, times.over[times.at(reader)])
        writers = _Writers(writer, low, np.minimum(times.over[times.at(writer)], known))
        passed = writers.passed(high, times.begin[times.at(reader)])
        which, below = np.repeat(np.arange(len(reader)), [len(some) for some in passed]), np.concatenate([_NONE, *passed])
        rows = {"source": writers.op[below], "target": reader[which], "low": writers.low[below], "high": high[which]}
        taken = rows["source"] != rows["target"]
        if ops is not None:
            taken &= chosen(rows["source"], rows["target"], ops)
        yield {name: values[taken] for name, values in rows.items()} | {
            "kind": np.full(int(taken.sum()), LSO),
            "place": np.full(int(taken.sum()), place),
        }


def _known_from(low: Ints, high: Ints, over: Ints) -> Ints:
    """The time at which the first reader that passed each transaction was over. high: rising, of readers that were over then."""
    first = np.append(np.minimum.accumulate(over[::-1])[::-1], FOREVER)
    return np.asarray(first[np.searchsorted(high, low, side="right")])


@dataclass(frozen=True)
class _Writers:
    """The transactions of a partition in the order of their lowest records.

    over: the time after which edges to those that begin follow from others.
    """

    op: Ints
    low: Ints
    over: Ints

    def passed(self, high: Ints, begin: Ints) -> list[Ints]:
        """For each reader that got a record at `high`, and when it began: the transactions below that were not over by then.

        Those that are over some time are looked through in blocks, since most blocks were over long before a reader began.
        """
        never = np.flatnonzero(self.over == FOREVER)
        sometime = np.flatnonzero(self.over != FOREVER)
        over, starts = self.over[sometime], np.arange(0, len(sometime), BLOCK)
        latest = np.maximum.reduceat(over, starts) if len(over) else over
        below = [np.searchsorted(self.low[some], high, side="left").tolist() for some in (sometime, never)]
        passed = []
        for time, count, count_never in zip(begin.tolist(), *below, strict=True):
            blocks = np.flatnonzero(latest[: -(-count // BLOCK)] >= time)
            near = (starts[blocks, None] + np.arange(BLOCK)).ravel()
            near = near[near < count]
            passed.append(np.concatenate([sometime[near[over[near] >= time]], never[:count_never]]))
        return passed


def _counted(rows: dict[str, Any]) -> pa.RecordBatch:
    """Edges, those of one kind and partition from one operation to another as one, and of how many records each is."""
    arrays = {name: np.asarray(rows[name], dtype=np.int64) for name in COLUMNS}
    arrays["records"] = np.asarray(rows.get("records", np.ones(len(arrays["source"]))), dtype=np.int64)
    order = np.lexsort([arrays[name] for name in ("high", "low", *reversed(_SAME))])
    arrays = {name: values[order] for name, values in arrays.items()}
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = np.logical_or.reduce([arrays[name][1:] != arrays[name][:-1] for name in _SAME])
    first = np.flatnonzero(new)
    records = np.add.reduceat(arrays["records"], first) if len(first) else arrays["records"]
    counted = {name: values[first] for name, values in arrays.items()} | {"records": records}
    return pa.RecordBatch.from_arrays([pa.array(counted[field.name], field.type) for field in _COUNTED], schema=_COUNTED)


def _collected(edges: GatheredEdges, job: Job) -> pa.Table:
    table = edges.each(job, _COUNTED)
    return pa.Table.from_batches([_counted({name: table[name].to_numpy() for name in table.column_names})])


def _named(edges: pa.Table, partitions: Sequence[str]) -> pa.Table:
    """Edges with their kinds and partitions by name."""
    kind, place = edges["kind"].to_numpy(), edges["place"].to_numpy()
    names = np.array([partition_of(name) for name in partitions], dtype=object)
    of_group = np.array([name.startswith(PLACE) for name in partitions], dtype=np.bool_)
    read = among(kind, [WR, DIRTY_WR])
    more = {
        "kind": pa.array(_words(kind), pa.string()),
        "partition": pa.array(names[place] if len(names) else [], pa.string()),
        "group_offset": pa.array(of_group[place] if len(names) else [], pa.bool_()),
        "judged": pa.array(kind != DIRTY_WR, pa.bool_(), mask=~read),
    }
    return pa.table(
        [more.get(field.name, edges[field.name] if field.name not in more else None) for field in _EDGES], schema=_EDGES
    )


def _words(kind: Any) -> Any:
    return np.array([KINDS[number] for number in range(len(KINDS))], dtype=object)[kind]


# --------------------------------------------------------------------------------------------------
# Edges of time
# --------------------------------------------------------------------------------------------------
def _of_time(view: Overview, ops: Ints) -> pa.Table:
    """Process and realtime edges among some operations, without those that follow from others among them."""
    at = view.at(ops)
    by_process = _process_pairs(view, ops)
    source, target = _reduced(view.time[at], ends(view)[at], strict=True)
    others = view.process[at[source]] != view.process[at[target]]
    by_time = ops[source[others]], ops[target[others]]
    return pa.concat_tables([_time_table(pairs, KINDS[kind]) for pairs, kind in ((by_process, PROCESS), (by_time, REALTIME))])


def _time_table(pairs: tuple[Ints, Ints], kind: str) -> pa.Table:
    count = len(pairs[0])
    given = {"source": pa.array(pairs[0], pa.int64()), "target": pa.array(pairs[1], pa.int64()), "kind": pa.repeat(kind, count)}
    return pa.table([given.get(field.name, pa.nulls(count, field.type)) for field in _EDGES], schema=_EDGES)


def _process_pairs(view: Overview, ops: Ints) -> tuple[Ints, Ints]:
    """From each operation to those of its process that follow it directly, among some operations (rising)."""
    at = view.at(ops)
    order = np.argsort(view.process[at], kind="stable")
    bounds = np.flatnonzero(np.diff(view.process[at[order]], prepend=NONE - 1, append=np.iinfo(np.int64).max))
    begin, over = view.time[at[order]], ends(view)[at[order]]
    pairs = [np.empty((2, 0), dtype=np.int64)]
    for first, stop in pairwise(bounds.tolist()):
        pairs.append(order[first + np.array(_reduced(begin[first:stop], over[first:stop], strict=False))])
    source, target = np.concatenate(pairs, axis=1)
    return ops[source], ops[target]


def _reduced(begin: Ints, over: Ints, strict: bool) -> tuple[Ints, Ints]:
    """Pairs of positions of which the second begins after (not strict: or when) the first is over, and nothing lies between them.

    begin: rising. over: FOREVER for an operation that nothing follows. Those that follow an operation are the rest from the
    first that begins after its end; those that follow it directly end where one of the rest is over.
    """
    count = len(begin)
    side: Literal["left", "right"] = "right" if strict else "left"
    first = np.maximum(np.arange(count) + 1, np.searchsorted(begin, over, side=side))
    first[over == FOREVER] = count
    earliest = np.append(np.minimum.accumulate(over[::-1])[::-1], FOREVER)[first]  # end among the rest
    last = np.where(earliest == FOREVER, count, np.searchsorted(begin, earliest, side=side))
    if not strict:
        place = np.append(_place_of_minimum(over), count)[first]
        last = np.where(earliest == FOREVER, count, np.maximum(last, place + 1))
    sizes = np.maximum(last - first, 0)
    source = np.repeat(np.arange(count), sizes)
    target = np.arange(len(source)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + np.repeat(first, sizes)
    return source, target


def _place_of_minimum(over: Ints) -> Ints:
    """Of each position the place of the least value from there on; of several the first."""
    least = np.minimum.accumulate(over[::-1])[::-1]
    mine = np.where(over == least, np.arange(len(over)), len(over))
    return np.minimum.accumulate(mine[::-1])[::-1]
