"""Promises of the settings of a test: the `contract` of plan.json, from the settings that are really in effect.

The keys are those of `harness.api.contract.CONTRACT_KEYS`; which anomaly they forbid is declared by its check (`Check.rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fencepost.harness.api import Isolation, Role
from fencepost.harness.api.contract import CONTRACT_KEYS
from fencepost.harness.api.values import from_digits

_ACKS = ("acks", "request.required.acks")
_IN_FLIGHT = ("max.in.flight", "max.in.flight.requests.per.connection")
OF_TOPICS = ("min.insync.replicas", "unclean.leader.election.enable", "cleanup.policy", "retention.ms", "retention.bytes")
_DAY_MS = 86_400_000
_WEEK_MINUTES = 7 * 24 * 60
_IN_FLIGHT_IDEMPOTENT = "5"  # librdkafka and the Java client lower it so far by themselves (KIP-98)


def derive(
    roles: Iterable[Role],
    producer: Mapping[str, Any],
    topic: Mapping[str, Any],
    broker: Mapping[str, Any],
    member: Mapping[str, Any] | None = None,
    eligible: bool = False,
) -> dict[str, str]:
    """The contract of a test's effective producer, topic and broker settings, for one topic. A topic overlays the brokers' own.

    Transactions also rest on the coordinator's topic, which has the brokers' settings. member: consumer settings of members.
    eligible: leaders are elected among eligible replicas (KIP-966); a promise only where Kafka's own topics have enough in sync.
    """
    roles = tuple(roles)
    transactional = any(role.transactional for role in roles)
    idempotent = transactional or _flag(producer.get("enable.idempotence", False))
    acks = str(_first(producer, _ACKS, "all"))
    in_flight = str(_first(producer, _IN_FLIGHT, _IN_FLIGHT_IDEMPOTENT if idempotent else "1000000"))
    committed = any(role.isolation is Isolation.COMMITTED for role in roles)
    overlaid = {**broker, **topic}
    connect = _support([role.connect.support for role in roles if role.connect])
    decided = transactional or connect == "enabled" or any(role.program for role in roles)  # somebody may use transactions
    unclean_coordinator = decided and _flag(broker.get("unclean.leader.election.enable"))
    contract = {
        "acks": acks if acks in ("0", "1") else "all",
        "idempotence": _text(idempotent),
        "transactional": _text(transactional),
        "isolation": (Isolation.COMMITTED if committed else Isolation.UNCOMMITTED).value,
        "consumption": "recorded" if any(role.group for role in roles) else "assigned",
        "application": "exactly-once" if any(role.program for role in roles) else "none",
        "connect": connect,
        "max_in_flight": in_flight,
        "unclean_leader_election": _text(unclean_coordinator or _flag(overlaid.get("unclean.leader.election.enable"))),
        "unclean_coordinator": _text(unclean_coordinator),
        "min_insync_replicas": str(overlaid.get("min.insync.replicas", "1")),
        "compaction": _text("compact" in str(topic.get("cleanup.policy", broker.get("log.cleanup.policy", "delete")))),
        "retention": _retention(topic, broker),
    }
    if _flag((member or {}).get("enable.auto.commit")):
        contract["offset_commits"] = "unrecorded"
    internal = (broker.get("min.insync.replicas", 1), broker.get("transaction.state.log.min.isr", 2))
    if eligible and min(map(_number, internal)) > 1:
        contract["eligible_leaders"] = "true"
    if 0 <= (expiry := _number(broker.get("producer.id.expiration.ms", -1))) < _DAY_MS:
        contract["producer_expiry"] = str(expiry)
    if 0 <= (minutes := _number(broker.get("offsets.retention.minutes", -1))) < _WEEK_MINUTES:
        contract["offset_expiry"] = str(minutes * 60_000)
    planned = {name: key.default for name, key in CONTRACT_KEYS.items() if key.planned} | contract
    return planned | _positions([role.connect.positions for role in roles if role.connect])


def _positions(kinds: Sequence[str]) -> dict[str, str]:
    """The kind of the positions of a connector's sources, where it is not the default."""
    return {"positions": kinds[0]} if kinds and kinds[0] != CONTRACT_KEYS["positions"].default else {}


def _support(levels: Sequence[str]) -> str:
    """The weakest support of exactly-once sources among the workers of Connect."""
    return min(levels, key=("disabled", "preparing", "enabled").index, default="none")


def _first(settings: Mapping[str, Any], names: Iterable[str], default: str) -> Any:
    return next((settings[name] for name in names if name in settings), default)


def weakest(contracts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The contract that several topics keep together: of each key the value that promises least."""
    whole = dict(contracts[0])
    for contract in contracts[1:]:
        whole |= {name: min(whole[name], contract[name], key=strength) for name, strength in _STRENGTH.items()}
    return whole


def _retained(text: str) -> float:
    """The amount that is retained, as a number to compare values of one unit by; an age comes before a size."""
    number, _, unit = text.partition(" ")
    return float("inf") if number == "none" else int(number) + (1e18 if unit else 0)


def _number(value: Any) -> int:
    """A whole number; -1 for anything else, which the broker refuses."""
    text = str(value).strip()
    return from_digits(text) if text.removeprefix("-").isdecimal() else -1


_STRENGTH: dict[str, Callable[[str], float]] = {
    "unclean_leader_election": lambda text: text != "true",
    "min_insync_replicas": _number,
    "compaction": lambda text: text != "true",
    "retention": _retained,
}


def _retention(topic: Mapping[str, Any], broker: Mapping[str, Any]) -> str:
    """The age, or the size, beyond which old records are deleted; -1 is never.

    Of the broker's settings of age the finest counts, as Kafka has it. Where none is given nothing is deleted during a run:
    Kafka's own default is a week.
    """
    units = (("retention.ms", 1), ("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000))
    settings = {**broker, **topic}
    age = next((_number(settings[name]) * unit for name, unit in units if name in settings), -1)
    size = _number(topic.get("retention.bytes", broker.get("log.retention.bytes", -1)))
    return str(age) if age >= 0 else f"{size} bytes" if size >= 0 else "none"


def _flag(value: Any) -> bool:
    return str(value).lower() == "true"


def _text(flag: bool) -> str:
    return "true" if flag else "false"
