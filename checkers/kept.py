"""What run checks keep of every partition while the one job has it in hand, so that they need no pass of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from checkers.anomaly import Check, Gather
from checkers.log import PartitionLog

KEPT, BROKEN = "kept", "error"


def gathers(checks: Sequence[Check[Any]]) -> list[Gather]:
    """The distinct gathering functions of some checks."""
    return list({check.gather: None for check in checks if check.gather is not None})


def gathered(functions: Sequence[Gather], log: PartitionLog) -> Iterator[dict[str, Any]]:
    """Columns of rows to keep: the messages of each function, or (role `error`) what it raised."""
    for function in functions:
        try:
            messages = function(log)
        except Exception as error:  # noqa: BLE001 - a check that fails is unknown and takes no other answer with it
            yield {"what": KEPT, "role": BROKEN, "partition": log.partition, "text": f"{type(error).__name__}: {error}"}
            continue
        for name, message in messages:
            yield {"what": KEPT, "role": name, "partition": log.partition, "batch": message}


class Kept:
    """What is kept of a run.

    table: None until the partitions were judged; columns partition, role (the message's name), batch, and text (what went
        wrong, where role is `error`).
    """

    def __init__(self, functions: Sequence[Gather] = ()) -> None:
        self.functions = functions
        self.table: DataFrame | None = None

    def split(self, judged: DataFrame) -> DataFrame:
        """A job's rows without those to keep. The job runs once; what it kept lies on the executors' disks."""
        if not self.functions:
            return judged.drop("batch")
        judged = judged.persist(StorageLevel.DISK_ONLY)
        self._judged = judged
        self.table = judged.where(F.col("what") == KEPT).select("partition", "role", "batch", "text")
        return judged.where(F.col("what") != KEPT).drop("batch")

    def forget(self) -> None:
        """Free the disks."""
        if self.table is not None:
            self._judged.unpersist()
            self.table = None
