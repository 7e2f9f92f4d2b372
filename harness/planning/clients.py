"""The clients of a test: fetched, judged by their capabilities and their settings, and written into the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fencepost.harness import secrets
from fencepost.harness.api import CAPABILITIES, ONLY_READ, ConfiguresMembers, Role, Workload
from fencepost.harness.api.plans import Test
from fencepost.harness.api.roles import FinalReader
from fencepost.harness.api.run import ClientPlan, DriverPlan, ReadersPlan
from fencepost.harness.api.values import from_digits
from fencepost.harness.drivers import families
from fencepost.harness.drivers.families import Driver
from fencepost.harness.plugins import registry

SESSION, INTERVAL = "session.timeout.ms", "max.poll.interval.ms"
SESSION_MS = 45_000  # librdkafka's default
BENEATH: Mapping[str, Mapping[str, Any]] = {  # settings of drivers beneath the workload's and the test's settings
    "producer": {"linger.ms": 0, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 200},
    "consumer": {
        "auto.offset.reset": "earliest",  # after a truncation, start over: the checker sees the jump
        "fetch.max.wait.ms": 100,
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 200,
    },
}


def member_settings(workload: Workload, test: Test) -> dict[str, Any]:
    """The settings of consumers that are members of a group of the workload, if it has any."""
    beneath = workload.member_settings() if isinstance(workload, ConfiguresMembers) else {}
    return {**beneath, **test.consumer} if any(role.group for role in workload.roles()) else {}


def reader_settings(test: Test) -> dict[str, Any]:
    """The settings of consumers that are in no group.

    librdkafka demands of these, too, that their sessions are no longer than `max.poll.interval.ms`.
    """
    interval, kind = str(test.consumer.get(INTERVAL, "")), test.readers or test.client
    shorter = kind.partition("@")[0] == "librdkafka" and interval.isdecimal() and from_digits(interval) < SESSION_MS
    classic = str(test.consumer.get("group.protocol", "classic")).lower() == "classic"
    return {**({SESSION: int(interval)} if shorter and classic else {}), **test.consumer}


def client_plan(test: Test, producer: Mapping[str, Any], members: Mapping[str, Any] | None = None) -> ClientPlan:
    """The plan's entry of the clients.

    producer: the settings of the producers, the workload's included.
    members: the settings of consumers that are members of a group of the workload, the workload's included.
    """
    return {
        **_named(test.client),
        "producer": _beneath("producer", test.client, producer),
        "consumer": _beneath("consumer", test.readers or test.client, reader_settings(test)),
        "members": _beneath("consumer", test.client, members) if members else {},
        "readers": _named(test.readers) if test.readers else None,
        "recovery": test.recovery,
    }


def _named(kind: str) -> ReadersPlan:
    if families.is_driver(kind):
        driver = families.obtain(kind)
        return {"kind": driver.kind, "version": _version(driver), "driver": _driver_plan(driver)}
    return {"kind": kind, "version": registry.load("fencepost.client", kind).version, "driver": None}


def _beneath(side: str, kind: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, over those that a driver needs; a client in this process has its own."""
    return {**(BENEATH[side] if families.is_driver(kind) else {}), **settings}


def _version(driver: Driver) -> str:
    return families.hello(driver).version or driver.version


def _driver_plan(driver: Driver) -> DriverPlan:
    hello = families.hello(driver)
    return {
        "command": list(driver.command),
        "reads": list(driver.reads),
        "checksum": driver.checksum,
        "client": hello.client,
        "runtime": hello.runtime,
        "capabilities": sorted(hello.capabilities),
        "transactions": hello.transactions,
    }


def unsuited(test: Test, workload: Workload, progress: Callable[[str], None]) -> list[str]:
    """Capabilities that the test needs and its clients lack, and settings that they refuse, a sentence each; drivers are fetched.

    Raises CampaignError and ClusterError when they cannot be had.
    """
    roles = (*workload.roles(), FinalReader())
    producer = {**workload.producer_settings(), **test.producer}
    kinds = [test.client, test.readers or test.client]
    for kind in filter(families.is_driver, dict.fromkeys(kinds)):
        families.obtain(kind, progress)
    reads = [[role for role in roles if (role.name in ONLY_READ) is only] for only in (False, True)]
    lacking = [text for kind, some in zip(kinds, reads, strict=True) for text in _lacking(kind, some, producer)]
    return [*lacking, *_refused(test, kinds, producer)]


def needed(role: Role, producer: Mapping[str, Any]) -> list[str]:
    """The capabilities that a role needs of its client."""
    writes = role.name not in ONLY_READ
    idempotent = str(producer.get("enable.idempotence", "false")).lower() == "true"
    wanted = {
        "transactions": role.transactional,
        "idempotence": writes and idempotent and not role.transactional,
        "assign": role.polls and not role.group,
        "groups": bool(role.group),
        "offsets-in-transactions": bool(role.group) and role.transactional,
        "seek": bool(role.group),
        "static-members": role.static,
        "isolation": role.polls,
        "ends": role.name == "final",
        "initialise": role.rivals,
    }
    return [*(name for name, wanted_here in wanted.items() if wanted_here), *role.needs]


def _lacking(kind: str, roles: Iterable[Role], producer: Mapping[str, Any]) -> list[str]:
    wanted = {name: role.name for role in roles for name in needed(role, producer)}
    can = _capabilities(kind)
    return [
        f"not possible with this client: {kind} lacks `{name}` ({CAPABILITIES[name]}), which the {role} processes need"
        for name, role in wanted.items()
        if name not in can
    ]


def _capabilities(kind: str) -> frozenset[str]:
    if families.is_driver(kind):
        return families.hello(families.obtain(kind)).capabilities
    capabilities: frozenset[str] = registry.load("fencepost.client", kind).capabilities
    return capabilities


def _refused(test: Test, kinds: list[str], producer: Mapping[str, Any]) -> list[str]:
    """Settings that the drivers themselves refuse: producers' by the writers' client, consumers' by the readers'."""
    refused = []
    sides = (("producer", kinds[0], producer), ("consumer", kinds[1], test.consumer))
    for side, kind, settings in sides:
        if families.is_driver(kind):
            known = secrets.judged(_beneath(side, kind, settings))
            own = {"producer": {}, "consumer": {}, side: known}
            answers = families.refusals(families.obtain(kind), own["producer"], own["consumer"])
            refused += [
                f"client.{side}{'.' + key if key else ''}: {kind} says: {text}" for at, key, text in answers if at == side
            ]
    return refused
