"""Workloads: what clients do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from harness.api.clients import Client
from harness.api.clusters import TopicSpec
from harness.api.record_ids import record_id
from harness.api.values import Isolation, Outcome

ONLY_READ = ("reader", "final")  # names of roles without a producer


@dataclass(frozen=True, kw_only=True)
class Role:
    """What the process of one slot is: a `writer` (producer and consumer), a `reader` or a `final` reader (consumer only).

    polls: whether it has a consumer at all. rivals: whether its operations may open rivals (`Operation.rivals`).
    """

    name: str
    isolation: Isolation = Isolation.COMMITTED
    transactional: bool = False
    polls: bool = True
    rivals: bool = False


@dataclass(frozen=True, kw_only=True)
class PlannedOperation:
    """An operation that a generator asks for.

    ``mops`` are `("send", partition)` and `("poll",)` in order; ``think_s`` is slept before each of them and before the
    decision; ``intent`` is `commit` or `abort` for transactions; ``cell`` names the situation that a workload's matrix
    plans for it.
    """

    f: str
    mops: Sequence[tuple[str, ...]]
    intent: str | None = None
    think_s: float = 0.0
    cell: str = ""


class Rival(Protocol):
    """Another producer beside a slot's own, in the same worker, with the same settings: a process of its own in the history."""

    def perform(self, planned: PlannedOperation) -> Outcome:
        """One operation, by the workload's `perform` with the rival's client; recorded. The first is `initialise`."""


Rivals = Callable[[str], Rival]  # of a slot, by what is appended to its transactional id: the same one for the same suffix


@dataclass
class Operation:
    """An operation under way. ``value`` grows from its planned to its done form, micro-operation by micro-operation.

    Both forms are those of docs/history.md; ``planned.mops`` and ``value`` run in parallel. ``rivals``: for roles with rivals.
    """

    process: int
    number: int
    planned: PlannedOperation
    value: list[list[Any]]
    errors: list[dict[str, Any]] = field(default_factory=list)
    decided: int | None = None  # when commit was first called, CLOCK_MONOTONIC ns
    renew: bool = False  # the producer cannot be used any more: go on as a new process
    rivals: Rivals | None = None

    @classmethod
    def of(cls, process: int, number: int, planned: PlannedOperation) -> Operation:
        """An operation about to be made: every planned record gets its identity, so that the invoke line already names it."""
        value = [
            ["send", mop[1], record_id(process, number, seq)] if mop[0] == "send" else ["poll"]
            for seq, mop in enumerate(planned.mops)
        ]
        return cls(process, number, planned, value)


class Workload(Protocol):
    """Plug-in `fencepost.workload`: a frozen dataclass whose fields are the options of `[test.workload]`."""

    def topics(self) -> dict[str, TopicSpec]: ...
    def roles(self) -> tuple[Role, ...]:
        """One role per slot."""

    def producer_settings(self) -> Mapping[str, Any]:
        """Producer settings the workload stands for (the test's own are laid over them)."""

    def operations(self, role: Role, partitions: Sequence[str], rng: Random) -> Iterator[PlannedOperation]:
        """What comes next, for whom: pure, endless, decided by `rng` alone."""

    def perform(self, op: Operation, client: Client, run: str) -> Outcome:
        """Make it happen; fill in `op`; raise nothing for what a cluster may do."""
