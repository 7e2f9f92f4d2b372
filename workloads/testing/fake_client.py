"""A client that plays a script, for testing workloads without Kafka: which call fails, how often, and with what.

Public: authors of workloads of their own test against it. See docs/plugins.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, ClassVar

from harness.api import CallError, ClientSettings, Operation, Outcome, PlannedOperation, Polled, Workload

SETTINGS = ClientSettings(name="fake", bootstrap="nowhere:0", partitions=())


def error(call: str, name: str = "_TIMED_OUT", **flags: bool) -> CallError:
    """An error of a client's call; flags: fatal, retriable, abortable."""
    return CallError(call, name, -185, f"{name} (scripted)", **flags)


class FakeClient:
    """Delivers at once; calls listed in `script` raise the next of their errors until none is left.

    script: call -> errors; `deliver` makes records come back undelivered. polled: what each poll returns, then nothing.
    calls: the calls made so far; sent: (partition, value) of each record.
    """

    version: ClassVar[str] = "fake"

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

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.script.get(name):
            raise self.script[name].pop(0)

    def open(self, timeout_s: float) -> None:
        self._call("open")

    def begin(self) -> None:
        self._call("begin")

    def send(self, partition: str, key: bytes, value: bytes, done: Callable[[int | None, CallError | None], None]) -> None:
        self._call("send")
        self.sent.append((partition, value))
        undelivered = self.script.get("deliver")
        if undelivered:
            done(None, undelivered.pop(0))
        else:
            done(len(self.sent) - 1, None)

    def flush(self, timeout_s: float) -> None:
        self._call("flush")

    def commit(self, timeout_s: float) -> None:
        self._call("commit")

    def abort(self, timeout_s: float) -> None:
        self._call("abort")

    def poll(self, timeout_s: float, limit: int = 1000) -> list[Polled]:
        self._call("poll")
        return self.polled.pop(0) if self.polled else []

    def ends(self) -> Mapping[str, int]:
        return {}

    def close(self) -> None:
        self._call("close")


def perform(
    workload: Workload, planned: PlannedOperation, client: Any, process: int = 1, number: int = 0, run: str = "run1"
) -> tuple[Outcome, Operation]:
    """Perform one planned operation as the worker loop does: its outcome, and the operation with all that was filled in."""
    operation = Operation.of(process, number, planned)
    return workload.perform(operation, client, run), operation


def planned(workload: Workload, count: int, seed: int = 7) -> list[PlannedOperation]:
    """The first operations of the workload's first role."""
    partitions = [f"{topic}-{number}" for topic, spec in workload.topics().items() for number in range(spec.partitions)]
    operations = workload.operations(workload.roles()[0], partitions, Random(seed))
    return [next(operations) for _ in range(count)]
