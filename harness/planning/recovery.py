"""The time within which a client has to succeed again after the last fault was healed, by its own timeouts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fencepost.harness.api import Role
from fencepost.harness.api.recovery import RecoveryPlan

# Names of one setting in several clients, with the largest default among them (ms).
_REQUEST = (("request.timeout.ms", "socket.timeout.ms", "requestTimeout"), 60_000)  # a connection that is cut is noticed
_BACKOFF = (("reconnect.backoff.max.ms",), 10_000)  # before the next attempt to connect
_SESSION = (("session.timeout.ms",), 45_000)  # a group waits for a member that is silent
_DELIVERY = (("delivery.timeout.ms", "message.timeout.ms"), 120_000)
_TRANSACTION = (("transaction.timeout.ms",), 60_000)
RESTART_S = 30.0  # for a broker that healing has started to answer
MARGIN_S = 10.0


def recovery_plan(roles: Iterable[Role], client: Mapping[str, Any]) -> RecoveryPlan:
    """The bounds of recovery for the clients of these roles.

    client: the plan's entry of the clients, with `producer`, `consumer` and `members`.
    """
    roles = tuple(roles)
    producer, consumer, members = (client.get(side) for side in ("producer", "consumer", "members"))
    producer, consumer = producer or {}, consumer or {}
    everyone = (producer, consumer, *([members] if members else []))
    grace_s = RESTART_S + _longest_s(everyone, _REQUEST) + _longest_s(everyone, _BACKOFF)
    if members:
        grace_s += _longest_s((members,), _SESSION)
    operation_s = MARGIN_S + _longest_s((producer,), _DELIVERY)
    if any(role.transactional for role in roles):  # an abort waits once more for what the commit waited for
        operation_s = MARGIN_S + 2 * _longest_s((producer,), _TRANSACTION)
    return {"grace_s": grace_s, "bound_s": grace_s + operation_s}


def _longest_s(settings: Sequence[Mapping[str, Any]], timeout: tuple[Sequence[str], int]) -> float:
    """The longest time among clients' settings; the default where a client does not set it."""
    names, default_ms = timeout
    given = [next((each[name] for name in names if name in each), default_ms) for each in settings]
    return max(_milliseconds(value, default_ms) for value in given) / 1000


def _milliseconds(value: Any, default_ms: int) -> float:
    try:
        return max(0.0, float(str(value)))
    except ValueError:
        return float(default_ms)
