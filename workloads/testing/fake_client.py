"""A client that plays a script, for testing workloads without Kafka: which call fails, how often, and with what.

Public: authors of workloads of their own test against it. See docs/plugin-workloads.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, ClassVar

from fencepost.harness.api import (
    CAPABILITIES,
    CallError,
    ClientSettings,
    Delivered,
    Done,
    GroupMetadata,
    Operation,
    Outcome,
    Outgoing,
    PlannedOperation,
    Polled,
    Position,
    Rebalance,
    Workload,
)

SETTINGS = ClientSettings(name="fake", bootstrap="nowhere:0")


def error(call: str, name: str = "_TIMED_OUT", **flags: bool) -> CallError:
    """An error of a client's call; flags: fatal, retriable, abortable, unconfirmed."""
    return CallError(call, name, -185, f"{name} (scripted)", **flags)


class FakeClient:
    """Delivers at once; calls listed in `script` raise the next of their errors until none is left.

    script: call -> errors; `deliver` makes records come back undelivered.
    polled: the records that each poll returns, then none.
    calls: the calls made so far.
    sent: (partition, value) of each record.
    offsets: those added to transactions.
    groups: the group metadata with which they were added.
    """

    version: ClassVar[str] = "fake"
    capabilities: ClassVar[frozenset[str]] = frozenset(CAPABILITIES)
    library = "librdkafka"

    def __init__(
        self,
        script: Mapping[str, Sequence[CallError]] | None = None,
        polled: Sequence[list[Polled]] = (),
        settings: ClientSettings = SETTINGS,
    ) -> None:
        self.script = {call: list(errors) for call, errors in (script or {}).items()}
        self.polled = list(polled)
        self.calls: list[str] = []
        self.sent: list[tuple[str, bytes]] = []
        self.offsets: list[dict[str, int]] = []
        self.groups: list[GroupMetadata] = []

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.script.get(name):
            raise self.script[name].pop(0)

    def open(self, timeout_s: float) -> None:
        self._call("open")

    def begin(self) -> None:
        self._call("begin")

    def send(self, record: Outgoing, done: Done) -> None:
        self._call("send")
        partition = f"{record.topic}-{record.partition or 0}"
        self.sent.append((partition, record.value or b""))
        undelivered = self.script.get("deliver")
        done(undelivered.pop(0) if undelivered else Delivered(partition, len(self.sent) - 1))

    def flush(self, timeout_s: float) -> None:
        self._call("flush")

    def commit(self, timeout_s: float) -> None:
        self._call("commit")

    def abort(self, timeout_s: float) -> None:
        self._call("abort")

    def initialise(self, timeout_s: float) -> None:
        self._call("initialise")

    def send_offsets(self, offsets: Mapping[str, int], group: GroupMetadata, timeout_s: float) -> None:
        self._call("send_offsets")
        self.offsets.append(dict(offsets))
        self.groups.append(group)

    def assign(self, positions: Mapping[str, Position]) -> None:
        self._call("assign")

    def subscribe(self, topics: Sequence[str], rebalanced: Callable[[Rebalance], None]) -> None:
        self._call("subscribe")

    def seek(self, positions: Mapping[str, Position]) -> None:
        self._call("seek")

    def position(self, partitions: Sequence[str]) -> Mapping[str, int | None]:
        return dict.fromkeys(partitions)

    def committed(self, partitions: Sequence[str], timeout_s: float) -> Mapping[str, int | None]:
        return dict.fromkeys(partitions)

    def commit_offsets(self, offsets: Mapping[str, int], timeout_s: float) -> None:
        self._call("commit_offsets")
        self.offsets.append(dict(offsets))

    def group(self) -> GroupMetadata:
        return {"group_id": "fake", "member_id": "fake-1"}

    def memberless_group(self) -> GroupMetadata:
        return {"group_id": "fake"}

    def poll(self, timeout_s: float, limit: int = 1000) -> list[Polled]:
        self._call("poll")
        return self.polled.pop(0) if self.polled else []

    def ends(self) -> Mapping[str, int]:
        return {}

    def leave(self, timeout_s: float) -> None:
        self._call("leave")

    def close(self) -> None:
        self._call("close")


def perform(
    workload: Workload,
    planned: PlannedOperation,
    client: Any,
    process: int = 1,
    number: int = 0,
    run: str = "run1",
    recovery: str = "documented",
) -> tuple[Outcome, Operation]:
    """Perform one planned operation as the worker loop does: its outcome, and the operation with all that was filled in."""
    operation = Operation.of(process, number, planned)
    operation.recovery = recovery
    return workload.perform(operation, client, run), operation


def planned(workload: Workload, count: int, seed: int = 7) -> list[PlannedOperation]:
    """The first operations of the workload's first role."""
    partitions = [f"{topic}-{number}" for topic, spec in workload.topics().items() for number in range(spec.partitions)]
    operations = workload.operations(workload.roles()[0], partitions, Random(seed))
    return [next(operations) for _ in range(count)]
