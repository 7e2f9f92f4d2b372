"""The few things the search asks of whatever holds the edges: a Spark table, or plain lists where there are few."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.graph.edges import EDGES
from checkers.kept import Kept

Job = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Reduce = Callable[[pa.Table], pa.Table]
Arrays = Mapping[str, Any]


class Shared(Protocol):
    """Arrays that every process has that looks through edges."""

    @property
    def value(self) -> Arrays: ...


class KeptEdges(Protocol):
    """What the partitions gave; edges come as batches of (partition, message). A context: at its end what was shared is freed."""

    partitions: list[str]
    leaves: list[tuple[str, bytes]]

    def __enter__(self) -> KeptEdges: ...
    def __exit__(self, *_: object) -> None: ...
    def share(self, arrays: Arrays) -> Shared: ...
    def each(self, job: Job, schema: pa.Schema) -> pa.Table:
        """A job over all edges."""

    def grouped(self, job: Job, schema: pa.Schema, reduce: Reduce, result: pa.Schema) -> pa.Table:
        """A job over all edges, and a second one over its rows, those of one `bucket` together."""


def edges_of(kept: Kept) -> KeptEdges:
    """Wherever they are. Raises RuntimeError when a partition's edges could not be made."""
    if kept.error:
        raise RuntimeError(kept.error)
    if kept.near:
        messages = [(partition, batch) for partition, role, batch in kept.came if role == EDGES]
        return DriverEdges(kept.partitions, messages, kept.leaves)
    if kept.table is None:
        raise RuntimeError("the partitions kept no edges; the graph checks were not asked together with the partition checks")
    return SparkEdges(kept.partitions, kept.table, kept.leaves)


@dataclass(frozen=True)
class _Here:
    """Arrays of this process."""

    value: Arrays


class DriverEdges:
    """A short history's edges, in this process: each Spark job would take longer than to look through all of them.

    messages: (partition, message).
    """

    def __init__(self, partitions: list[str], messages: Sequence[tuple[str, bytes]], leaves: list[tuple[str, bytes]]) -> None:
        self.partitions, self.leaves = partitions, leaves
        names, batches = (
            pa.array([name for name, _ in messages], pa.string()),
            pa.array([one for _, one in messages], pa.binary()),
        )
        self._edges = pa.RecordBatch.from_pydict({"partition": names, "batch": batches})

    def __enter__(self) -> DriverEdges:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def share(self, arrays: Arrays) -> Shared:
        return _Here(arrays)

    def each(self, job: Job, schema: pa.Schema) -> pa.Table:
        return pa.Table.from_batches(job(iter([self._edges])), schema)

    def grouped(self, job: Job, schema: pa.Schema, reduce: Reduce, result: pa.Schema) -> pa.Table:
        rows = self.each(job, schema)
        groups = (rows.filter(pc.equal(rows["bucket"], bucket)) for bucket in pc.unique(rows["bucket"]))
        return pa.concat_tables([result.empty_table(), *map(reduce, groups)])


class SparkEdges:
    """Edges kept in a Spark table with columns partition, role and batch."""

    def __init__(self, partitions: list[str], kept: DataFrame, leaves: list[tuple[str, bytes]]) -> None:
        self.partitions, self.leaves = partitions, leaves
        self._edges = kept.where(F.col("role") == EDGES).select("partition", "batch")
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
