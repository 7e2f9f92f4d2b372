"""The edges that one partition gives between operations, from its log alone (Adya's dependencies, told of Kafka's logs).

    ww  two neighbouring visible versions, by different operations: the lower one's writer before the higher one's
    wr  a record was returned: its writer before the operation that polled it, whatever became of either
    rw  an operation's reads of the partition ended right below a version: it before that version's writer
    lso a read_committed reader got a record above one of a transaction: that before the reader (`checkers.graph.passed_records`)

A *version* is a record of known place whose operation is ok, or that a read_committed reader got (outside transactions: any
reader). A record that surely failed, or that a complete final read did not return, is none; of two at one offset the first is.
A reader whose poll gave a record without offset has no known position, so no rw edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from fencepost.checkers.graph.edge_filter import EdgeFilter
from fencepost.checkers.graph.layers import DIRTY_WR, RW, WR, WW
from fencepost.checkers.graph.passed_records import SPARSE, first_passed, last_of_few, last_reads, passed_records, span
from fencepost.checkers.history.packing import packed, unpacked
from fencepost.checkers.model.arrays import Bools, Ints, among, true_positions, with_false
from fencepost.checkers.model.values import ABORTED, COMMITTED, FOREVER, NONE
from fencepost.checkers.views.gathering import PartitionMessages, together
from fencepost.checkers.views.log import PartitionLog, slices
from fencepost.checkers.views.versions import committed_records

FIRSTS, LATEST, EDGES = "firsts", "latest", "edges"
JOINED_EDGES = "joined edges"  # of a joined log: with a further column, the number of each edge's partition
EDGE_COLUMNS = ("source", "target", "kind", "low", "high")
ENDS = EDGE_COLUMNS[:3]
SMALL = 1 << 15  # records of a partition whose edges are one message
TIME_COLUMNS = ("op", "time")  # of `firsts` and `latest`


@dataclass(frozen=True)
class Edges:
    """Edges as columns: operations by history index, kind, and the offsets of the versions behind them (wr: one version)."""

    source: Any
    target: Any
    kind: Any
    low: Ints
    high: Ints

    def __len__(self) -> int:
        return len(self.source)


@together
def gather(log: PartitionLog, brief: EdgeFilter | None = None) -> PartitionMessages:
    """All that the graph checks need of a partition, as named messages: edges, and what places operations in time.

    `firsts`: (op, when a record of it was first returned or passed here), if it was not surely over by then. `latest`: (reader,
    the latest commit among what it got here).
    """
    if log.parts is not None:
        brief = brief and brief.of_parts(log.parts)
    near = None if brief is None else _in_stretches(log, brief)
    edges = (_message(log, vars(some).values()) for some in _messages(log, partition_edges(log, brief, near)) if len(some))
    first, records = log.first_returned, log.shared(committed_records)
    passed = log.arrays.stored(first_passed(log, records))
    lists = _message(log, passed_records(log, brief, partial(_over, log), passed).columns())
    latest = _latest(log, first) if near is None else _latest_of_few(log, first, near)
    passed_or_returned = first.copy()
    for part in slices(len(records)):
        passed_or_returned[records[part]] = np.minimum(first[records[part]], passed[part])
    times = ((FIRSTS, _firsts(log, passed_or_returned)), (LATEST, latest))
    to_driver = [(name, encode(_told(log, columns))) for name, columns in times if len(columns["op"])]
    return PartitionMessages(chain(edges, [lists]), to_driver)


def _message(log: PartitionLog, columns: Iterable[Any]) -> tuple[str, bytes]:
    """Some edges, or the lists, as a named message; of a joined log with the number of each row's partition, in their order."""
    if (parts := log.parts) is None:
        return EDGES, encode(columns)
    source, target, kind, low, high = columns
    number = parts.numbers(np.maximum(source, target))
    lists = (source == NONE) | (target == NONE)
    inside = true_positions(lists | (parts.numbers(source) == parts.numbers(target)))
    rows = inside[np.argsort(number[inside], kind="stable")]
    ends, offsets = (parts.ops_of(source[rows]), parts.ops_of(target[rows])), (low[rows], high[rows])
    return JOINED_EDGES, encode([*ends, kind[rows], *map(parts.offsets_of, offsets), parts.places[number[rows]]])


def _told(log: PartitionLog, columns: Mapping[str, Any]) -> Iterable[Any]:
    """Operations and times as the log of their partition has them."""
    return columns.values() if log.parts is None else (log.parts.ops_of(columns["op"]), log.parts.times_of(columns["time"]))


def _messages(log: PartitionLog, edges: Iterator[Edges]) -> Iterator[Edges]:
    """The edges of a message each: all of a small partition in one."""
    if len(log.sends) + len(log.reads) > SMALL:
        return edges
    columns = zip(*(vars(some).values() for some in edges), strict=True)
    return iter([Edges(*map(np.concatenate, columns))])


def partition_edges(log: PartitionLog, edge_filter: EdgeFilter | None, near: Any) -> Iterator[Edges]:
    """All edges of one partition, some at a time; operations are not linked to themselves. near: as of `_in_stretches`."""
    offset, writer = versions(log)
    for part in slices(len(offset) - 1):
        yield _ww(offset[part.start : part.stop + 1], writer[part.start : part.stop + 1])
    for part in slices(len(log.reads)):
        yield _wr(log, part, edge_filter, near)
    yield _rw(log, offset, writer, edge_filter, near)


def versions(log: PartitionLog) -> tuple[Ints, Ints]:
    """Offsets of the visible versions, rising, and the operation that wrote each.

    Sends are sorted by identity, and the sort by place is stable, so of several at one place the first has the lowest identity.
    """
    sends = log.sends
    gone = log.covered & ~log.seen_final
    proven = np.where(sends.txn, log.seen_committed, log.seen)
    visible = (log.place != NONE) & (sends.status != ABORTED) & (proven | ((sends.status == COMMITTED) & ~gone))
    which = log.in_place_order(visible)
    place = log.place[which]
    new = np.ones(len(place), dtype=np.bool_)
    new[1:] = place[1:] != place[:-1]
    if new.all():
        return place, sends.op[which]
    return place[new], sends.op[which[new]]


def _ww(offset: Ints, writer: Any) -> Edges:
    """Edges between some neighbouring versions: from each to the next one, where another operation wrote it."""
    lower = true_positions(writer[:-1] != writer[1:])
    return _edges(writer[lower], writer[lower + 1], WW, offset[lower], offset[lower + 1])


def _in_stretches(log: PartitionLog, edge_filter: EdgeFilter) -> Any:
    """Reads (positions) of operations that lie in the filter's stretches."""
    found = (part.start + true_positions(edge_filter.stretches.of(log.reads.op[part]) != NONE) for part in slices(len(log.reads)))
    return np.concatenate([np.empty(0, dtype=np.int64), *found])


def _wr(log: PartitionLog, part: slice, edge_filter: EdgeFilter | None, near: Any) -> Edges:
    """Edges of some reads.

    With a filter the edge to a process that never writes stays only if it may close a cycle (the writer was not over by then, and
    somebody began to write later), or lies in a stretch in which cycles with rw edges are looked for.
    """
    reads, sends = log.reads, log.sends
    # positions of reads whose send is known
    sent = (
        part.start + true_positions(reads.send[part] >= 0)
        if edge_filter is None
        else _perhaps_wanted(log, part, edge_filter, near)
    )
    writer, reader = sends.op[reads.send[sent]], reads.op[sent]
    keep = writer != reader
    if edge_filter is not None:
        returned = reads.ended[sent]
        may_close = (_over(log, reads.send[sent]) > returned) & edge_filter.began_to_write_after(returned)
        keep &= ~among(reads.process[sent], edge_filter.read_only) | may_close | edge_filter.in_one_stretch(writer, reader)
    sent, writer, reader = sent[keep], writer[keep], reader[keep]
    kind = np.where(reads.judged[sent], WR, DIRTY_WR)
    return _edges(writer, reader, kind, reads.offset[sent], reads.offset[sent])


def _perhaps_wanted(log: PartitionLog, part: slice, edge_filter: EdgeFilter, near: Any) -> Any:
    """Those of some reads (positions) whose edge a filter may let stay; most of the others need no look at their sends."""
    reads = log.reads
    send, ended = reads.send[part], reads.ended[part]
    wanted = ~among(reads.process[part], edge_filter.read_only)
    wanted[near[slice(*np.searchsorted(near, (part.start, part.stop)))] - part.start] = True
    others = true_positions(edge_filter.began_to_write_after(ended) & ~wanted)
    wanted[others] = log.shared(returned_early)[send[others]] | (ended[others] == NONE)
    return part.start + true_positions(wanted & (send >= 0))


def _over(log: PartitionLog, which: Any) -> Ints:
    """The time at which the operations of some sends were surely over: the completion of an ok one; anything else may act later,
    so never.
    """
    over = log.sends.over[which]
    return np.where(over != NONE, np.maximum(over, log.sends.began[which]), FOREVER)


def _rw(log: PartitionLog, offset: Ints, writer: Any, edge_filter: EdgeFilter | None, near: Any) -> Edges:
    """Edges from each operation that read here to the writer of the version right above its position.

    The position of an operation is the last record that it read here; all its reads must have an offset. The next version above a
    position is found by binary search in the sorted offsets of the versions. Reads without offset (negative) are the first ones,
    as reads are sorted by offset; their operations have no position.
    """
    readers, last = last_reads(log, np.ones(len(log.reads), dtype=np.bool_)) if near is None else last_of_few(log, near)
    if not len(readers):
        return _edges(readers, readers, RW, offset[:0], offset[:0])
    position = log.reads.offset[last]
    above = np.searchsorted(offset, position, side="right")
    sure = above < len(offset)
    placeless = log.reads.op[: np.searchsorted(log.reads.offset, 0)]
    if len(placeless):
        sure &= ~np.isin(readers, placeless)
    readers, position, above = readers[sure], position[sure], above[sure]
    keep = writer[above] != readers
    if edge_filter is not None:
        keep &= edge_filter.in_one_stretch(readers, writer[above])
    return _edges(readers[keep], writer[above][keep], RW, position[keep], offset[above][keep])


def _edges(source: Any, target: Any, kind: Any, low: Ints, high: Ints) -> Edges:
    return Edges(source, target, np.broadcast_to(np.asarray(kind, dtype=np.int8), source.shape), low, high)


# --------------------------------------------------------------------------------------------------
# Times
# --------------------------------------------------------------------------------------------------
def returned_early(log: PartitionLog) -> Bools:
    """Sends that were returned before their operations were surely over; and one more entry, False."""
    first = log.first_returned
    return with_false(
        np.concatenate([np.empty(0, dtype=np.bool_), *(first[part] < _over(log, part) for part in slices(len(first)))])
    )


def _firsts(log: PartitionLog, first: Ints) -> dict[str, Any]:
    """Only those that say more than the operation's own end does."""
    early = np.concatenate([np.empty(0, dtype=np.int64), *(_early(log, first, part) for part in slices(len(first)))])
    if not len(early):
        return {"op": log.sends.op[early], "time": first[early]}
    ops, of_op = np.unique(log.sends.op[early], return_inverse=True)
    earliest = np.full(len(ops), FOREVER)
    np.minimum.at(earliest, of_op, first[early])
    return {"op": ops, "time": earliest}


def _early(log: PartitionLog, first: Ints, part: slice) -> Any:
    """Sends of a part that were returned when their operations were not surely over."""
    returned = part.start + true_positions(first[part] != FOREVER)
    return returned[first[returned] <= _over(log, returned)]


def _latest(log: PartitionLog, first: Ints) -> dict[str, Any]:
    """The latest commit for each reader among the records that it got here: a call of commit, else the first return.

    `latest` has an entry for every history index between the lowest and the highest reader, unless they are few and far apart.
    """
    lowest, size = span(log.reads.op)
    if size > SPARSE * len(log.reads):
        return _latest_of_few(log, first, np.arange(len(log.reads)))
    latest = np.full(size, NONE, dtype=np.int64)
    for part in slices(len(log.reads)):
        readers, time = _commits(log, np.arange(part.start, part.stop), first)
        np.maximum.at(latest, readers - lowest, time)
    ops = true_positions(latest != NONE)
    return {"op": ops + lowest, "time": latest[ops]}


def _latest_of_few(log: PartitionLog, first: Ints, reads: Any) -> dict[str, Any]:
    """The same of some reads (positions), of all that their operations have."""
    readers, time = _commits(log, reads, first)
    ops, of_op = np.unique(readers, return_inverse=True)
    latest = np.full(len(ops), NONE, dtype=np.int64)
    np.maximum.at(latest, of_op, time)
    return {"op": ops[latest != NONE].astype(np.int64), "time": latest[latest != NONE]}


def _commits(log: PartitionLog, which: Any, first: Ints) -> tuple[Any, Ints]:
    """The readers of some reads (positions), and when the transaction of the record that each got was committed."""
    reads, sends = log.reads, log.sends
    known = which[(reads.send[which] >= 0) & (reads.ended[which] != NONE)]
    send = reads.send[known]
    return reads.op[known], np.where(sends.decided[send] != NONE, sends.decided[send], first[send])


def encode(columns: Iterable[Any]) -> bytes:
    """Columns of whole numbers, in the order of `EDGE_COLUMNS` or `TIME_COLUMNS`, as one message."""
    return packed(columns)


def decode(encoded: bytes, columns: Sequence[str] = EDGE_COLUMNS) -> dict[str, Ints]:
    """The first columns of what `encode` wrote; these are their names."""
    return {name: unpacked(encoded, number) for number, name in enumerate(columns)}
