"""A workload: idempotent producers that send one record at a time, and readers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from fencepost.harness.api import CallError, Client, Operation, Outcome, PlannedOperation, Reader, Role, TopicSpec, Writer
from fencepost.workloads.support import outcomes
from fencepost.workloads.support.polling import note, read, reader_operations
from fencepost.workloads.support.sending import send


@dataclass(frozen=True, kw_only=True)
class Trickle:
    """One record after the other; each is acknowledged before the next is sent."""

    writers: int = 3  # processes that write
    readers: int = 1  # read_committed processes that only poll
    partitions: int = 2  # of the one topic
    timeout_s: float = 10.0  # how long a record may take (delivery.timeout.ms)
    record_bytes: int = 100  # about the size of a record's value

    def __post_init__(self) -> None:
        if self.writers < 1 or self.partitions < 1 or self.timeout_s <= 0:
            raise ValueError("writers and partitions must be at least 1, and timeout_s above 0")

    def topics(self) -> dict[str, TopicSpec]:
        """The topics that are made before the start."""
        return {"trickle": TopicSpec(partitions=self.partitions)}

    def roles(self) -> tuple[Role, ...]:
        """One process for each; the readers of the final phase are added by the harness."""
        return (*[Writer()] * self.writers, *[Reader()] * self.readers)

    def producer_settings(self) -> Mapping[str, Any]:
        """The settings that the workload stands for; the test's own are laid over them. The contract is derived from the sum."""
        return {"acks": "all", "enable.idempotence": True, "delivery.timeout.ms": round(self.timeout_s * 1000)}

    def operations(self, role: Role, partitions: Sequence[str], rng: Random) -> Iterator[PlannedOperation]:
        """Generate the operations: pure, endless, decided by `rng` alone."""
        if role.name != "writer":
            yield from reader_operations()
        while True:
            yield PlannedOperation(f="send", mops=(("send", rng.choice(partitions)),))

    def perform(self, op: Operation, client: Client, run: str) -> Outcome:
        """Make it happen. ok: it surely did; fail: it surely did not; info: nobody knows. When in doubt it is info."""
        if op.planned.f == "poll":
            return read(op, client, run)
        try:
            send(op, 0, client, run, self.record_bytes)  # fills in offset and times when the answer comes
            client.flush(self.timeout_s + 5.0)
        except CallError as error:
            note(op, error)
            op.renew = error.fatal or error.call == "flush"
            call = "deliver" if error.call == "send" else error.call
            return outcomes.judge(call, error, "no transaction", client.library).outcome
        if op.value[0][5] is not None:
            return Outcome.OK
        return Outcome.INFO  # not delivered: an earlier attempt may have been appended, and its answer lost
