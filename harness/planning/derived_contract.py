"""What the settings of a test promise: the `contract` of plan.json, from the settings that are really in effect.

The keys are those of `harness.api.CONTRACT_KEYS`; which anomaly they forbid is decided by `checkers/verdict/rules.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harness.api import CONTRACT_KEYS, Isolation, Role

_ACKS = ("acks", "request.required.acks")
_IN_FLIGHT = ("max.in.flight", "max.in.flight.requests.per.connection")
OF_TOPICS = ("min.insync.replicas", "unclean.leader.election.enable", "cleanup.policy", "retention.ms", "retention.bytes")
_IN_FLIGHT_IDEMPOTENT = "5"  # librdkafka and the Java client lower it so far by themselves (KIP-98)


def derive(
    roles: Iterable[Role], producer: Mapping[str, Any], topic: Mapping[str, Any], broker: Mapping[str, Any]
) -> dict[str, str]:
    """The contract of a test's effective producer, topic and broker settings.

    The weakest topic setting counts where a topic overlays the brokers' own.
    """
    roles = tuple(roles)
    transactional = any(role.transactional for role in roles)
    idempotent = transactional or _flag(producer.get("enable.idempotence", False))
    acks = str(_first(producer, _ACKS, "all"))
    in_flight = str(_first(producer, _IN_FLIGHT, _IN_FLIGHT_IDEMPOTENT if idempotent else "1000000"))
    committed = any(role.isolation is Isolation.COMMITTED for role in roles)
    found = {
        "acks": "all" if acks in ("-1", "all") else acks,
        "idempotence": _text(idempotent),
        "transactional": _text(transactional),
        "isolation": (Isolation.COMMITTED if committed else Isolation.UNCOMMITTED).value,
        "max_in_flight": in_flight,
        "unclean_leader_election": _text(_flag(_overlaid("unclean.leader.election.enable", topic, broker, "false"))),
        "min_insync_replicas": str(_overlaid("min.insync.replicas", topic, broker, "1")),
        "compaction": _text("compact" in str(_overlaid("cleanup.policy", topic, broker, "delete", "log.cleanup.policy"))),
        "retention": _retention(topic),
    }
    return {name: found.get(name, key.default) for name, key in CONTRACT_KEYS.items() if key.planned}


def _first(settings: Mapping[str, Any], names: Iterable[str], default: str) -> Any:
    return next((settings[name] for name in names if name in settings), default)


def _overlaid(
    name: str, topic: Mapping[str, Any], broker: Mapping[str, Any], default: str, broker_name: str | None = None
) -> Any:
    return topic.get(name, broker.get(broker_name or name, default))


def _retention(topic: Mapping[str, Any]) -> str:
    """After how long, or beyond how much, old records go; -1 is never (Kafka's topic settings)."""
    time_ms, size = str(topic.get("retention.ms", -1)), str(topic.get("retention.bytes", -1))
    return time_ms if time_ms != "-1" else f"{size} bytes" if size != "-1" else "none"


def _flag(value: Any) -> bool:
    return str(value).lower() == "true"


def _text(flag: bool) -> str:
    return "true" if flag else "false"
