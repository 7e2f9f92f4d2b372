"""What run checks take from every partition while the one job has it in hand, so that they need no pass of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from checkers.anomaly import Check, Gathered
from checkers.log import PartitionLog

STAYS, LEAVES, BROKEN = "stays", "leaves", "broken"
NEAR = 50_000  # operations: what a history of so few gives is brought to the driver at once
Function = Callable[[PartitionLog], Gathered]


def gathers(checks: Sequence[Check[Any]], world: Any) -> list[Function]:
    """The distinct gathering functions of some checks, each with what it has to know of the whole run."""
    distinct = {check.gather: check.brief for check in checks if check.gather is not None}
    return [gather if brief is None else partial(gather, brief=brief(world)) for gather, brief in distinct.items()]


def gathered(functions: Sequence[Function], log: PartitionLog) -> Iterator[dict[str, Any]]:
    """Columns of rows: the messages of each function, or what it raised."""
    for function in functions:
        try:
            messages = function(log)
        except Exception as error:  # noqa: BLE001 - a check that fails is unknown and takes no other answer with it
            yield {"what": BROKEN, "partition": log.partition, "text": f"{type(error).__name__}: {error}"}
            continue
        for what, named in ((STAYS, messages.stays), (LEAVES, messages.leaves)):
            for name, message in named:
                yield {"what": what, "role": name, "partition": log.partition, "batch": message}


class Kept:
    """What was taken of a run.

    near: nothing stays, all comes to the driver. table: what stays on the executors, columns partition, role (the message's name)
        and batch; None until the partitions were judged. came: the same of a history that is `near`.
    leaves: the few messages that come along in any case, as (name, message). partitions: all that were judged.
    error: what a gathering function raised.
    """

    def __init__(self, functions: Sequence[Function] = (), near: bool = False) -> None:
        self.functions, self.near = functions, near
        self.table: DataFrame | None = None
        self.came: list[tuple[str, str, bytes]] = []
        self.leaves: list[tuple[str, bytes]] = []
        self.partitions: list[str] = []
        self.error = ""

    def split(self, judged: DataFrame) -> DataFrame:
        """A job's rows without those that stay. The job runs once; what it keeps lies on the executors' disks."""
        if not self.functions or self.near:
            return judged
        self._judged = judged.persist(StorageLevel.DISK_ONLY)
        self.table = self._judged.where(F.col("what") == STAYS).select("partition", "role", "batch")
        return self._judged.where(F.col("what") != STAYS)

    def take(self, results: pd.DataFrame) -> None:
        """What came along with a job's answers."""
        left, came = results[results["what"] == LEAVES], results[results["what"] == STAYS]
        self.leaves = list(zip(left["role"], left["batch"], strict=True))
        self.came = list(zip(came["partition"], came["role"], came["batch"], strict=True))
        self.partitions = sorted(results["partition"].dropna().unique())
        self.error = next(iter(results.loc[results["what"] == BROKEN, "text"]), "")

    def forget(self) -> None:
        """Free the disks."""
        if self.table is not None:
            self._judged.unpersist()
            self.table = None
