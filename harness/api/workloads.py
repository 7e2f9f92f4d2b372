"""Workloads: the operations of clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType
from typing import Any, Protocol

from fencepost.harness.api.clients import Client
from fencepost.harness.api.clusters import TopicSpec
from fencepost.harness.api.record_ids import record_id
from fencepost.harness.api.roles import Role
from fencepost.harness.api.values import Outcome


@dataclass(frozen=True, kw_only=True)
class PlannedOperation:
    """An operation that a generator asks for.

    f: its function: `txn`, `send`, `poll`, `misuse`, ... (docs/history.md).
    mops: its micro-operations, in order: `("send", partition)`, `("poll",)`, `("input", partition, offset, v)` for a record that
        is processed (the sends up to the next input are made of it), `("offset", partition, next)` for a group offset that is
        committed.
    intent: `commit` or `abort` for transactions; None: no transaction.
    think_s: seconds that are slept before each micro-operation and before the decision.
    cell: the situation that a workload's matrix plans for it; empty: none.
    positions: the positions that a `seek` sets, by partition.
    partitions: the partitions whose group offsets `committed` reads.
    limit: the greatest number of records that a poll returns.
    producer: the number of the producer that it uses, of a role with several.
    request: the request of a conductor to Connect: `method`, `path`, `body`.
    """

    f: str
    mops: Sequence[tuple[Any, ...]]
    intent: str | None = None
    think_s: float = 0.0
    cell: str = ""
    positions: Mapping[str, int] = field(default_factory=dict)
    partitions: Sequence[str] = ()
    limit: int = 1000
    producer: int = 0
    request: Mapping[str, Any] = field(default_factory=dict)


class Rival(Protocol):
    """Another producer beside a slot's own, in the same worker, with the same settings: a process of its own in the history."""

    def perform(self, planned: PlannedOperation) -> Outcome:
        """Perform an operation by the workload's `perform` with the rival's client; recorded. The first is `initialise`."""


class Rivals(Protocol):
    """The rivals of a slot, by the suffix of its transactional id: the same rival for the same suffix."""

    def __call__(self, suffix: str, settings: Mapping[str, Any] = MappingProxyType({}), /) -> Rival:
        """settings: of its producer, laid over the slot's own; those of the first call count."""


class Operator(Protocol):
    """Actions of the harness from outside the client, at the moment when an operation asks for them."""

    def reserve(self) -> bool:
        """Wait until `strike` is this slot's for the next half minute; False: it is not. Called before a transaction begins."""

    def strike(self, kind: str, lasts_s: float = 0.0, **options: Any) -> bool:
        """Have a fault (a name of `fencepost.nemesis`) injected now, and healed after `lasts_s`; return whether it took hold.

        Returns as soon as it has struck. `{id}` in an option is the slot's transactional id. Nothing happens without `reserve`.
        """

    def make_topic(self) -> str:
        """The name of a new topic with one partition, which no reader reads; empty when it could not be made."""

    def delete_topic(self, name: str) -> bool:
        """Delete a topic that `make_topic` has made; return whether that was accepted."""

    def finish(self, commit: bool) -> Outcome:
        """Have the slot's open transaction ended by another process, with the stored producer id and epoch; ok or info."""


@dataclass
class Operation:
    """An operation under way.

    process: number of its process.
    number: its number within the process.
    planned: the planned operation.
    value: its micro-operations, parallel to `planned.mops`; each grows from its planned to its completed form (docs/history.md).
    errors: the errors that calls raised.
    decided: time of the first call of commit, CLOCK_MONOTONIC nanoseconds; None: none was made.
    renew: the producer cannot be used any more; the slot goes on as a new process.
    rivals: opens rivals, for roles with them; None: the role has none.
    operator: actions from outside, for roles with them; None: the role has none.
    producers: all producers of the process, the client itself first.
    recovery: name of `RECOVERIES`: what follows a commit or an abort that failed.
    outcome: its outcome; None: not known yet.
    broken: the reason why the run cannot go on; the run ends with it as its error. Empty: it goes on.
    closing: the workload is over when the operation ends: changes are to be undone, and none made any more.
    rebalances: rebalances of the consumer since the operation before: (kind, partitions).
    """

    process: int
    number: int
    planned: PlannedOperation
    value: Any
    errors: list[dict[str, Any]] = field(default_factory=list)
    decided: int | None = None
    renew: bool = False
    rivals: Rivals | None = None
    operator: Operator | None = None
    producers: Sequence[Client] = ()
    recovery: str = "documented"
    outcome: Outcome | None = None
    broken: str = ""
    closing: bool = False
    rebalances: list[tuple[str, list[str]]] = field(default_factory=list)

    @classmethod
    def of(cls, process: int, number: int, planned: PlannedOperation) -> Operation:
        """An operation about to be made: every planned record gets its identity, so that the invoke line already names it."""
        if planned.positions:
            return cls(process, number, planned, {"positions": dict(planned.positions)})
        if planned.request:
            return cls(process, number, planned, dict(planned.request))
        if planned.partitions:
            return cls(process, number, planned, {"partitions": list(planned.partitions)})
        value = [
            ["send", mop[1], record_id(process, number, seq)] if mop[0] == "send" else list(mop)
            for seq, mop in enumerate(planned.mops)
        ]
        return cls(process, number, planned, value)


class Workload(Protocol):
    """Plug-in `fencepost.workload`: a frozen dataclass whose fields are the options of `[test.workload]`."""

    def topics(self) -> dict[str, TopicSpec]: ...
    def roles(self) -> tuple[Role, ...]:
        """One role per slot: writers, members, readers, instances, conductors. Final readers are added."""

    def producer_settings(self) -> Mapping[str, Any]:
        """Producer settings the workload stands for (the test's own are laid over them)."""

    def operations(self, role: Role, partitions: Sequence[str], rng: Random) -> Iterator[PlannedOperation]:
        """The operations of a role: pure, endless, decided by `rng` alone.

        A generator is sent each operation when it has ended (what `yield` returns), so that the next may depend on it.
        """

    def perform(self, op: Operation, client: Client, run: str) -> Outcome:
        """Perform the operation; fill in `op`; raise nothing for what a cluster may do."""
