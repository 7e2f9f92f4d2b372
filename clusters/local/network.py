"""The private network of a sandbox: a bridge, and one namespace per node.

Pure netlink (rtnetlink(7)), no external programs. A node's namespace lives as long as our file descriptor of it, so
nothing has to be mounted or cleaned. The harness itself runs in the hub, the sandbox's own namespace.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TypeVar

from pyroute2 import IPRoute

from fencepost.clusters.fault_tools import packet_rules
from fencepost.clusters.fault_tools.link_table import LinkTable
from fencepost.clusters.fault_tools.namespace_delays import NamespaceDelays, missing_capabilities
from fencepost.clusters.fault_tools.probes import POLL_S, ProbeSeries
from fencepost.clusters.fault_tools.remote_probes import closed_pairs
from fencepost.clusters.kafka.node_plan import HUB
from fencepost.clusters.local import disks
from fencepost.harness.api import ClusterError, Fillable, PacketTimes, Pair

_PREFIX = 16
_BRIDGE, _INTERFACE = "fencepost", "eth0"
_CLONE_NEWNET = 0x40000000
_LINK_S = 10.0

T = TypeVar("T")
_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


@contextmanager
def _own_namespace() -> Iterator[None]:
    """Return this thread to its present namespace after the block."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        _checked(_libc.setns(home, _CLONE_NEWNET), "return to the hub's network namespace")
        os.close(home)


class Network(LinkTable):
    """Nodes with an address and a namespace each. Safe to use from several threads."""

    def __init__(self) -> None:
        super().__init__()
        self._namespaces: dict[str, int] = {}
        self._addresses: dict[str, str] = {}
        self._delay_processes: dict[str, NamespaceDelays] = {}
        with IPRoute() as links:
            links.link("set", index=links.link_lookup(ifname="lo")[0], state="up")
            links.link("add", ifname=_BRIDGE, kind="bridge")
            self._bridge = links.link_lookup(ifname=_BRIDGE)[0]
            links.addr("add", index=self._bridge, address=HUB, prefixlen=_PREFIX)
            links.link("set", index=self._bridge, state="up")

    def __contains__(self, node: str) -> bool:
        return node in self._namespaces

    def close(self) -> None:
        """Remove the bridge and every node; a namespace goes when no process is left in it."""
        with self._lock, IPRoute() as links:
            for node, namespace in self._namespaces.items():
                links.link("del", index=links.link_lookup(ifname=_bridge_port(node))[0])
                os.close(namespace)
            links.link("del", index=self._bridge)
            for process in self._delay_processes.values():
                process.close()
            for table in (
                self._namespaces,
                self._delay_processes,
                self._rules,
                self._loss_rules,
                self._delayed,
                self._longest_delay_s,
            ):
                table.clear()

    def add(self, node: str, address: str) -> None:
        """Give `node` a namespace with `address`, joined to the bridge and reachable, dropping nothing. Raises ClusterError."""
        with self._lock:
            with _own_namespace():
                _checked(_libc.unshare(_CLONE_NEWNET), "make a network namespace")
                namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            with IPRoute() as links:
                port = _bridge_port(node)
                links.link("add", ifname=port, kind="veth", peer={"ifname": _INTERFACE, "net_ns_fd": namespace})
                links.link("set", index=links.link_lookup(ifname=port)[0], master=self._bridge, state="up")
            self._namespaces[node], self._addresses[node] = namespace, address
            with self.inside(node):
                _configure(address)
            self._await(node)

    def _await(self, node: str) -> None:
        """Wait until a datagram from the hub arrives: the kernel reports a new link as up a little early."""
        deadline = time.monotonic() + _LINK_S
        with self._socket(node) as receiver, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            receiver.settimeout(0.02)
            while time.monotonic() < deadline:
                sender.sendto(b"fencepost", receiver.getsockname())
                with suppress(TimeoutError):
                    receiver.recv(64)
                    return
        raise ClusterError(f"no datagram reached {node} ({self._addresses[node]}) from {HUB} within {_LINK_S:.0f} s")

    @contextmanager
    def inside(self, node: str) -> Iterator[None]:
        """Put this thread (and what it starts) into `node`'s namespace for the length of the block."""
        if node not in self._namespaces:
            raise ClusterError(f"no node {node} in the network; there are {', '.join(self._namespaces)}")
        with _own_namespace():
            _checked(_libc.setns(self._namespaces[node], _CLONE_NEWNET), f"enter the network namespace of {node}")
            yield

    def run(self, node: str, call: Callable[[], T]) -> T:
        """The result of `call`, made inside `node`'s namespace."""
        with self.inside(node):
            return call()

    def probe(self, pairs: Iterable[Pair]) -> dict[Pair, bool]:
        """Return for each pair whether a datagram sent now arrives; for all at once, within `probe_timeout_s`."""
        return self._send(ProbeSeries(pairs, packets=2), self.probe_timeout_s()).arrived()

    def measure(self, pairs: Iterable[Pair], packets: int, size: int = 64, within_s: float = 1.0) -> dict[Pair, PacketTimes]:
        """The time that each of some datagrams took, for all pairs at once (`harness.api.Measurable`)."""
        return self._send(ProbeSeries(pairs, packets, size), within_s).times

    def _send(self, series: ProbeSeries, within_s: float) -> ProbeSeries:
        with ExitStack() as sockets:
            receivers = {d: sockets.enter_context(self._socket(d)) for d in {d for _, d in series.pairs}}
            senders = {s: sockets.enter_context(self._socket(s)) for s in {s for s, _ in series.pairs}}
            for number in range(series.packets):
                for source, destination in series.pairs:
                    datagram = series.datagram(number, (source, destination))
                    senders[source].sendto(datagram, receivers[destination].getsockname())
                series.collect(receivers.values())
            deadline = time.monotonic() + within_s
            while not series.complete():
                over = time.monotonic() > deadline  # read before the last collection, which may be late
                series.collect(receivers.values())
                if over:
                    break
                select.select(list(receivers.values()), [], [], POLL_S)
            return series

    def _socket(self, node: str) -> socket.socket:
        with self.inside(node):
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            made.bind((self._addresses[node], 0))
            made.setblocking(False)
            return made

    def missing_capabilities(self) -> dict[str, str]:
        """Names of the capabilities that it lacks, found out by a trial, each with the reason."""
        with self._lock:  # a trial makes rules
            return self.run(next(iter(self._namespaces)), missing_capabilities)

    def _address(self, node: str) -> str:
        if node not in self._addresses:
            raise ClusterError(f"no node {node} in the network; there are {', '.join(self._addresses)}")
        return self._addresses[node]

    def _add_rule(self, source: str, destination: str, share: float = 1.0) -> int:
        address = self._address(source)
        return self.run(destination, lambda: packet_rules.add_rule(address, share))

    def _delay_at(self, source: str, destination: str, number: int, **how: float) -> None:
        with self.inside(destination):
            if destination not in self._delay_processes:
                self._delay_processes[destination] = NamespaceDelays()
            self._delay_processes[destination].slow(number, self._address(source), **how)

    def _undelay_at(self, source: str, destination: str, number: int) -> tuple[int, int]:
        with self.inside(destination):
            return self._delay_processes[destination].unslow(number, self._address(source))

    def _delete_rule(self, node: str, handle: int) -> None:
        self.run(node, lambda: packet_rules.delete_rule(handle))

    def _counters(self, node: str) -> dict[int, tuple[int, int]]:
        return self.run(node, packet_rules.counters)


def _bridge_port(node: str) -> str:
    """The name of the bridge's end of a node's veth pair."""
    return f"v{node}"


def _configure(address: str) -> None:
    """Bring up this namespace's interfaces and an empty input chain that accepts."""
    with IPRoute() as links:
        index = links.link_lookup(ifname=_INTERFACE)[0]
        links.link("set", index=links.link_lookup(ifname="lo")[0], state="up")
        links.addr("add", index=index, address=address, prefixlen=_PREFIX)
        links.link("set", index=index, state="up")
    packet_rules.open_chain()


def _trial() -> None:
    """Drop one direction between two nodes, and heal it. Raises when this machine cannot; prints the capabilities it lacks."""
    network = Network()
    network.add("n1", "10.73.1.1")
    network.add("n2", "10.73.1.2")
    network.drop([("n1", "n2")])
    if network.probe([("n1", "n2")])["n1", "n2"] or closed_pairs([("n2", "n1")], network.probe):
        raise OSError("a packet rule had no effect, or one on the way back")
    network.undrop_all()
    no_disk = disks.trouble()
    print(json.dumps({**network.missing_capabilities(), **({Fillable.__name__: no_disk} if no_disk else {})}))  # noqa: T201


if __name__ == "__main__":
    _trial()
