"""Who can talk to whom: rules on the hosts, made by their watchers, and probes.

A cut between nodes drops the traffic of their brokers' and controllers' listeners; a cut between the clients and a broker drops
that of its clients' listener, on its host in either direction. Nothing else that the hosts say to each other or to us is touched.

All clients run on the harness's machine, under one address: a broker's host cannot tell one from another. So they are cut from
a broker all together, or not at all.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from clusters.packets import Drops
from clusters.ssh import probes
from clusters.ssh.install import everywhere
from clusters.ssh.remote import watcher
from clusters.ssh.watch import Watch
from harness.api import ClusterError, Pair

CLIENTS = "clients"  # stands for all of them in a pair


class Network(Drops):
    """Nodes with a watcher and an address each. Safe to use from several threads.

    port: of the clients' listener on every node (the others follow); clients: tells the names of those spawned so far.
    """

    def __init__(
        self, watches: Mapping[str, Watch], addresses: Mapping[str, str], port: int, clients: Callable[[], Sequence[str]]
    ) -> None:
        super().__init__()
        self._watches, self._addresses, self._port, self._clients = watches, addresses, port, clients
        self._names = {address: node for node, address in addresses.items()}
        self._given = itertools.count(1)
        self._where: dict[int, str] = {}  # handle of a rule -> the node whose watcher keeps it
        self._held: dict[Pair, set[Pair]] = {}  # clients' pairs that are dropped by one rule
        self._ours, self._listening = watcher.Lane("", 0), threading.Lock()
        self._seen_as: dict[str, list[Any]] = {}  # node -> our address and port, as it sees them

    # ---- before anything is cut

    def trouble(self) -> str:
        """Why packets cannot be dropped here, or would not be those that we mean; empty when all is well."""
        if unable := {node: watch.unable for node, watch in self._watches.items() if watch.unable}:
            return "; ".join(f"packet rules cannot be changed on {node}: {reason}" for node, reason in unable.items())
        everywhere(self._greet, self._watches)
        nodes = list(self._watches)
        pairs = [(a, b) for a in nodes for b in nodes if a != b]
        pairs += [pair for node in nodes for pair in ((CLIENTS, node), (node, CLIENTS))]
        if shut := probes.closed(pairs, self.probe):
            return (
                f"datagrams do not arrive, or not under their sender's address: {shut}; the hosts and this machine must reach "
                f"each other without address translation, at UDP ports {self._port + 3} and {self._port + 4} too"
            )
        return ""

    def _greet(self, node: str) -> None:
        """Learn as whom the node sees us."""

        def send(_source: str, destinations: Sequence[str]) -> None:
            self._send_ours("hello", destinations)

        def heard(destination: str) -> list[str]:
            found = self._watches[destination].ask("heard", lane=watcher.CLIENTS, probe="hello")["from"]
            self._seen_as.update({destination: found[-1]} if found else {})
            return [CLIENTS] if found else []

        probes.probed([(CLIENTS, node)], send, heard)

    # ---- cutting

    def drop(self, pairs: Iterable[Pair]) -> None:
        """As everywhere. Raises ClusterError, with nothing dropped, when some clients but not all are to be cut from a broker."""
        wanted = list(pairs)
        with self._lock:
            held = {group: self._held.get(group, set()) | members for group, members in self._grouped(wanted).items()}
            for group, members in held.items():
                self._require_all(group, members)
            self._held.update(held)
            super().drop(dict.fromkeys(map(self._shared, wanted)))

    def undrop(self, pairs: Iterable[Pair]) -> None:
        """As everywhere; clients talk to a broker again when the last of them may."""
        given = list(pairs)
        with self._lock:
            for group, members in self._grouped(given).items():
                self._held[group] = self._held.get(group, set()) - members
            super().undrop(pair for pair in dict.fromkeys(map(self._shared, given)) if not self._held.get(pair))

    def undrop_all(self) -> None:
        with self._lock:
            self._held.clear()
            super().undrop_all()

    def dropped_packets(self, pairs: Iterable[Pair]) -> dict[Pair, int]:
        wanted = list(pairs)
        counted = super().dropped_packets(dict.fromkeys(map(self._shared, wanted)))
        return {pair: counted[self._shared(pair)] for pair in wanted}

    def _shared(self, pair: Pair) -> Pair:
        """The pair with `clients` in the place of any one of them."""
        source, destination = (name if name in self._watches else CLIENTS for name in pair)
        return source, destination

    def _grouped(self, pairs: Iterable[Pair]) -> dict[Pair, set[Pair]]:
        """The pairs of clients, by the pair that stands for them."""
        groups: dict[Pair, set[Pair]] = {}
        for pair in pairs:
            if CLIENTS in (shared := self._shared(pair)):
                groups.setdefault(shared, set()).add(pair)
        return groups

    def _require_all(self, group: Pair, members: set[Pair]) -> None:
        if group == (CLIENTS, CLIENTS):
            raise ClusterError("nothing can be cut between clients: they run on one machine")
        place = group.index(CLIENTS)
        named, everybody = {pair[place] for pair in members}, set(self._clients())
        if unknown := sorted(named - everybody):
            raise ClusterError(f"no node {', '.join(unknown)}; there are {', '.join([*self._watches, *sorted(everybody)])}")
        if everybody - named:
            raise ClusterError(
                f"{', '.join(sorted(named))} cannot be cut from {group[1 - place]} alone: all clients run on this machine, and "
                "a host that is reached by ssh cannot tell one from another; cut-clients cuts them all, and local and docker "
                "can cut single ones"
            )

    # ---- one rule per pair, kept by a watcher under a number

    def _add_rule(self, source: str, destination: str, share: float = 1.0) -> int:
        handle = next(self._given)
        node = source if destination == CLIENTS else destination
        self._watches[node].ask("drop", name=str(handle), rules=self._rules_of(source, destination))
        self._where[handle] = node
        return handle

    def _rules_of(self, source: str, destination: str) -> list[dict[str, Any]]:
        clients, brokers, controllers, nodes_probe, clients_probe = range(self._port, self._port + 5)
        if source == CLIENTS:
            ours = {"way": "in", "address": self._seen_as[destination][0], "side": "dport"}
            return [{**ours, **_span("tcp", clients)}, {**ours, **_span("udp", clients_probe)}]
        if destination == CLIENTS:
            ours = {"way": "out", "address": self._seen_as[source][0], "side": "sport"}
            return [{**ours, **_span("tcp", clients)}, {**ours, **_span("udp", clients_probe)}]
        theirs = {"way": "in", "address": self._addresses[source]}
        between = [{**theirs, "side": side, **_span("tcp", brokers, controllers)} for side in ("dport", "sport")]
        return [*between, {**theirs, "side": "dport", **_span("udp", nodes_probe)}]

    def _delete_rule(self, destination: str, handle: int) -> None:
        self._watches[self._where[handle]].ask("undrop", name=str(handle))

    def _counters(self, destination: str) -> dict[int, tuple[int, int]]:
        nodes = list(self._watches) if destination == CLIENTS else [destination]
        counted = everywhere(self._packets_at, nodes)
        return {handle: (packets, packets) for one in counted for handle, packets in one.items()}

    def _packets_at(self, node: str) -> dict[int, int]:
        return {int(name): packets for name, packets in self._watches[node].ask("count")["packets"].items()}

    # ---- probes

    def probe(self, pairs: Iterable[Pair]) -> dict[Pair, bool]:
        """Whether a datagram sent now arrives, for all pairs at once; about a quarter of a second when one does not."""
        wanted = list(pairs)
        with self._lock:
            word = f"probe-{next(self._given)}"
        arrived = probes.probed(
            map(self._shared, wanted), lambda a, b: self._send(word, a, b), lambda node: self._heard(word, node)
        )
        return {pair: arrived[self._shared(pair)] for pair in wanted}

    def _send(self, word: str, source: str, destinations: Sequence[str]) -> None:
        if source == CLIENTS:
            self._send_ours(word, destinations)
            return
        nodes = [[self._addresses[one], self._port + 3] for one in destinations if one != CLIENTS]
        ours = [self._seen_as[source]] if CLIENTS in destinations and source in self._seen_as else []
        for lane, to in ((watcher.NODES, nodes), (watcher.CLIENTS, ours)):
            if to:
                self._watches[source].ask("send", lane=lane, probe=word, to=to)

    def _send_ours(self, word: str, destinations: Sequence[str]) -> None:
        here = ["127.0.0.1", self._ours.socket.getsockname()[1]]
        self._ours.send(word, [here if node == CLIENTS else [self._addresses[node], self._port + 4] for node in destinations])

    def _heard(self, word: str, destination: str) -> list[str]:
        if destination == CLIENTS:
            with self._listening:
                return self._named(self._ours.heard(word))
        watch = self._watches[destination]
        nodes, ours = (watch.ask("heard", lane=lane, probe=word)["from"] for lane in (watcher.NODES, watcher.CLIENTS))
        return self._named(nodes) + [CLIENTS for _ in ours]

    def _named(self, sources: Iterable[list[Any]]) -> list[str]:
        return [CLIENTS if address == "127.0.0.1" else self._names.get(address, "") for address, _ in sources]

    def close(self) -> None:
        self._ours.socket.close()


def _span(protocol: str, first: int, last: int | None = None) -> dict[str, Any]:
    return {"protocol": protocol, "ports": [first, last or first]}
