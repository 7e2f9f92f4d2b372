"""A history's columns, wherever the history lies.

A file of this machine is read by pyarrow in each process that needs it, straight into Arrow: its nested micro-operations never
become rows of the JVM, which would cost several times more than all that follows. A file elsewhere (`hdfs://`, `s3a://`, ...) is
read by Spark, on its executors; what the driver needs of it comes as compressed Arrow messages.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.acero as ac
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from fencepost.checkers.model import forks, threads
from fencepost.checkers.model.arrays import Ints
from fencepost.harness.api.beneath import regular
from fencepost.harness.api.history import VALUES, demand_columns
from fencepost.harness.api.run import RunFile

if TYPE_CHECKING:  # to import Spark takes a tenth of the check of a short history, which needs none
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession

Job = Callable[[Iterator[pa.RecordBatch]], Iterator[Any]]
MOPS_PER_BATCH = 250_000
TASKS_PER_CORE = 4
SMALL_FILE = 4 << 20  # bytes of a file that is read once, into memory
ROWS = 8_192  # searched at once for the operations wanted
PARTITION = "mops.list.element.partition"
DICTIONARY_COLUMNS = ["f", "type", "intent", "isolation", PARTITION]  # texts that repeat
LEAST_COMPRESSED = 4096  # bytes of a batch
VERIFIED = {"page_checksum_verification": True}  # which costs no time that could be measured
MOST_THREADS = 2  # that look through a history at once; each holds a batch


class Source(Protocol):
    """A history (docs/history.md). Its methods raise `read_errors`; as text it is its address."""

    def table(self, spark: SparkSession) -> DataFrame:
        """A row per operation."""

    def has(self, column: str) -> bool:
        """True if the history has a column that may be absent."""

    def map_batches(self, spark: SparkSession, columns: Sequence[str], job: Job) -> RDD[Any]:
        """The results of a job over some columns, on Spark's executors, about `MOPS_PER_BATCH` micro-operations at a time."""

    def map_here(self, columns: Sequence[str], texts: Sequence[str], job: Job) -> list[Any]:
        """The results of a job over some columns, in order, by this process; `texts` are dictionary-encoded."""

    def batches(self, columns: Sequence[str], texts: Sequence[str] = ()) -> tuple[int, Iterator[pa.RecordBatch]]:
        """The number of operations, and some of their columns, `texts` dictionary-encoded; in any order."""

    def select(self, columns: Sequence[str], condition: pc.Expression) -> pa.Table:
        """Some columns of the operations for which a condition (on the same columns) holds."""

    def of_kind(self, columns: Sequence[str], *kinds: str) -> pa.Table:
        """Some columns (`f` among them) of the operations whose `f` is one of these."""

    def operations(self, ops: Ints, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns (`index` among them) of a few operations by history index."""

    def original_values(self, identities: Ints) -> dict[int, str]:
        """The values of a few records in the system that the history comes from (`values.parquet` beside it; ours has none)."""


def read_errors(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """What a source's methods raise, and others: for `except`. Spark raises nothing where nobody has imported it."""
    if "pyspark" not in sys.modules:
        return OSError, pa.ArrowException, *others
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return OSError, pa.ArrowException, PySparkException, Py4JJavaError, *others


def last_cause(error: Exception) -> str:
    """The reason why something did not work: the last cause in the JVM's text, or else its first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    return (causes or lines or [""])[-1 if causes else 0].removeprefix("Caused by: ")[:300]


# --------------------------------------------------------------------------------------------------
# A file of this machine
# --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class LocalSource:
    """A history in a file that this machine has (on a cluster: every machine, under the same path).

    Of a small file each column is read once, and kept: it is looked at a dozen times, and each time to open it costs more.
    """

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    @cached_property
    def _small(self) -> SmallFile | None:
        return SmallFile(self.path.read_bytes()) if self.path.stat().st_size <= SMALL_FILE else None

    def table(self, spark: SparkSession) -> DataFrame:
        return spark.read.parquet(str(self.path))

    def has(self, column: str) -> bool:
        return column in (self._small.names if self._small else pq.read_schema(self.path).names)

    def map_batches(self, spark: SparkSession, columns: Sequence[str], job: Job) -> RDD[Any]:
        path, context = os.path.abspath(self.path), spark.sparkContext
        tasks = _tasks(pq.ParquetFile(path).metadata, TASKS_PER_CORE * context.defaultParallelism)
        return context.parallelize(tasks, len(tasks)).flatMap(_reader(path, columns, job))

    def map_here(self, columns: Sequence[str], texts: Sequence[str], job: Job) -> list[Any]:
        if self._small:
            return list(job(self.batches(columns, texts)[1]))
        read = _reader(str(self.path), columns, job)
        groups = [partial(lambda group: list(read([group])), group) for group in range(self.metadata.num_row_groups)]
        return [made for some in threads.results(groups, min(forks.cores(), MOST_THREADS)) for made in some]

    @cached_property
    def metadata(self) -> pq.FileMetaData:
        """The file's own. Raises `read_errors`."""
        return self._small.metadata if self._small else pq.read_metadata(self.path)

    def record_count(self) -> int:
        """The number of records that the operations hold, or a little more."""
        return sum(_mop_count(self.metadata, group) for group in range(self.metadata.num_row_groups))

    def records_of_a_partition(self) -> int:
        """The number of records that a row group holds of each topic-partition, about: as the first one does."""
        if not self.metadata.num_row_groups:
            return 0
        with pq.ParquetFile(self.path, read_dictionary=DICTIONARY_COLUMNS, **VERIFIED) as file:
            chunks = file.read_row_group(0, columns=[PARTITION])["mops"].chunks
        partitions = {name for lists in chunks for name in pc.unique(lists.flatten().field("partition")).to_pylist()}
        return _mop_count(self.metadata, 0) // max(1, len(partitions))

    def batches(self, columns: Sequence[str], texts: Sequence[str] = ()) -> tuple[int, Iterator[pa.RecordBatch]]:
        if self._small:
            return self._small.rows, iter(self._small.columns(columns, texts).to_batches())
        return self.metadata.num_rows, self._batches(columns, texts)

    def _batches(self, columns: Sequence[str], texts: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(self.path, read_dictionary=list(texts), **VERIFIED) as file:
            for group in range(file.metadata.num_row_groups):
                yield from file.read_row_group(group, columns=list(columns)).to_batches()

    def select(self, columns: Sequence[str], condition: pc.Expression) -> pa.Table:
        if self._small:
            return _filtered(self._small.columns(columns), condition)
        source = ds.dataset(self.path)
        # without buffers, else hundreds of MiB are read ahead, and it takes longer
        few = ds.ParquetFragmentScanOptions(pre_buffer=False, **VERIFIED)
        scan = source.scanner(columns=list(columns), filter=condition, batch_readahead=2, fragment_scan_options=few)
        return scan.to_table()

    def of_kind(self, columns: Sequence[str], *kinds: str) -> pa.Table:
        if self._small:
            table = self._small.columns(columns)
            none = self._small.kinds.isdisjoint(kinds)
            return table.slice(0, 0) if none else table.filter(pc.is_in(table["f"], value_set=pa.array(kinds, pa.string())))
        return self.select(columns, ds.field("f").isin(kinds))

    def operations(self, ops: Ints, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = np.unique(ops)
        for batch in self._operations_near(wanted, columns):
            yield batch.filter(pc.is_in(batch.column("index"), pa.array(wanted)))

    def _operations_near(self, wanted: Ints, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of all operations in which those wanted may be."""
        if self._small:
            yield from self._small.columns(columns).to_batches()
            return
        with pq.ParquetFile(self.path, **VERIFIED) as file:
            groups = [g for g in range(file.metadata.num_row_groups) if _may_hold(file.metadata.row_group(g), wanted)]
            yield from file.iter_batches(ROWS, row_groups=groups, columns=list(columns)) if groups else ()

    def original_values(self, identities: Ints) -> dict[int, str]:
        path = self.path.with_name(RunFile.VALUES)
        if not os.path.lexists(path):
            return {}
        regular(path.parent, path.name)
        demand_columns(path, VALUES)
        return value_names(ds.dataset(path).to_table(columns=["v", "value"], filter=ds.field("v").isin(pa.array(identities))))


def _filtered(table: pa.Table, condition: pc.Expression) -> pa.Table:
    """The rows of a small table for which a condition holds: by this thread, since `Table.filter` waits for others."""
    source = ac.Declaration("table_source", ac.TableSourceNodeOptions(table))
    return ac.Declaration("filter", ac.FilterNodeOptions(condition), inputs=[source]).to_table(use_threads=False)


class SmallFile:
    """The columns of a Parquet file, read when they are first wanted."""

    def __init__(self, content: bytes) -> None:
        self._file = pq.ParquetFile(pa.BufferReader(content), **VERIFIED)
        self._read: dict[str, pa.ChunkedArray] = {}
        self.names, self.metadata = self._file.schema_arrow.names, self._file.metadata

    @property
    def rows(self) -> int:
        return self.metadata.num_rows  # type: ignore[no-any-return]

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The values of the operations' `f`: of most kinds there is none in most histories."""
        return frozenset(self.columns(["f"])["f"].unique().to_pylist())

    def columns(self, names: Sequence[str], texts: Sequence[str] = ()) -> pa.Table:
        """Some columns, `texts` dictionary-encoded."""
        if unknown := set(names) - set(self.names):
            raise pa.ArrowKeyError(f"there is no column {min(unknown)}")
        missing = [name for name in names if name not in self._read]
        if missing:
            table = self._file.read(columns=missing, use_threads=False)
            self._read |= dict(zip(table.column_names, table.columns, strict=True))
        return pa.table({name: self._read[name].dictionary_encode() if name in texts else self._read[name] for name in names})


def _tasks(metadata: pq.FileMetaData, most: int) -> list[list[int]]:
    """Row groups shared out among at most so many tasks, the largest first to whoever has least; one empty task for no rows."""
    sizes = [(_mop_count(metadata, group), group) for group in range(metadata.num_row_groups)]
    tasks: list[list[int]] = [[] for _ in range(max(1, min(most, len(sizes))))]
    loads = [0] * len(tasks)
    for size, group in sorted(sizes, reverse=True):
        least = loads.index(min(loads))
        tasks[least].append(group)
        loads[least] += size + 1
    return tasks


def _mop_count(metadata: pq.FileMetaData, group: int) -> int:
    """The number of micro-operations that a row group holds, or a little more."""
    columns = metadata.row_group(group)
    sizes = [columns.column(number).num_values for number in range(columns.num_columns)]
    return max(sizes, default=0)


def _reader(path: str, columns: Sequence[str], job: Job) -> Callable[[Sequence[int]], Iterator[Any]]:
    def read(groups: Sequence[int]) -> Iterator[Any]:
        with pq.ParquetFile(path, read_dictionary=DICTIONARY_COLUMNS, **VERIFIED) as file:
            for group in groups:
                yield from job(_read_group(file, group, columns))

    return read


def _read_group(file: pq.ParquetFile, group: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """One row group's operations, texts dictionary-encoded, in batches of about `MOPS_PER_BATCH` micro-operations."""
    rows = file.metadata.row_group(group).num_rows
    size = max(1, int(MOPS_PER_BATCH * rows / max(1, _mop_count(file.metadata, group))))
    yield from file.iter_batches(size, row_groups=[group], columns=list(columns), use_threads=False)


def _may_hold(group: pq.RowGroupMetaData, wanted: Ints) -> bool:
    """True if the statistics of a row group allow that one of these sorted indices is in it."""
    columns = (group.column(number) for number in range(group.num_columns))
    known = next((column.statistics for column in columns if column.path_in_schema == "index"), None)
    if known is None or not known.has_min_max:
        return True
    return bool(np.searchsorted(wanted, known.min, "left") < np.searchsorted(wanted, known.max, "right"))


def value_names(table: pa.Table) -> dict[int, str]:
    named = table.filter(pc.is_valid(table["value"]))
    return dict(zip(named["v"].to_pylist(), named["value"].to_pylist(), strict=True))


# --------------------------------------------------------------------------------------------------
# Messages
# --------------------------------------------------------------------------------------------------
def message(rows: pa.RecordBatch) -> bytes:
    """A batch as one Arrow message, compressed unless it is so small that setting up a compressor costs more than it saves."""
    sink = pa.BufferOutputStream()
    codec = pa.Codec("zstd", 1) if rows.nbytes >= LEAST_COMPRESSED else None
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_batch(rows)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def to_message(table: pa.Table) -> bytes:
    """A table as an Arrow message, as it is."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def from_message(stream: bytes) -> pa.Table:
    """The table that `to_message` wrote."""
    return pa.ipc.open_stream(stream).read_all()
