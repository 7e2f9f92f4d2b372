"""The few things the search asks of whatever holds the edges: a Spark table here, plain lists in tests."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.graph.edges import EDGES
from checkers.kept import Kept

Job = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Reduce = Callable[[pa.Table], pa.Table]
Arrays = Mapping[str, Any]


class Shared(Protocol):
    """Arrays that every executor has."""

    @property
    def value(self) -> Arrays: ...


class KeptEdges(Protocol):
    """What the partitions gave; edges come as batches of (partition, message)."""

    partitions: list[str]
    leaves: list[tuple[str, bytes]]

    def share(self, arrays: Arrays) -> Shared: ...
    def each(self, job: Job, schema: pa.Schema) -> pa.Table:
        """A job over all edges."""

    def grouped(self, job: Job, schema: pa.Schema, reduce: Reduce, result: pa.Schema) -> pa.Table:
        """A job over all edges, and a second one over its rows, those of one `bucket` together."""


class SparkEdges:
    """Edges kept in a Spark table; a context, at whose end what was shared is freed.

    Raises RuntimeError when a partition's edges could not be made.
    """

    def __init__(self, kept: Kept) -> None:
        if kept.table is None:
            raise RuntimeError("the partitions kept no edges; the graph checks were not asked together with the partition checks")
        if kept.error:
            raise RuntimeError(kept.error)
        self.partitions, self.leaves = kept.partitions, kept.leaves
        self._edges = kept.table.where(F.col("role") == EDGES).select("partition", "batch")
        self._shared: list[_Mapped] = []

    def __enter__(self) -> SparkEdges:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._shared:
            shutil.rmtree(one.folder, ignore_errors=True)

    def share(self, arrays: Arrays) -> Shared:
        """In one machine's memory once, whoever looks at it; on a cluster a copy for each Python worker (Spark's broadcast)."""
        context = self._edges.sparkSession.sparkContext
        if not context.master.startswith("local"):
            return context.broadcast(dict(arrays))  # type: ignore[no-any-return]
        self._shared.append(_Mapped(arrays))
        return self._shared[-1]

    def each(self, job: Job, schema: pa.Schema) -> pa.Table:
        return self._edges.mapInArrow(job, from_arrow_schema(schema)).toArrow()

    def grouped(self, job: Job, schema: pa.Schema, reduce: Reduce, result: pa.Schema) -> pa.Table:
        rows = self._edges.mapInArrow(job, from_arrow_schema(schema))
        return rows.groupBy("bucket").applyInArrow(reduce, from_arrow_schema(result)).toArrow()


class _Mapped:
    """Arrays in files that every process of this machine maps."""

    def __init__(self, arrays: Arrays) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fencepost-shared-"))
        self._names = list(arrays)
        for name, values in arrays.items():
            np.save(self.folder / f"{name}.npy", values)

    @property
    def value(self) -> Arrays:
        return {name: np.load(self.folder / f"{name}.npy", mmap_mode="r") for name in self._names}
