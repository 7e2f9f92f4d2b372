"""The edges of a run, wherever they are: on Spark's executors, or in plain lists in the driver where there are few."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.checkers.graph.edges import EDGES, JOINED_EDGES
from fencepost.checkers.graph.joined_messages import PlacedMessage, joined
from fencepost.checkers.history.source import from_message, message, to_message
from fencepost.checkers.model import forks
from fencepost.checkers.model.freed_memory import release_freed_memory
from fencepost.checkers.model.values import NONE
from fencepost.checkers.views.gathering import ExecutorMessage, GatheredMessages
from fencepost.harness.system import liveness

if TYPE_CHECKING:
    from pyspark import RDD

MESSAGES = 256  # that are looked through at a time; it takes about as long as to make a fork
EDGES_OF_A_FORK = 250_000  # that are searched, in about a second, above which forks shorten it by more than they cost
Message = tuple[str, bytes]  # of a partition
Job = Callable[[Iterable[PlacedMessage]], Iterator[pa.RecordBatch]]
Reduce = Callable[[pa.Table], pa.Table]
Made = TypeVar("Made")
NamedArrays = Iterable[tuple[str, Any]]  # with their names; each is made as it is taken


class SharedArrays(Protocol):
    """Arrays that every process can read that looks through edges."""

    @property
    def value(self) -> Mapping[str, Any]: ...


class GatheredEdges(Protocol):
    """Edges and messages that the partitions gathered. A context: at its end what was shared is freed.

    partitions: their names; a partition's number is its place among them.
    to_driver: named messages that went to the driver.
    """

    partitions: list[str]
    to_driver: list[tuple[str, bytes]]

    def __enter__(self) -> GatheredEdges: ...
    def __exit__(self, *_: object) -> None: ...
    def share(self, arrays: NamedArrays) -> SharedArrays: ...
    def each(self, job: Job, schema: pa.Schema) -> pa.Table:
        """A job over all edges."""

    def grouped(self, job: Job, schema: pa.Schema, reduce: Reduce, result: pa.Schema, buckets: int) -> pa.Table:
        """A job over all edges, and a second one over its rows, those of one `bucket` (of so many) together."""


def gathered_edges(gathered: GatheredMessages, more: Sequence[Message], more_to_driver: Sequence[Message]) -> GatheredEdges:
    """The edges of a run: those of its partitions' logs, and more, made by the driver.

    Raises RuntimeError when a partition's edges could not be made.
    """
    if gathered.error:
        raise RuntimeError(gathered.error)
    places = [*gathered.partitions, *(place for place, _ in more)]
    to_driver = [*gathered.to_driver, *more_to_driver]
    if gathered.short:
        messages = [(sent.partition, sent.content) for sent in gathered.collected if sent.name == EDGES]
        placed = [(NONE, sent.content) for sent in gathered.collected if sent.name == JOINED_EDGES]
        return DriverEdges(places, [*messages, *more], to_driver, placed)
    if gathered.on_executors is None:
        raise RuntimeError("the partitions kept no edges; the graph checks were not asked together with the partition checks")
    return SparkEdges(places, gathered.on_executors, to_driver, more)


@dataclass(frozen=True)
class _DriverArrays:
    """Arrays of this process."""

    value: Mapping[str, Any]


class DriverEdges:
    """The edges of a history that this process judges, or of a short one: this process and forks of it look through them."""

    def __init__(
        self,
        partitions: list[str],
        messages: Sequence[Message],
        to_driver: list[tuple[str, bytes]],
        placed: Sequence[PlacedMessage] = (),
    ) -> None:
        """placed: messages of several partitions, which say themselves of which each edge is."""
        self.partitions, self.to_driver = partitions, to_driver
        self._edges = [*joined(messages, _numbers(partitions)), *placed]

    def __enter__(self) -> DriverEdges:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def share(self, arrays: NamedArrays) -> SharedArrays:
        return _DriverArrays(dict(arrays))

    def each(self, job: Job, schema: pa.Schema) -> pa.Table:
        parts = 1 + len(self._edges) // MESSAGES
        some = [self._edges[number::parts] for number in range(parts)]
        made = forks.results(lambda number: list(job(some[number])), parts, forks.cores())
        return pa.Table.from_batches([batch for batches in made for batch in batches], schema)

    def grouped(self, job: Job, schema: pa.Schema, reduce: Reduce, result: pa.Schema, buckets: int) -> pa.Table:
        groups = [group for _, group in _by_bucket(self.each(job, schema))]
        processes = forks.cores() if sum(map(len, groups)) > EDGES_OF_A_FORK else 1
        return pa.concat_tables([result.empty_table(), *forks.results(lambda at: reduce(groups[at]), len(groups), processes)])


class SparkEdges:
    """Edges that stayed on Spark's executors."""

    def __init__(
        self, partitions: list[str], messages: RDD[ExecutorMessage], to_driver: list[tuple[str, bytes]], more: Sequence[Message]
    ) -> None:
        self.partitions, self.to_driver = partitions, to_driver
        edges = messages.filter(lambda sent: sent.name == EDGES).map(lambda sent: (sent.partition, sent.content))
        self._edges = edges.union(edges.context.parallelize(list(more), 1)) if more else edges
        self._numbers = _numbers(partitions)
        self._shared: list[liveness.TemporaryPlace] = []

    def __enter__(self) -> SparkEdges:
        return self

    def __exit__(self, *_: object) -> None:
        for place in self._shared:
            place.remove()

    def share(self, arrays: NamedArrays) -> SharedArrays:
        """Share: on one machine in memory once, for all processes; on a cluster a copy for each Python worker (Spark's
        broadcast).
        """
        context = self._edges.context
        if not context.master.startswith("local"):
            return context.broadcast(dict(arrays))  # type: ignore[no-any-return]
        self._shared.append(liveness.TemporaryPlace("shared"))
        return _MappedArrays(self._shared[-1].path, arrays)

    def each(self, job: Job, schema: pa.Schema) -> pa.Table:
        numbers = self._numbers
        return _collected(self._edges.mapPartitions(lambda edges: _released(map(message, job(joined(edges, numbers))))), schema)

    def grouped(self, job: Job, schema: pa.Schema, reduce: Reduce, result: pa.Schema, buckets: int) -> pa.Table:
        numbers = self._numbers

        def parts(edges: Iterable[Message]) -> Iterator[tuple[int, bytes]]:
            batches = job(joined(edges, numbers))
            return _released((bucket, message(group)) for batch in batches for bucket, group in _by_bucket(batch))

        def reduced(groups: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
            rows = pa.concat_tables([schema.empty_table(), *(from_message(group) for _, group in groups)])
            return _released(to_message(reduce(group)) for _, group in _by_bucket(rows))

        tasks = min(buckets, self._edges.getNumPartitions())
        shuffled = self._edges.mapPartitions(parts).partitionBy(tasks, lambda bucket: bucket)
        return _collected(shuffled.mapPartitions(reduced), result)


def _numbers(partitions: Sequence[str]) -> dict[str, int]:
    return {partition: number for number, partition in enumerate(partitions)}


def _collected(messages: RDD[bytes], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables([schema.empty_table(), *map(from_message, messages.collect())])


def _released(made: Iterable[Made]) -> Iterator[Made]:
    """What a task makes; its process keeps no memory for the next one, as the driver needs some itself."""
    try:
        yield from made
    finally:
        release_freed_memory()


def _by_bucket(rows: Any) -> Iterator[tuple[int, Any]]:
    """The rows of each `bucket`, of a table or a batch."""
    for bucket in pc.unique(rows["bucket"]).to_pylist():
        yield bucket, rows.filter(pc.equal(rows["bucket"], bucket))


class _MappedArrays:
    """Arrays in files that every process of this machine maps."""

    def __init__(self, folder: Path, arrays: NamedArrays) -> None:
        self.folder = folder
        self._names: list[str] = []
        for name, values in arrays:
            np.save(self.folder / f"{name}.npy", values)
            self._names.append(name)

    @property
    def value(self) -> Mapping[str, Any]:
        return {name: np.load(self.folder / f"{name}.npy", mmap_mode="r") for name in self._names}
