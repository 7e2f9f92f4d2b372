"""Who does what among Connect's workers: their group's assignment, as its coordinator has it (KIP-415).

Layouts: `ConnectProtocol` and `IncrementalCooperativeConnectProtocol` of Kafka Connect inside DescribeGroups.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from clusters.kafka.protocol import Address, Reply, WireError, ask, string
from clusters.kafka.roles import WireRoles
from harness.api import ClusterError, ConnectDuties

_DESCRIBE_GROUPS, _ASK_S = 15, 2.0
_CONNECTOR = -1  # in place of a task's number


def duties(roles: WireRoles, group: str) -> Mapping[str, ConnectDuties]:
    """The duties of each worker by the address of its REST interface (`http://host:port`). Raises ClusterError."""
    node = roles.group_coordinator(group)
    try:
        return _described(roles.brokers[node], group)
    except OSError as error:
        raise ClusterError(f"the workers of {group} are not known: {error}") from error


def _described(address: Address, group: str) -> dict[str, ConnectDuties]:
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
        metadata.number(">h")
        url = metadata.text().rstrip("/")
        return url, _duties(assignment, url)
    except WireError:  # a rebalance is under way: it has none
        return None


def _duties(reply: Reply, url: str) -> ConnectDuties:
    reply.numbers(">hh"), reply.text()  # version, error, the leader's member id
    leader = reply.text().rstrip("/")
    reply.number(">q")
    assigned = reply.array(lambda: (reply.text(), reply.array(lambda: reply.number(">i"))))
    tasks = tuple((connector, task) for connector, numbers in assigned for task in numbers if task != _CONNECTOR)
    connectors = tuple(connector for connector, numbers in assigned if _CONNECTOR in numbers)
    return ConnectDuties(leads=leader == url, connectors=connectors, tasks=tasks)
