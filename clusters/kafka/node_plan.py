"""The nodes of a cluster and their listeners: a pure plan, apart from asking the kernel for free ports."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cache
from ipaddress import IPv4Address
from itertools import cycle, islice
from random import Random

from fencepost.clusters.kafka.broker_config import BROKER, CLIENT, CONTROLLER, PlannedNode
from fencepost.harness.api import SECOND, TopicSpec

_NETWORK = IPv4Address("10.73.0.0")
HUB = str(_NETWORK + 1)
# Third byte of the address; clients may need more than one.
_BROKERS, _CONTROLLERS, _CLIENTS, _SERVICES, _SECOND = 1, 2, 3, 100, 200
_FIRST_CONTROLLER, _FIRST_OF_SECOND = 101, 201
_CANDIDATES, _TRIES = range(15_000, 32_000), 200  # the kernel takes outgoing connections' ports from 32,768 on
_PORTS = {CLIENT: 9092, BROKER: 9093, CONTROLLER: 9094}
_BEHIND = 10_000  # between the port of a proxy and that of its broker

Listen = Callable[[int, int], tuple[str, Mapping[str, int]]]  # (kind, number) -> host, port of each listener


def private(kind: int, number: int) -> tuple[str, Mapping[str, int]]:
    """An address of its own in the sandbox's network, and the usual ports."""
    return _address(kind, number), _PORTS


def loopback(_kind: int, _number: int) -> tuple[str, Mapping[str, int]]:
    """The loopback address, and free ports, below those from which the kernel takes outgoing connections' own: until the broker
    has bound its port, any connection of this machine might have got it.
    """
    with ExitStack() as stack:
        sockets = {listener: stack.enter_context(socket.socket()) for listener in _PORTS}
        for s in sockets.values():
            _bind(s)
        return "127.0.0.1", {listener: int(s.getsockname()[1]) for listener, s in sockets.items()}


def _bind(unbound: socket.socket) -> None:
    """Bind a socket to a free port of the loopback address."""
    for port in islice(_candidates(), _TRIES):
        with suppress(OSError):
            unbound.bind(("127.0.0.1", port))
            return
    unbound.bind(("127.0.0.1", 0))


@cache
def _candidates() -> Iterator[int]:
    """Ports in a random order of this process, so that two nodes never get the same one."""
    return cycle(Random().sample(_CANDIDATES, len(_CANDIDATES)))


def nodes(brokers: int, controllers: int, listen: Listen, second_brokers: int = 0) -> list[PlannedNode]:
    """n1, n2, ... and, when separate controllers are wanted, k1, k2, ...; without them every broker is a controller too.

    s1, s2, ... are a second Kafka cluster: brokers that are its controllers too.
    """
    roles = ("broker",) if controllers else ("broker", "controller")
    planned = [_node(f"n{i}", i, roles, *listen(_BROKERS, i)) for i in range(1, brokers + 1)]
    for i in range(controllers):
        planned.append(_node(f"k{i + 1}", _FIRST_CONTROLLER + i, ("controller",), *listen(_CONTROLLERS, i + 1)))
    second = [
        _node(f"s{i + 1}", _FIRST_OF_SECOND + i, ("broker", "controller"), *listen(_SECOND, i + 1)) for i in range(second_brokers)
    ]
    return planned + [replace(node, cluster=SECOND) for node in second]


def behind_proxies(
    planned: Iterable[PlannedNode], listen: Listen, before: Collection[str] = (CLIENT, BROKER)
) -> list[PlannedNode]:
    """The nodes with a proxy at the address of some listeners; they listen at other ports themselves.

    before: these listeners, as far as a node has them. Before that of the controllers' quorum no proxy can stand.
    """
    if listen is private:
        ports = {name: port + _BEHIND for name, port in _PORTS.items()}
        return [_behind(node, ports, before) for node in planned]
    return [_behind(node, listen(0, 0)[1], before) for node in planned]


def _behind(node: PlannedNode, ports: Mapping[str, int], before: Collection[str]) -> PlannedNode:
    return replace(node, behind={name: (host, ports[name]) for name, (host, _) in node.listeners.items() if name in before})


def client_address(number: int) -> str:
    """The address of the client spawned as the `number`-th (1, 2, ...)."""
    return _address(_CLIENTS, number)


def service_address(number: int) -> str:
    """The address of the `number`-th (1, 2, ...) declared service."""
    return _address(_SERVICES, number)


def fitted(spec: TopicSpec, brokers: int) -> TopicSpec:
    """The topic for a small cluster: no more replicas, and no more required in-sync replicas, than there are brokers."""
    settings = dict(spec.settings)
    if int(settings.get("min.insync.replicas", 0)) > brokers:
        settings["min.insync.replicas"] = str(brokers)
    return replace(spec, replication=min(spec.replication, brokers), settings=settings)


def _node(name: str, number: int, roles: tuple[str, ...], host: str, ports: Mapping[str, int]) -> PlannedNode:
    wanted = (CLIENT, BROKER, CONTROLLER) if len(roles) == 2 else (CLIENT, BROKER) if "broker" in roles else (CONTROLLER,)
    return PlannedNode(name, number, roles, {listener: (host, ports[listener]) for listener in wanted})


def _address(kind: int, number: int) -> str:
    return str(_NETWORK + (kind << 8) + number)
