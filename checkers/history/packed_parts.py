"""The first stage of Spark's job: the packed parts of each topic-partition, shuffled into buckets.

It needs nothing but the history, so that it can begin while this process still reads what the second stage has to know.
"""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fencepost.checkers.history.part_files import StoredPart, stored
from fencepost.checkers.history.scan import COLUMNS, pack
from fencepost.checkers.history.source import LocalSource, Source
from fencepost.harness.api.values import from_digits
from fencepost.harness.system import liveness

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

BUCKETS_PER_CORE = 4  # partitions are shared out among them
CANCEL_S = 0.1


def packed_parts(spark: SparkSession, history: Source, folder: Path | None) -> RDD[Any]:
    """(topic-partition, part) of a history, all of a partition in one bucket.

    folder: for the parts, of which Spark moves only the places then (None: it moves the parts).
    """
    buckets = BUCKETS_PER_CORE * spark.sparkContext.defaultParallelism
    packing = pack if folder is None else partial(_packed_into, folder)
    return history.map_batches(spark, COLUMNS, packing).partitionBy(buckets, _bucket)


def _packed_into(folder: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, StoredPart]]:
    return stored(folder, pack(batches))


def _bucket(partition: str) -> int:
    """The bucket of a partition: partitions with successive numbers get successive buckets, so that few share one."""
    topic, _, number = partition.rpartition("-")
    return zlib.crc32(topic.encode()) + (from_digits(number) if number.isdecimal() else zlib.crc32(number.encode()))


def shared_place(spark: SparkSession) -> liveness.TemporaryPlace | None:
    """The folder for the executors' packed parts and messages, on the disk that Spark uses; None where they share no disk."""
    context = spark.sparkContext
    if not context.master.startswith("local"):
        return None
    disk = (context.getConf().get("spark.local.dir") or "").split(",")[0]
    return liveness.TemporaryPlace("parts", Path(disk) if disk else None)


class PartsAhead:
    """The packed parts of a history, which Spark makes on this machine from now on.

    A thread waits for the session, and for the parts.
    """

    def __init__(self, session: Callable[[], SparkSession], history: LocalSource) -> None:
        self._session, self._history = session, history
        self._group = f"parts-{os.getpid()}-{id(self)}"
        self._spark: SparkSession | None = None
        self._place: liveness.TemporaryPlace | None = None
        self._made: RDD[Any] | None = None
        self._dropped = False
        self._thread = threading.Thread(target=self._make, daemon=True)
        self._thread.start()

    def _make(self) -> None:
        with suppress(Exception):  # whatever it is, the whole job meets it again, and says so
            self._spark = self._session()
            self._spark.sparkContext.setJobGroup(self._group, "packed parts", interruptOnCancel=True)
            self._place = None if self._dropped else shared_place(self._spark)
            if self._place is not None:
                parts = packed_parts(self._spark, self._history, self._place.path)
                parts.foreachPartition(_passed_over)  # Spark keeps what a shuffle has moved, and moves it once
                self._made = parts

    def take(self) -> tuple[RDD[Any], liveness.TemporaryPlace] | None:
        """The parts, once they are made, and the place where they lie, which is the caller's now.

        None: Spark's executors are elsewhere, or it went wrong.
        """
        self._thread.join()
        if self._made is None or self._place is None:
            return None
        place, self._place = self._place, None
        return self._made, place

    def drop(self) -> None:
        """Make no more of them, and remove those that nobody has taken. Nobody waits for a session that is not there yet."""
        self._dropped = True
        while self._spark is not None and self._thread.is_alive():
            with suppress(Exception):  # the JVM may be gone
                self._spark.sparkContext.cancelJobGroup(self._group)
            self._thread.join(CANCEL_S)  # a job that is about to begin is not cancelled yet
        if self._place is not None:
            self._place.remove()


def _passed_over(parts: Iterable[Any]) -> None:
    """Take the places of a bucket's parts: of a worker that does not, Spark starts another one for the next task."""
    for _ in parts:
        pass
