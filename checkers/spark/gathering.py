"""What run checks take from every partition while the one job has it in hand, so that they need no pass of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark import RDD
from pyspark.storagelevel import StorageLevel

from checkers.api import Check, Gathered
from checkers.partition.log import PartitionLog

NEAR = 50_000  # operations: what a history of so few gives is brought to the driver at once
Function = Callable[[PartitionLog], Gathered]


@dataclass(frozen=True)
class Stays:
    """A named message of a partition that is only looked at where it was made."""

    partition: str
    name: str
    message: bytes


def gathers(checks: Sequence[Check[Any]], run: Any) -> list[Function]:
    """The distinct gathering functions of some checks, each with what it has to know of the whole run."""
    distinct = {check.gather: check.brief for check in checks if check.gather is not None}
    return [gather if brief is None else partial(gather, brief=brief(run)) for gather, brief in distinct.items()]


def gathered(functions: Sequence[Function], log: PartitionLog) -> tuple[Gathered, str]:
    """The messages of all functions, and what one of them raised."""
    found, broken = Gathered(), ""
    for function in functions:
        try:
            messages = function(log)
        except Exception as error:  # noqa: BLE001 - a check that fails is unknown and takes no other answer with it
            broken = f"{type(error).__name__}: {error}"
            continue
        found.stays.extend(messages.stays)
        found.leaves.extend(messages.leaves)
    return found, broken


class Kept:
    """What was taken of a run.

    near: nothing stays, all comes to the driver. there: what stays on the executors; None until the partitions were judged. came:
    the same of a history that is `near`.
    leaves: the few messages that come along in any case, as (name, message). partitions: all that were judged.
    error: what a gathering function raised.
    """

    def __init__(self, functions: Sequence[Function] = (), near: bool = False) -> None:
        self.functions, self.near = functions, near
        self.there: RDD[Stays] | None = None
        self.came: list[Stays] = []
        self.leaves: list[tuple[str, bytes]] = []
        self.partitions: list[str] = []
        self.error = ""

    def split(self, judged: RDD[Any]) -> RDD[Any]:
        """What a job makes without what stays. The job runs once; what it keeps lies on the executors' disks."""
        if not self.functions or self.near:
            return judged
        self._judged = judged.persist(StorageLevel.DISK_ONLY)
        self.there = self._judged.filter(lambda one: isinstance(one, Stays))
        return self._judged.filter(lambda one: not isinstance(one, Stays))

    def forget(self) -> None:
        """Free the disks."""
        if self.there is not None:
            self._judged.unpersist()
            self.there = None
