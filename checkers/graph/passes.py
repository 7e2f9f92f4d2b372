"""The few things the search asks of whatever holds the edges: a Spark table here, plain lists in tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.graph.edges import EDGES
from checkers.kept import BROKEN

Job = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Reduce = Callable[[pa.Table], pa.Table]


class Shared(Protocol):
    """A value that every executor has (Spark's broadcast)."""

    @property
    def value(self) -> Any: ...


class KeptEdges(Protocol):
    """What the partitions kept; edges come as batches of (partition, message)."""

    def partitions(self) -> list[str]:
        """Partitions that have edges."""

    def small(self, *roles: str) -> pa.Table:
        """Messages with one entry per operation, as (role, batch)."""

    def share(self, value: Any) -> Shared: ...
    def each(self, job: Job, schema: pa.Schema) -> pa.Table:
        """A job over all edges."""

    def grouped(self, job: Job, schema: pa.Schema, reduce: Reduce, result: pa.Schema) -> pa.Table:
        """A job over all edges, and a second one over its rows, those of one `bucket` together."""


class SparkEdges:
    """Edges kept in a Spark table. Raises RuntimeError when a partition's edges could not be made."""

    def __init__(self, table: DataFrame) -> None:
        broken = table.where(F.col("role") == BROKEN).select("text").limit(1).collect()
        if broken:
            raise RuntimeError(broken[0]["text"])
        self._table = table
        self._edges = table.where(F.col("role") == EDGES).select("partition", "batch")

    def partitions(self) -> list[str]:
        return [row["partition"] for row in self._edges.select("partition").distinct().collect()]

    def small(self, *roles: str) -> pa.Table:
        return self._table.where(F.col("role").isin(*roles)).select("role", "batch").toArrow()

    def share(self, value: Any) -> Shared:
        return self._table.sparkSession.sparkContext.broadcast(value)  # type: ignore[no-any-return]

    def each(self, job: Job, schema: pa.Schema) -> pa.Table:
        return self._edges.mapInArrow(job, from_arrow_schema(schema)).toArrow()

    def grouped(self, job: Job, schema: pa.Schema, reduce: Reduce, result: pa.Schema) -> pa.Table:
        rows = self._edges.mapInArrow(job, from_arrow_schema(schema))
        return rows.groupBy("bucket").applyInArrow(reduce, from_arrow_schema(result)).toArrow()
