"""A test, one frozen point of a campaign's matrix, and the faults planned for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A plug-in by name and the options given for it (`kind = "pause"`, `count = 2`)."""

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FaultChoice:
    """One `[[nemesis]]` of a test: a fault, how often it strikes and how long it lasts.

    Faults of one lane never overlap; every lane has its own timeline. ``every_s`` is the pause between
    two faults of the lane, ``lasts_s`` how long each lasts, both (low, high) in seconds. Choices of a lane with the same
    ``together`` strike at the same moment. ``when`` is empty, or a condition that a strike waits for (see `WHEN`).
    """

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    every_s: tuple[float, float] = (3.0, 6.0)
    lasts_s: tuple[float, float] = (3.0, 6.0)
    lane: str = "main"
    together: str = ""
    when: str = ""


WHEN = ("transaction-open",)  # some client is inside a transaction


@dataclass(frozen=True, kw_only=True)
class Lane:
    """How the faults of one lane follow each other (`[test.lanes.NAME]`).

    ``order``: `random`, each time any of them, all alike; `in turn`, as they are written, again and again. With ``busy_s`` and
    ``quiet_s`` ((low, high) in seconds) the lane strikes for so long, and then is quiet for so long, by turns.
    """

    order: str = "random"
    busy_s: tuple[float, float] | None = None
    quiet_s: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How many servers all faults together may hurt at a time (`[test.budget]`).

    ``nodes``: so many brokers and controllers. ``keep_quorum``: fewer than half of the brokers, and of the controllers. What
    is said here holds for single faults too. Where nothing is said, several faults together must keep the quorum, while a
    single one, when no other is on, may hurt what it asks for.
    """

    nodes: int | None = None
    keep_quorum: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Test:
    """Everything that decides one run, except the seed's draws. Made by `harness.campaign.campaign`."""

    __test__: ClassVar[bool] = False  # not a pytest class

    name: str
    cluster: Choice = field(default_factory=lambda: Choice(kind="auto"))
    workload: Choice = field(default_factory=lambda: Choice(kind="transactions"))
    nemesis: tuple[FaultChoice, ...] = ()
    lanes: Mapping[str, Lane] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    client: str = "librdkafka"
    producer: Mapping[str, Any] = field(default_factory=dict)  # any client setting
    consumer: Mapping[str, Any] = field(default_factory=dict)
    topic: Mapping[str, Any] = field(default_factory=dict)  # any topic setting
    contract: Mapping[str, str] = field(default_factory=dict)  # overrides what the settings promise
    expect: tuple[str, ...] = ("valid",)  # "valid", or the anomalies that must be found
    checkers: tuple[str, ...] = ()  # import paths of checks that are asked beside the installed ones
    tolerate: tuple[str, ...] = ()  # forbidden anomalies that may come along with the expected ones
    time_s: float = 60.0
    rate: float = 0.0  # operations per second over all writers; 0: as fast as the client goes
    seed: int | None = None
    repeat: int = 1
    campaign: str = ""


@dataclass(frozen=True, kw_only=True)
class Injection:
    """One planned fault: when (seconds after the workload starts), what, and for how long."""

    id: int
    at_s: float
    lasts_s: float
    kind: str
    options: Mapping[str, Any]
    lane: str
    seed: int
    when: str = ""
