"""The first stage of the check: from a history to one packed row per batch and topic-partition.

Where the history lies, and who reads it, is `checkers.source`'s; here its batches of operations are packed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from checkers.log import ABORTED, COMMITTED, INFO, NONE
from checkers.source import Source, message

TXN, FINISHED, FINAL, UNCOMMITTED = 4, 8, 16, 32  # bits of `flags`, above two bits of status
PACKED = "partition string, sends binary, reads binary"
_PACKED = pa.schema([("partition", pa.string()), ("sends", pa.binary()), ("reads", pa.binary())])
SENT = ("op", "flags", "decided", "over", "v", "offset", "began", "ended")  # columns of a message of sends
READ = ("op", "process", "flags", "v", "offset", "ended")  # and of one of reads
TEXTS = ("f", "type", "intent", "isolation")
COLUMNS = ("index", "process", *TEXTS, "final", "end", "decided", "mops")


def scan(spark: SparkSession, history: Source) -> DataFrame:
    """The history as packed rows: partition, and Arrow messages of what was sent to it and read from it (`SENT`, `READ`)."""
    return history.spread(spark, COLUMNS, _packed, PACKED)


def scan_here(history: Source) -> list[tuple[str, pa.Table]]:
    """The same in this process, for a short history: the packed rows of each topic-partition."""
    _, batches = history.whole(COLUMNS)
    packed = pa.Table.from_batches(_packed(batches), schema=_PACKED)
    names = sorted(pc.unique(packed["partition"]).to_pylist())
    return [(name, packed.filter(pc.equal(packed["partition"], name))) for name in names]


def _packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return pack(map(_operations, batches))


def _operations(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Those that have micro-operations, with `flags` instead of texts."""
    kept = batch.filter(pc.greater(pc.fill_null(pc.list_value_length(batch.column("mops")), 0), 0))
    names = {"op": "index", "process": "process", "decided": "decided", "mops": "mops"}
    columns = {name: kept.column(source) for name, source in names.items()}
    over = pc.if_else(pc.equal(kept.column("type"), "ok"), kept.column("end"), None)
    return pa.RecordBatch.from_pydict({**columns, "over": over, "flags": pa.array(_flags(kept))})


def _flags(batch: pa.RecordBatch) -> Any:
    """What is text becomes bits."""

    def has(column: str, word: str) -> Any:
        return np.asarray(pc.fill_null(pc.equal(batch.column(column), word), False))

    txn, ok = has("f", "txn"), has("type", "ok")
    failed = has("type", "fail") | (ok & txn & has("intent", "abort"))
    status = np.where(failed, ABORTED, np.where(ok, COMMITTED, INFO))
    finished, final = np.asarray(batch.column("end").is_valid()), np.asarray(pc.fill_null(batch.column("final"), False))
    bits = txn * TXN + finished * FINISHED + final * FINAL + has("isolation", "read_uncommitted") * UNCOMMITTED
    return (status + bits).astype(np.int8)


# --------------------------------------------------------------------------------------------------
# Packing
# --------------------------------------------------------------------------------------------------
def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of operations to one row per topic-partition: its name, and Arrow messages with its sends and its reads."""
    for batch in batches:
        partitions, columns = _flatten(batch)
        sent = pc.equal(columns["kind"], 0)
        messages: dict[str, dict[str, bytes]] = {}
        for side, which, names in (("sends", sent, SENT), ("reads", pc.invert(sent), READ)):
            rows = pa.RecordBatch.from_pydict({"partition": partitions, **{name: columns[name] for name in names}}).filter(which)
            for name, part in _by_partition(rows):
                messages.setdefault(name, {})[side] = message(part)
        columns = {"partition": pa.array(list(messages), pa.string())}
        columns |= {side: pa.array([m.get(side) for m in messages.values()], pa.binary()) for side in ("sends", "reads")}
        yield pa.RecordBatch.from_pydict(columns)


def _flatten(batch: pa.RecordBatch) -> tuple[pa.Array, dict[str, Any]]:
    """The partition of every micro-operation, and its columns with those of its operation."""
    lists = batch.column("mops")
    owner = pc.list_parent_indices(lists)
    names = [field.name for field in lists.type.value_type]
    mop = dict(zip(names, lists.flatten().flatten(), strict=True))
    columns = {name: batch.column(name).take(owner) for name in ("op", "process", "flags", "decided", "over")}
    columns |= {name: mop[name] for name in ("kind", "v", "offset", "began", "ended")}
    return mop["partition"], {name: pc.fill_null(column, NONE) for name, column in columns.items()}


def _by_partition(rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    texts = pc.fill_null(rows.column("partition"), "").dictionary_encode()
    codes = texts.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    sorted_rows = rows.drop_columns(["partition"]).take(pa.array(order))
    bounds = np.searchsorted(codes[order], np.arange(len(texts.dictionary) + 1))
    for code, name in enumerate(texts.dictionary.to_pylist()):
        yield name, sorted_rows.slice(bounds[code], bounds[code + 1] - bounds[code])


def unpack(messages: pa.ChunkedArray, names: Sequence[str]) -> dict[str, Any]:
    """One side's messages of a partition as columns, one column after the other, so that nothing is there twice."""
    parts = [message.as_buffer() for chunk in messages.chunks for message in chunk if message.is_valid]
    columns: dict[str, Any] = {}
    if not parts:
        return {name: np.empty(0, dtype=np.int8 if name == "flags" else np.int64) for name in names}
    for name in names:
        options = pa.ipc.IpcReadOptions(included_fields=[names.index(name)], use_threads=False)
        read = [pa.ipc.open_stream(part, options=options).read_all().column(0) for part in parts]
        columns[name] = np.concatenate([chunk.to_numpy() for column in read for chunk in column.chunks])
        if name == "op" and columns[name].max(initial=0) < np.iinfo(np.int32).max:
            columns[name] = columns[name].astype(np.int32)
    return columns
