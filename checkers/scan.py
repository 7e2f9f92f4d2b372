"""The first stage of the check: from `history.parquet` to one packed row per batch and topic-partition.

Where the history lies in an ordinary file, each task reads its row groups itself, batch by batch, straight into Arrow: the
nested micro-operations never become rows of the JVM, which costs several times more than all that follows. On other file
systems Spark's own reader brings the same columns.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from checkers.log import ABORTED, COMMITTED, INFO, NONE

TXN, FINAL, UNCOMMITTED = 4, 8, 16  # bits of `flags`, above two bits of status
PACKED = "partition string, sends binary, reads binary"
SENT = ("op", "flags", "decided", "end", "v", "offset", "began", "ended")  # columns of a message of sends
READ = ("op", "process", "flags", "v", "offset", "ended")  # and of one of reads
TEXTS = ("f", "type", "intent", "isolation")
COLUMNS = ("index", "process", *TEXTS, "final", "end", "decided", "mops")
VALUES = "mops.list.element.v"
MOPS_PER_BATCH = 250_000
TASKS_PER_CORE = 4


def scan(spark: SparkSession, history: str) -> DataFrame:
    """The history as packed rows: partition, and Arrow messages of what was sent to it and read from it (`SENT`, `READ`)."""
    if "://" in history and not history.startswith("file://"):
        return _operations(spark.read.parquet(history)).mapInArrow(pack, PACKED)
    path = os.path.abspath(history.removeprefix("file://"))
    tasks = _tasks(pq.ParquetFile(path).metadata, TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(_reader(path, tasks), PACKED)


# --------------------------------------------------------------------------------------------------
# Reading
# --------------------------------------------------------------------------------------------------
def _tasks(metadata: pq.FileMetaData, most: int) -> list[list[int]]:
    """Row groups shared out among at most so many tasks, the largest first to whoever has least; one empty task for no rows."""
    sizes = [(_values(metadata, group), group) for group in range(metadata.num_row_groups)]
    tasks: list[list[int]] = [[] for _ in range(max(1, min(most, len(sizes))))]
    loads = [0] * len(tasks)
    for size, group in sorted(sizes, reverse=True):
        least = loads.index(min(loads))
        tasks[least].append(group)
        loads[least] += size + 1
    return tasks


def _values(metadata: pq.FileMetaData, group: int) -> int:
    """How many micro-operations a row group holds, or a little more."""
    columns = metadata.row_group(group)
    sizes = [columns.column(number).num_values for number in range(columns.num_columns)]
    return max(sizes, default=0)


def _reader(path: str, tasks: Sequence[Sequence[int]]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column("id").to_pylist():
                for group in tasks[task]:
                    yield from pack(_read_group(path, group))

    return read


def _read_group(path: str, group: int) -> Iterator[pa.RecordBatch]:
    """One row group's operations, in batches of about `MOPS_PER_BATCH` micro-operations."""
    with pq.ParquetFile(path) as file:
        rows = file.metadata.row_group(group).num_rows
        size = max(1, int(MOPS_PER_BATCH * rows / max(1, _values(file.metadata, group))))
        for batch in file.iter_batches(size, row_groups=[group], columns=list(COLUMNS), use_threads=False):
            kept = batch.filter(pc.greater(pc.fill_null(pc.list_value_length(batch.column("mops")), 0), 0))
            names = {"op": "index", "process": "process", "decided": "decided", "end": "end", "mops": "mops"}
            columns = {name: kept.column(source) for name, source in names.items()}
            yield pa.RecordBatch.from_pydict({**columns, "flags": pa.array(_flags(kept))})


def _flags(batch: pa.RecordBatch) -> Any:
    """What is text becomes bits."""

    def has(column: str, word: str) -> Any:
        return np.asarray(pc.fill_null(pc.equal(batch.column(column), word), False))

    txn, ok = has("f", "txn"), has("type", "ok")
    failed = has("type", "fail") | (ok & txn & has("intent", "abort"))
    status = np.where(failed, ABORTED, np.where(ok, COMMITTED, INFO))
    final = np.asarray(pc.fill_null(batch.column("final"), False))
    bits = txn * TXN + final * FINAL + has("isolation", "read_uncommitted") * UNCOMMITTED
    return (status + bits).astype(np.int8)


# --------------------------------------------------------------------------------------------------
# Reading by Spark itself
# --------------------------------------------------------------------------------------------------
def _operations(ops: DataFrame) -> DataFrame:
    """The same columns in Spark's own words."""
    flags = _status() + _bit(F.col("f") == "txn", TXN) + _bit(F.col("final"), FINAL)
    flags = flags + _bit(F.col("isolation") == "read_uncommitted", UNCOMMITTED)
    return ops.where(F.size("mops") > 0).select(
        F.col("index").alias("op"), "process", flags.cast("byte").alias("flags"), "decided", "end", "mops"
    )


def _status() -> Column:
    aborting = (F.col("f") == "txn") & (F.coalesce(F.col("intent"), F.lit("")) == "abort")
    failed = (F.col("type") == "fail") | ((F.col("type") == "ok") & aborting)
    return F.when(failed, F.lit(ABORTED)).when(F.col("type") == "ok", F.lit(COMMITTED)).otherwise(F.lit(INFO))


def _bit(condition: Column, bit: int) -> Column:
    return F.when(condition, F.lit(bit)).otherwise(F.lit(0))


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
                messages.setdefault(name, {})[side] = _message(part)
        columns = {"partition": pa.array(list(messages), pa.string())}
        columns |= {side: pa.array([m.get(side) for m in messages.values()], pa.binary()) for side in ("sends", "reads")}
        yield pa.RecordBatch.from_pydict(columns)


def _flatten(batch: pa.RecordBatch) -> tuple[pa.Array, dict[str, Any]]:
    """The partition of every micro-operation, and its columns with those of its operation."""
    lists = batch.column("mops")
    owner = pc.list_parent_indices(lists)
    names = [field.name for field in lists.type.value_type]
    mop = dict(zip(names, lists.flatten().flatten(), strict=True))
    columns = {name: batch.column(name).take(owner) for name in ("op", "process", "flags", "decided", "end")}
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


def _message(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 1))) as writer:
        writer.write_batch(rows)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


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
