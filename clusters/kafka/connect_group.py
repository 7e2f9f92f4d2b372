"""The duties of Connect's workers: their group's assignment, as its coordinator has it (KIP-415).

Layouts: `ConnectProtocol` and `IncrementalCooperativeConnectProtocol` of Kafka Connect inside DescribeGroups.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from fencepost.clusters.kafka.protocol import Place, Reply, WireError, ask, string
from fencepost.clusters.kafka.roles import WireRoles
from fencepost.harness.api import ClusterError, ConnectDuties

_DESCRIBE_GROUPS, _ASK_S = 15, 2.0
_CONNECTOR = -1  # in place of a task's number
_Duty = tuple[str, int]  # a connector and the number of its task


def duties(roles: WireRoles, group: str) -> Mapping[str, ConnectDuties]:
    """The duties of each worker by the address of its REST interface (`http://host:port`). Raises ClusterError."""
    node = roles.group_coordinator(group)
    try:
        return _described(roles.brokers[node], group)
    except OSError as error:
        raise ClusterError(f"the workers of {group} are not known: {error}") from error


def _described(address: Place, group: str) -> dict[str, ConnectDuties]:
    reply = ask(address, _DESCRIBE_GROUPS, 0, struct.pack(">i", 1) + string(group), _ASK_S)
    if reply.number(">i") != 1:
        raise WireError(f"nothing is said of group {group}")
    if error := reply.number(">h"):
        raise WireError(f"group {group} cannot be described: error {error}")
    reply.text(), reply.text(), reply.text(), reply.text()  # group, state, protocol type, protocol
    return dict(filter(None, reply.array(lambda: _member(reply))))


def _member(reply: Reply) -> tuple[str, ConnectDuties] | None:
    reply.text(), reply.text(), reply.text()  # member, client, host
    metadata, assignment = (Reply(reply.take(max(0, reply.number(">i")))) for _ in range(2))
    try:
        return _state(metadata, assignment)
    except WireError:  # a rebalance is under way: it has none
        return None


def _state(metadata: Reply, assignment: Reply) -> tuple[str, ConnectDuties]:
    """A worker's address and duties: what it held when it joined, less what it was to give up, and what it got.

    An incremental rebalance (KIP-415) assigns only what is new: after one that moves nothing each assignment is empty.
    """
    version, url, _ = metadata.number(">h"), metadata.text().rstrip("/"), metadata.number(">q")
    held = metadata.take(max(0, metadata.number(">i"))) if version else b""
    before = _allocation(Reply(held)).assigned if held else frozenset()
    now = _allocation(assignment)
    return url, _duties(before - now.revoked | now.assigned, leads=now.leader == url)


class _Allocation(NamedTuple):
    leader: str  # its address
    assigned: frozenset[_Duty]
    revoked: frozenset[_Duty]


def _allocation(reply: Reply) -> _Allocation:
    version, _ = reply.numbers(">hh")  # and the error
    reply.text()  # the leader's member id
    leader, _ = reply.text().rstrip("/"), reply.number(">q")
    assigned = _numbered(reply)
    return _Allocation(leader, assigned, _numbered(reply) if version else frozenset())


def _numbered(reply: Reply) -> frozenset[_Duty]:
    connectors = reply.array(lambda: (reply.text(), reply.array(lambda: reply.number(">i"))))
    return frozenset((name, number) for name, numbers in connectors for number in numbers)


def _duties(assigned: frozenset[_Duty], leads: bool) -> ConnectDuties:
    tasks = tuple(sorted(duty for duty in assigned if duty[1] != _CONNECTOR))
    connectors = tuple(sorted(name for name, number in assigned if number == _CONNECTOR))
    return ConnectDuties(leads=leads, connectors=connectors, tasks=tasks)
