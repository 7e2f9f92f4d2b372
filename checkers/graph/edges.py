"""The edges that one partition gives between operations, from its log alone (Adya's dependencies, told of Kafka's logs).

    ww  two neighbouring visible versions, by different operations: the lower one's writer before the higher one's
    wr  a record was returned: its writer before the operation that polled it, whatever became of either
    rw  an operation's reads of the partition ended right below a version: it before that version's writer

A *version* is a record of known place whose operation is ok, or that a read_committed reader got (outside transactions: any
reader). A record that surely failed, or that a complete final read did not return, is none; of two at one offset the first is.
A reader whose poll gave a record without offset has no known position, so no rw edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.anomaly import Bools, Ints
from checkers.log import ABORTED, COMMITTED, NONE, PartitionLog

WW, WR, DIRTY_WR, RW, PROCESS, REALTIME = range(6)  # DIRTY_WR: a wr edge to a reader that is not judged as read_committed
CHUNK = 200_000
FIRSTS, LATEST, EDGES = "firsts", "latest", "edges"


@dataclass(frozen=True)
class Edges:
    """Edges as columns: operations by history index, kind, and the offsets of the versions behind them (wr: one version)."""

    source: Ints
    target: Ints
    kind: Any
    low: Ints
    high: Ints

    def __len__(self) -> int:
        return len(self.source)


def gather(log: PartitionLog) -> list[tuple[str, bytes]]:
    """All that the graph checks need of a partition, as named Arrow messages: edges, and what places operations in time.

    `firsts`: (op, when a record of it was first returned here). `latest`: (reader, the latest commit among what it got here).
    """
    edges = partition_edges(log)
    columns = {name: getattr(edges, name) for name in ("source", "target", "kind", "low", "high")}
    parts = [{name: values[at : at + CHUNK] for name, values in columns.items()} for at in range(0, len(edges), CHUNK)]
    firsts, latest = _moments(log)
    named = [*((EDGES, part) for part in parts), (FIRSTS, firsts), (LATEST, latest)]
    return [(name, encode(part)) for name, part in named if len(next(iter(part.values())))]


def partition_edges(log: PartitionLog) -> Edges:
    """All edges of one partition, operations not linked to themselves."""
    at, writer = versions(log)
    parts = [_ww(at, writer), _wr(log), _rw(log, at, writer)]
    return Edges(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def versions(log: PartitionLog) -> tuple[Ints, Ints]:
    """Offsets of the visible versions, rising, and the operation that wrote each."""
    sends = log.sends
    gone = log.covered & ~log.seen_final
    proven = np.where(sends.txn, log.seen_committed, log.seen)
    visible = (log.place != NONE) & (sends.status != ABORTED) & (proven | ((sends.status == COMMITTED) & ~gone))
    which = np.flatnonzero(visible)
    which = which[np.argsort(log.place[which], kind="stable")]
    place = log.place[which]
    new = np.ones(len(place), dtype=np.bool_)
    new[1:] = place[1:] != place[:-1]
    return place[new], sends.op[which[new]]


def _ww(at: Ints, writer: Ints) -> tuple[Any, ...]:
    other = writer[:-1] != writer[1:]
    return _columns(writer[:-1][other], writer[1:][other], WW, at[:-1][other], at[1:][other])


def _wr(log: PartitionLog) -> tuple[Any, ...]:
    reads = log.reads
    known = np.flatnonzero(reads.send >= 0)
    writer = log.sends.op[reads.send[known]] if len(known) else known
    known, writer = known[writer != reads.op[known]], writer[writer != reads.op[known]]
    kind = np.where(reads.judged[known], WR, DIRTY_WR)
    return _columns(writer, reads.op[known], kind, reads.offset[known], reads.offset[known])


def _rw(log: PartitionLog, at: Ints, writer: Ints) -> tuple[Any, ...]:
    """Reads are sorted by offset, so an operation's last one here is its position; all its reads must have an offset."""
    readers, last = np.unique(log.reads.op[::-1], return_index=True)
    position = log.reads.offset[::-1][last]
    placeless = np.unique(log.reads.op[log.reads.offset < 0])
    after = np.searchsorted(at, position, side="right")
    sure = (after < len(at)) & ~np.isin(readers, placeless)
    readers, position, after = readers[sure], position[sure], after[sure]
    other = writer[after] != readers
    return _columns(readers[other], writer[after][other], RW, position[other], at[after][other])


def _columns(source: Ints, target: Ints, kind: Any, low: Ints, high: Ints) -> tuple[Any, ...]:
    return source, target, np.broadcast_to(np.asarray(kind, dtype=np.int8), source.shape), low, high


def _moments(log: PartitionLog) -> tuple[dict[str, Ints], dict[str, Ints]]:
    reads, sends = log.reads, log.sends
    known = np.flatnonzero((reads.send >= 0) & (reads.ended != NONE))
    which, ended = reads.send[known], reads.ended[known]
    first = np.full(len(sends), np.iinfo(np.int64).max)
    np.minimum.at(first, which, ended)
    returned = _seen(which, len(sends))
    writers, at = _least(sends.op[returned], first[returned])
    commit = np.where(sends.decided != NONE, sends.decided, first)
    readers, negative = _least(reads.op[known], -commit[which] if len(which) else which)
    return {"op": writers, "time": at}, {"op": readers, "time": -negative}


def _seen(which: Any, count: int) -> Bools:
    seen = np.zeros(count, dtype=np.bool_)
    seen[which] = True
    return seen


def _least(keys: Ints, values: Ints) -> tuple[Ints, Ints]:
    """The least value of each key."""
    names, where = np.unique(keys, return_inverse=True)
    least = np.full(len(names), np.iinfo(np.int64).max)
    np.minimum.at(least, where, values)
    return names, least


def encode(columns: dict[str, Any]) -> bytes:
    """Columns as one compressed Arrow message."""
    batch = pa.RecordBatch.from_pydict({name: pa.array(values) for name, values in columns.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def decode(message: Any) -> dict[str, Any]:
    """What `encode` wrote."""
    table = pa.ipc.open_stream(message).read_all()
    return {name: table[name].to_numpy() for name in table.column_names}
