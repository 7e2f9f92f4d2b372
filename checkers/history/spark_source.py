"""A history on a file system that only Spark reads (`hdfs://`, `s3a://`, ...); what the driver needs of it comes as messages."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark import RDD
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from fencepost.checkers.history.source import Job, message, value_names
from fencepost.checkers.model.arrays import Ints
from fencepost.harness.api.run import RunFile

_MESSAGE_COLUMNS = "rows long, message binary"


def reader(spark: SparkSession) -> DataFrameReader:
    """Spark's reader of Parquet, which compares the checksums of pages where a file has some."""
    return spark.read.option("parquet.page.verify-checksum.enabled", "true")


@dataclass(frozen=True)
class SparkSource:
    """A history at a URL that Spark's reader understands: a Parquet file, or a directory of such files."""

    url: str
    spark: SparkSession

    def __str__(self) -> str:
        return self.url

    @cached_property
    def _table(self) -> DataFrame:
        return reader(self.spark).parquet(self.url)

    def table(self, spark: SparkSession) -> DataFrame:
        return self._table

    def has(self, column: str) -> bool:
        return column in self._table.columns

    def map_batches(self, spark: SparkSession, columns: Sequence[str], job: Job) -> RDD[Any]:
        def made(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return (pa.RecordBatch.from_pydict({"made": [pickle.dumps(result)]}) for result in job(batches))

        return self._table.select(*columns).mapInArrow(made, "made binary").rdd.map(lambda row: pickle.loads(row[0]))

    def map_here(self, columns: Sequence[str], texts: Sequence[str], job: Job) -> list[Any]:
        return list(job(self.batches(columns, texts)[1]))

    def batches(self, columns: Sequence[str], texts: Sequence[str] = ()) -> tuple[int, Iterator[pa.RecordBatch]]:
        return _collected(self._table.select(*columns), texts=texts)

    def select(self, columns: Sequence[str], condition: pc.Expression) -> pa.Table:
        chosen = self._table.select(*columns)
        return whole_table(_collected(chosen, condition)[1], chosen)

    def of_kind(self, columns: Sequence[str], *kinds: str) -> pa.Table:
        return self.select(columns, ds.field("f").isin(kinds))

    def operations(self, ops: Ints, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = np.unique(ops)
        if not len(wanted):
            return iter(())
        between = self._table.where(F.col("index").between(int(wanted[0]), int(wanted[-1])))  # lets the reader skip row groups
        return _collected(self._among(between, "index", wanted).select(*columns))[1]

    def original_values(self, identities: Ints) -> dict[int, str]:
        named = reader(self.spark).parquet(f"{self.url.rpartition('/')[0]}/{RunFile.VALUES}").select("v", "value")
        rows = self._among(named, "v", identities)
        return value_names(whole_table(_collected(rows)[1], rows))

    def _among(self, table: DataFrame, column: str, wanted: Ints) -> DataFrame:
        """The rows in which a number is one of those wanted."""
        keys = self.spark.createDataFrame(pa.table({column: pa.array(wanted, pa.int64())}))
        return table.join(F.broadcast(keys), column, "left_semi")


def _collected(
    table: DataFrame, condition: pc.Expression | None = None, texts: Sequence[str] = ()
) -> tuple[int, Iterator[pa.RecordBatch]]:
    """The number of rows of a table that meet a condition, and these rows."""
    packed = table.mapInArrow(_packer(condition, tuple(texts)), _MESSAGE_COLUMNS).toArrow()
    messages = (message.as_buffer() for chunk in packed["message"].chunks for message in chunk)
    return pc.sum(packed["rows"]).as_py() or 0, (batch for message in messages for batch in pa.ipc.open_stream(message))


def _packer(condition: pc.Expression | None, texts: Sequence[str]) -> Job:
    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = batch if condition is None else batch.filter(condition)
            coded = {n: c.dictionary_encode() if n in texts else c for n, c in zip(rows.schema.names, rows.columns, strict=True)}
            if len(rows):
                yield pa.RecordBatch.from_pydict({"rows": [len(rows)], "message": [message(pa.RecordBatch.from_pydict(coded))]})

    return pack


def whole_table(batches: Iterable[pa.RecordBatch], like: DataFrame) -> pa.Table:
    """Batches as one table; with the columns of `like` when there is none."""
    collected = list(batches)
    return pa.Table.from_batches(collected) if collected else to_arrow_schema(like.schema).empty_table()
