"""The private network of a sandbox: a bridge, one namespace per node, and nftables rules that drop packets.

Pure netlink (rtnetlink(7), nftables), no external programs. A node's namespace lives as long as the file descriptor we
hold on it, so nothing has to be mounted or cleaned. The harness itself sits in the hub, the sandbox's own namespace.
"""

from __future__ import annotations

import ctypes
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TypeVar

from pyroute2 import IPRoute
from pyroute2.nftables.expressions import genex, ipv4addr, verdict
from pyroute2.nftables.main import NFTables

from clusters.local.plan import HUB
from harness.api import ClusterError, Pair

_PREFIX = 16
_BRIDGE, _INTERFACE = "fencepost", "eth0"
_TABLE, _CHAIN = "fencepost", "in"
_CLONE_NEWNET = 0x40000000
_NFPROTO_IPV4, _ACCEPT, _DROP = 2, 1, 0
_PROBE_S = 0.25
_LINK_S = 10.0

T = TypeVar("T")
_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


@contextmanager
def _home() -> Iterator[None]:
    """Whatever namespace the block moves this thread to, bring it back."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        _checked(_libc.setns(home, _CLONE_NEWNET), "return to the hub's network namespace")
        os.close(home)


class Network:
    """Nodes with an address and a namespace each. Safe to use from several threads."""

    def __init__(self) -> None:
        self._namespaces: dict[str, int] = {}
        self._addresses: dict[str, str] = {}
        self._rules: dict[Pair, int] = {}  # handles of what is dropped now
        self._counted: dict[Pair, int] = {}  # packets of what was dropped before
        self._lock = threading.RLock()
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
                links.link("del", index=links.link_lookup(ifname=_port(node))[0])
                os.close(namespace)
            links.link("del", index=self._bridge)
            self._namespaces.clear()
            self._rules.clear()

    def add(self, node: str, address: str) -> None:
        """Give `node` a namespace with `address`, joined to the bridge and reachable, dropping nothing. Raises ClusterError."""
        with self._lock:
            with _home():
                _checked(_libc.unshare(_CLONE_NEWNET), "make a network namespace")
                namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            with IPRoute() as links:
                port = _port(node)
                links.link("add", ifname=port, kind="veth", peer={"ifname": _INTERFACE, "net_ns_fd": namespace})
                links.link("set", index=links.link_lookup(ifname=port)[0], master=self._bridge, state="up")
            self._namespaces[node], self._addresses[node] = namespace, address
            with self.inside(node):
                _configure(address)
            self._await(node)

    def _await(self, node: str) -> None:
        """Wait until a datagram from the hub arrives: the kernel raises a new link a little later than it says."""
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
        """This thread (and what it starts) is in `node`'s namespace for the length of the block."""
        if node not in self._namespaces:
            raise ClusterError(f"no node {node} in the network; there are {', '.join(self._namespaces)}")
        with _home():
            _checked(_libc.setns(self._namespaces[node], _CLONE_NEWNET), f"enter the network namespace of {node}")
            yield

    def run(self, node: str, call: Callable[[], T]) -> T:
        """The result of `call`, made inside `node`'s namespace."""
        with self.inside(node):
            return call()

    def drop(self, pairs: Iterable[Pair]) -> None:
        """Drop packets of each (source, destination) on arrival at the destination; counts from zero."""
        with self._lock:
            for pair in pairs:
                if pair not in self._rules:
                    self._rules[pair] = self._add_rule(*pair)
                    self._counted.pop(pair, None)

    def undrop(self, pairs: Iterable[Pair]) -> None:
        """Let each pair talk again; its count is kept."""
        with self._lock:
            mine = [pair for pair in pairs if pair in self._rules]
            self._counted.update(self.dropped_packets(mine))
            for pair in mine:
                with self.inside(pair[1]), NFTables(nfgen_family=_NFPROTO_IPV4) as tables:
                    tables.rule("del", table=_TABLE, chain=_CHAIN, handle=self._rules.pop(pair))

    def undrop_all(self) -> None:
        with self._lock:
            self.undrop(list(self._rules))

    def dropped_packets(self, pairs: Iterable[Pair]) -> dict[Pair, int]:
        """Packets dropped for each pair since it was last dropped; 0 for a pair that never was."""
        with self._lock:
            wanted = list(pairs)
            live = {destination: self._counters(destination) for _, destination in set(wanted) & set(self._rules)}
            now = {pair: live[pair[1]][handle] for pair, handle in self._rules.items() if pair[1] in live}
            return {pair: now.get(pair, self._counted.get(pair, 0)) for pair in wanted}

    def probe(self, pairs: Iterable[Pair]) -> dict[Pair, bool]:
        """Whether a datagram sent now arrives, for all pairs at once; at most a quarter of a second."""
        wanted = list(dict.fromkeys(pairs))
        with ExitStack() as sockets:
            receivers = {d: sockets.enter_context(self._socket(d)) for d in {d for _, d in wanted}}
            senders = {s: sockets.enter_context(self._socket(s)) for s in {s for s, _ in wanted}}
            for _ in range(2):
                for source, destination in wanted:
                    senders[source].sendto(b"fencepost", receivers[destination].getsockname())
            return _collect(wanted, receivers, {senders[s].getsockname(): s for s in senders})

    def _socket(self, node: str) -> socket.socket:
        with self.inside(node):
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            made.bind((self._addresses[node], 0))
            return made

    def _add_rule(self, source: str, destination: str) -> int:
        if source not in self._addresses:
            raise ClusterError(f"no node {source} in the network; there are {', '.join(self._addresses)}")
        matches = (ipv4addr(src=self._addresses[source]), [genex("counter", {"bytes": 0, "packets": 0})], verdict(_DROP))
        with self.inside(destination), NFTables(nfgen_family=_NFPROTO_IPV4) as tables:
            before = {rule.get_attr("NFTA_RULE_HANDLE") for rule in _rules(tables)}
            tables.rule("add", table=_TABLE, chain=_CHAIN, expressions=matches)
            (handle,) = {int(rule.get_attr("NFTA_RULE_HANDLE")) for rule in _rules(tables)} - before
            return handle

    def _counters(self, node: str) -> dict[int, int]:
        """Packets counted by each rule (by handle) in `node`'s namespace."""
        with self.inside(node), NFTables(nfgen_family=_NFPROTO_IPV4) as tables:
            return {int(rule.get_attr("NFTA_RULE_HANDLE")): _packets(rule) for rule in _rules(tables)}


def _port(node: str) -> str:
    """The bridge's end of a node's cable."""
    return f"v{node}"


def _configure(address: str) -> None:
    """Bring up this namespace's interfaces and an empty input chain that accepts."""
    with IPRoute() as links:
        index = links.link_lookup(ifname=_INTERFACE)[0]
        links.link("set", index=links.link_lookup(ifname="lo")[0], state="up")
        links.addr("add", index=index, address=address, prefixlen=_PREFIX)
        links.link("set", index=index, state="up")
    with NFTables(nfgen_family=_NFPROTO_IPV4) as tables:
        tables.table("add", name=_TABLE)
        tables.chain("add", table=_TABLE, name=_CHAIN, hook="input", type="filter", policy=_ACCEPT)


def _rules(tables: NFTables) -> list[NFTables]:
    return [rule for rule in tables.get_rules() if rule.get_attr("NFTA_RULE_TABLE") == _TABLE]


def _packets(rule: NFTables) -> int:
    for expression in rule.get_attr("NFTA_RULE_EXPRESSIONS"):
        if expression.get_attr("NFTA_EXPR_NAME") == "counter":
            return int(expression.get_attr("NFTA_EXPR_DATA").get_attr("NFTA_COUNTER_PACKETS"))
    raise LookupError("a rule without counter in the table fencepost")


def _collect(wanted: list[Pair], receivers: dict[str, socket.socket], senders: dict[tuple[str, int], str]) -> dict[Pair, bool]:
    """Read every receiver until all pairs are seen or the time is over."""
    arrived: set[Pair] = set()
    deadline = time.monotonic() + _PROBE_S
    over = False
    while len(arrived) < len(wanted) and not over:
        over = time.monotonic() > deadline  # noticed before the last look, however long we were kept from it
        for destination, receiver in receivers.items():
            receiver.setblocking(False)
            while True:
                try:
                    _, sender = receiver.recvfrom(64)
                except BlockingIOError:
                    break
                arrived.add((senders[sender], destination))
        time.sleep(0.002)
    return {pair: pair in arrived for pair in wanted}


def _trial() -> None:
    """Two nodes, one direction cut, counted and healed: raises when this machine cannot."""
    network = Network()
    network.add("n1", "10.73.1.1")
    network.add("n2", "10.73.1.2")
    network.drop([("n1", "n2")])
    if network.probe([("n1", "n2"), ("n2", "n1")]) != {("n1", "n2"): False, ("n2", "n1"): True}:
        raise OSError("a packet rule had no effect")
    network.undrop_all()


if __name__ == "__main__":
    _trial()
