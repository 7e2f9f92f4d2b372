"""Messages that run checks take from every partition while the one job has it in hand, so that they need no pass of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fencepost.checkers.history.part_files import StoredMessage, stored_message
from fencepost.checkers.views.log import PartitionLog
from fencepost.harness.system import liveness

if TYPE_CHECKING:
    from pyspark import RDD

SHORT_HISTORY = 50_000  # operations: what the partitions of a history of so few give is brought to the driver at once


@dataclass(frozen=True)
class PartitionMessages:
    """Named messages of one partition: those that stay on the executors, and the few small ones that go to the driver.

    on_executors: large ones are best made one by one, as they are taken.
    """

    on_executors: Iterable[tuple[str, bytes]] = ()
    to_driver: list[tuple[str, bytes]] = field(default_factory=list)


Gatherer = Callable[[PartitionLog], PartitionMessages]
Gather = TypeVar("Gather", bound=Callable[..., PartitionMessages])
_TOGETHER: set[Any] = set()


def together(gather: Gather) -> Gather:
    """Say of a gathering function that it may be given many partitions as one log (`checkers.views.joined_logs`)."""
    _TOGETHER.add(gather)
    return gather


def is_together(gatherer: Gatherer) -> bool:
    """True if a gathering function, alone or with what it has to know of the run, is `together`."""
    return getattr(gatherer, "func", gatherer) in _TOGETHER


@dataclass(frozen=True)
class ExecutorMessage:
    """A named message of a partition that is read only on the machine that made it; where it lies if it is in a file."""

    partition: str
    name: str
    message: bytes | StoredMessage

    @property
    def content(self) -> bytes:
        """The message itself. Raises OSError when its file cannot be read."""
        return self.message.read() if isinstance(self.message, StoredMessage) else self.message


@dataclass
class PartitionGathered:
    """The messages that all gatherers made of one partition, and what one of them raised."""

    on_executors: list[ExecutorMessage] = field(default_factory=list)
    to_driver: list[tuple[str, bytes]] = field(default_factory=list)
    error: str = ""


def gather_messages(gatherers: Sequence[Gatherer], log: PartitionLog, folder: Path | None = None) -> PartitionGathered:
    """The messages of all gatherers. folder: where those that stay on the executors are written as they come (None: nowhere)."""
    gathered = PartitionGathered()
    for gatherer in gatherers:
        try:
            messages = gatherer(log)
            for name, message in messages.on_executors:
                place = stored_message(folder, message) if folder else message
                gathered.on_executors.append(ExecutorMessage(log.partition, name, place))
        except Exception as raised:  # noqa: BLE001 - a check that fails is unknown and takes no other answer with it
            gathered.error = f"{type(raised).__name__}: {raised}"
            continue
        gathered.to_driver.extend(messages.to_driver)
    return gathered


def _nothing() -> None:
    """There is nothing to free."""


class GatheredMessages:
    """The messages of all partitions of a run.

    short: the history is short, and all messages come to the driver.
    on_executors: of a long history, the messages that stay there; None until the partitions were judged.
    collected: of a short one, the same messages.
    to_driver: the few messages that come along in any case, as (name, message).
    partitions: all that were judged.
    error: what a gatherer raised.
    """

    def __init__(self, gatherers: Sequence[Gatherer] = (), short: bool = False) -> None:
        self.gatherers, self.short = gatherers, short
        self.on_executors: RDD[ExecutorMessage] | None = None
        self.collected: list[ExecutorMessage] = []
        self.to_driver: list[tuple[str, bytes]] = []
        self.partitions: list[str] = []
        self.error = ""
        self._release: Callable[[], object] = _nothing

    def of_job(self, job: Callable[[Path | None], RDD[Any]], place: liveness.TemporaryPlace | None) -> list[Any]:
        """Run the job, and return what it makes without the messages that stay on the executors.

        place: a directory that all executors share, whose path the job gets, and which `release` removes: messages go to files
        there. Without one, what the job makes is written to the executors' disks, and both kinds are read from there.
        """
        if place is not None:
            self._release = threading.Thread(target=place.remove).start  # gigabytes take a second
        judged = job(place.path if place else None)
        if self.short or not self.gatherers:
            return list(judged.collect())
        if place is not None:
            made = judged.collect()
            messages = [result for result in made if isinstance(result, ExecutorMessage)]
            self.on_executors = judged.context.parallelize(messages, max(1, min(len(messages), judged.getNumPartitions())))
            return [result for result in made if not isinstance(result, ExecutorMessage)]
        from pyspark.storagelevel import StorageLevel

        judged = judged.persist(StorageLevel.DISK_ONLY)
        self._release = judged.unpersist
        self.on_executors = judged.filter(lambda result: isinstance(result, ExecutorMessage))
        return list(judged.filter(lambda result: not isinstance(result, ExecutorMessage)).collect())

    def release(self) -> None:
        """Free the executors' disks, in the background where that takes long."""
        release, self._release = self._release, _nothing
        release()
        self.on_executors = None
