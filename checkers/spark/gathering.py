"""What run checks take from every partition while the one job has it in hand, so that they need no pass of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark import RDD
from pyspark.storagelevel import StorageLevel

from checkers.partition.log import PartitionLog

SHORT_HISTORY = 50_000  # operations: what the partitions of a history of so few give is brought to the driver at once


@dataclass(frozen=True)
class PartitionMessages:
    """Named messages of one partition: those that stay on the executors, and the few small ones that go to the driver."""

    on_executors: list[tuple[str, bytes]] = field(default_factory=list)
    to_driver: list[tuple[str, bytes]] = field(default_factory=list)


Gatherer = Callable[[PartitionLog], PartitionMessages]


@dataclass(frozen=True)
class ExecutorMessage:
    """A named message of a partition that is read only on the executor that made it."""

    partition: str
    name: str
    message: bytes


def gather_messages(gatherers: Sequence[Gatherer], log: PartitionLog) -> tuple[PartitionMessages, str]:
    """The messages of all gatherers, and what one of them raised."""
    found, error = PartitionMessages(), ""
    for gatherer in gatherers:
        try:
            messages = gatherer(log)
        except Exception as raised:  # noqa: BLE001 - a check that fails is unknown and takes no other answer with it
            error = f"{type(raised).__name__}: {raised}"
            continue
        found.on_executors.extend(messages.on_executors)
        found.to_driver.extend(messages.to_driver)
    return found, error


class GatheredMessages:
    """The messages of all partitions of a run.

    short: the history is short, and all messages come to the driver.
    on_executors: of a long history, the messages that stay there; None until the partitions were judged.
    collected: of a short one, the same messages.
    to_driver: the few messages that come along in any case, as (name, message). partitions: all that were judged.
    error: what a gatherer raised.
    """

    def __init__(self, gatherers: Sequence[Gatherer] = (), short: bool = False) -> None:
        self.gatherers, self.short = gatherers, short
        self.on_executors: RDD[ExecutorMessage] | None = None
        self.collected: list[ExecutorMessage] = []
        self.to_driver: list[tuple[str, bytes]] = []
        self.partitions: list[str] = []
        self.error = ""

    def split(self, judged: RDD[Any]) -> RDD[Any]:
        """What the job makes, without the messages that stay on the executors.

        The job runs once: what it makes is written to the executors' disks, and both parts are read from there.
        """
        if not self.gatherers or self.short:
            return judged
        self._judged = judged.persist(StorageLevel.DISK_ONLY)
        self.on_executors = self._judged.filter(lambda one: isinstance(one, ExecutorMessage))
        return self._judged.filter(lambda one: not isinstance(one, ExecutorMessage))

    def release(self) -> None:
        """Free the executors' disks."""
        if self.on_executors is not None:
            self._judged.unpersist()
            self.on_executors = None
