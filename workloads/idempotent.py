"""An idempotent producer without transactions: bursts of pipelined records, acknowledged one by one (KIP-98, acks=all)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, ClassVar

from fencepost.harness.api import (
    HOUR_S,
    Between,
    CallError,
    Client,
    Isolation,
    Operation,
    Outcome,
    PlannedOperation,
    Reader,
    Role,
    TopicSpec,
    Writer,
)
from fencepost.harness.api.bounds import demand_bounds
from fencepost.workloads.support import outcomes
from fencepost.workloads.support.polling import note, read, reader_operations
from fencepost.workloads.support.sending import send

FLUSH_MARGIN_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Idempotent:
    """Producers without transactions; every record has an outcome of its own.

    writers: processes that write
    readers: read_committed processes that only poll
    uncommitted_readers: the same at read_uncommitted
    partitions: of the one topic
    burst: records sent back to back before their acknowledgements are awaited, (fewest, most)
    message_timeout_s: how long the client tries to deliver a record (delivery.timeout.ms)
    record_bytes: about the size of a record's value
    """

    at_least: ClassVar[Mapping[str, int]] = {"records": 10}  # for its verdict to say something

    writers: Annotated[int, Between(1, 500)] = 8
    readers: Annotated[int, Between(0, 500)] = 2
    uncommitted_readers: Annotated[int, Between(0, 500)] = 0
    partitions: Annotated[int, Between(1, 5000)] = 4
    burst: Annotated[tuple[int, int], Between(1, 10_000)] = (1, 5)
    message_timeout_s: Annotated[float, Between(0, HOUR_S, above=True)] = 10.0
    record_bytes: Annotated[int, Between(0, 10_000_000)] = 100

    def __post_init__(self) -> None:
        demand_bounds(self)
        low, high = self.burst
        if low > high:
            raise ValueError(f"burst: (fewest, most) with 1 <= fewest <= most, not ({low}, {high})")

    def topics(self) -> dict[str, TopicSpec]:
        return {"t": TopicSpec(partitions=self.partitions)}

    def roles(self) -> tuple[Role, ...]:
        return (
            *[Writer(polls=False)] * self.writers,
            *[Reader()] * self.readers,
            *[Reader(isolation=Isolation.UNCOMMITTED)] * self.uncommitted_readers,
        )

    def producer_settings(self) -> Mapping[str, Any]:
        return {"acks": "all", "enable.idempotence": True, "delivery.timeout.ms": round(self.message_timeout_s * 1000)}

    def operations(self, role: Role, partitions: Sequence[str], rng: Random) -> Iterator[PlannedOperation]:
        if role.name != "writer":
            yield from reader_operations()
        while True:
            partition = rng.choice(partitions)
            yield PlannedOperation(f="send", mops=(("send", partition),) * rng.randint(*self.burst))

    def perform(self, op: Operation, client: Client, run: str) -> Outcome:
        """Send the burst and wait for every acknowledgement."""
        if op.planned.f == "poll":
            return read(op, client, run)
        results: list[Outcome] = []
        for seq in range(len(op.value)):
            try:
                send(op, seq, client, run, self.record_bytes)
            except CallError as error:
                note(op, error)
                results.append(outcomes.judge("deliver", error, "no transaction", client.library).outcome)
        try:
            client.flush(self.message_timeout_s + FLUSH_MARGIN_S)
        except CallError as error:
            note(op, error)
            results.append(Outcome.INFO)
        op.renew = any(error["fatal"] for error in op.errors) or Outcome.INFO in results
        return outcomes.worst([*results, *self._delivered(op, client.library)])

    def _delivered(self, op: Operation, library: str) -> list[Outcome]:
        """The outcome of each record that was acknowledged or refused."""
        acknowledged = [Outcome.OK for mop in op.value if len(mop) > 5 and mop[5] is not None]
        refused = [
            outcomes.judge("deliver", CallError("deliver", e["name"], e["code"], e["text"]), "no transaction", library).outcome
            for e in op.errors
            if e["call"] == "deliver"
        ]
        return [*acknowledged, *refused]
