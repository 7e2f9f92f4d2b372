"""Who can talk to whom: rules on the hosts, made by their watchers, and probes.

A fault between nodes hurts the traffic of their brokers' and controllers' listeners; one between the clients and a broker hurts
that of its clients' listener, on its host in either direction. Nothing else that the hosts say to each other or to us is touched.

All clients run on the harness's machine, under one address: a broker's host cannot tell one from another. So the links between a
broker and the clients are hurt all together, or not at all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from clusters.fault_tools import remote_probes
from clusters.fault_tools.delays import Slows
from clusters.fault_tools.probes import Train
from clusters.fault_tools.undo import one_by_one
from clusters.ssh.host_probes import CLIENTS, Probes
from clusters.ssh.install import everywhere
from clusters.ssh.remote.host_rules import COUNT, DROP
from clusters.ssh.watcher_client import Watch
from harness.api import ClusterError, PacketTimes, Pair

A = TypeVar("A")


class Network(Slows):
    """Nodes with a watcher and an address each. Safe to use from several threads.

    port: of the clients' listener on every node (the others follow); clients: tells the names of those spawned so far.
    """

    def __init__(
        self, watches: Mapping[str, Watch], addresses: Mapping[str, str], port: int, clients: Callable[[], Sequence[str]]
    ) -> None:
        super().__init__()
        self._watches, self._addresses, self._port, self._clients = watches, addresses, port, clients
        self._given = itertools.count(1)
        self._astray: dict[int, str] = {}  # handle of rules that could not be made, and may be there in part -> their keeper
        self._held: dict[Pair, set[Pair]] = {}  # clients' pairs that are dropped by one rule
        self._meant: dict[int, list[Pair]] = {}  # the pairs that are lossy or slow, by the number that `lose` or `slow` gave
        self._probes = Probes(watches, addresses, port)
        self._lacking: dict[str, str] | None = None

    # ---- before anything is cut

    def trouble(self) -> str:
        """Why packets cannot be dropped here, or would not be those that we mean; empty when all is well."""
        if unable := {node: watch.unable for node, watch in self._watches.items() if watch.unable}:
            return "; ".join(f"packet rules cannot be changed on {node}: {reason}" for node, reason in unable.items())
        everywhere(self._probes.greet, self._watches)
        nodes = list(self._watches)
        pairs = [(a, b) for a in nodes for b in nodes if a != b]
        pairs += [pair for node in nodes for pair in ((CLIENTS, node), (node, CLIENTS))]
        if shut := remote_probes.closed(pairs, self.probe):
            return (
                f"datagrams do not arrive, or not under their sender's address: {shut}; the hosts and this machine must reach "
                f"each other without address translation, at UDP ports {self._port + 3} and {self._port + 4} too"
            )
        return ""

    def lacks(self) -> dict[str, str]:
        """Names of capabilities that some node's links have not, found out by trying once, each with the reason."""
        with self._lock:
            if self._lacking is None:
                found: dict[str, list[str]] = {}
                for node, lacks in zip(self._watches, everywhere(self._lacks_at, self._watches), strict=True):
                    for name, reason in lacks.items():
                        found.setdefault(name, []).append(f"on {node}: {reason}")
                self._lacking = {name: "; ".join(reasons) for name, reasons in found.items()}
            return self._lacking

    def _lacks_at(self, node: str) -> dict[str, str]:
        return dict(self._watches[node].ask("lacks")["lacks"])

    # ---- cutting

    def drop(self, pairs: Iterable[Pair]) -> None:
        """As everywhere. Raises ClusterError, with nothing dropped, when some clients but not all are to be cut from a broker."""
        wanted = list(pairs)
        with self._lock:
            held = {group: self._held.get(group, set()) | members for group, members in self._grouped(wanted).items()}
            for group, members in held.items():
                self._require_all(group, members)
            self._held.update(held)
            super().drop(self._of(wanted))

    def undrop(self, pairs: Iterable[Pair]) -> None:
        """As everywhere; clients talk to a broker again when the last of them may."""
        given = list(pairs)
        with self._lock:
            for group, members in self._grouped(given).items():
                self._held[group] = self._held.get(group, set()) - members
            super().undrop(pair for pair in self._of(given) if not self._held.get(pair))

    def undrop_all(self) -> None:
        with self._lock:
            self._held.clear()
            one_by_one(lambda end: end(), [super().undrop_all, self._call_back])

    def _call_back(self) -> None:
        """Remove what is left of rules that could not be made."""

        def remove(handle: int) -> None:
            self._delete_rule(self._astray[handle], handle)
            del self._astray[handle]

        one_by_one(remove, list(self._astray))

    def dropped_packets(self, pairs: Iterable[Pair]) -> dict[Pair, int]:
        wanted = list(pairs)
        return self._told(wanted, super().dropped_packets(self._of(wanted)))

    # ---- loss and delay

    def lose(self, pairs: Iterable[Pair], share: float) -> int:
        """As everywhere. Raises ClusterError, with nothing lost, when some clients but not all are meant."""
        wanted = list(pairs)
        with self._lock:
            self._require_whole(wanted)
            number = super().lose(self._of(wanted), share)
            self._meant[number] = wanted
            return number

    def unlose(self, number: int) -> dict[Pair, tuple[int, int]]:
        """As everywhere; packets of clients are counted together."""
        with self._lock:
            counted = super().unlose(number)
            return self._told(self._meant.pop(number, []), counted)

    def slow(self, pairs: Iterable[Pair], delay_ms: float = 0.0, jitter_ms: float = 0.0, kbit_s: float = 0.0) -> int:
        """As everywhere. Raises ClusterError, with nothing held back, when some clients but not all are meant."""
        wanted = list(pairs)
        with self._lock:
            self._require_whole(wanted)
            number = super().slow(self._of(wanted), delay_ms, jitter_ms, kbit_s)
            self._meant[number] = wanted
            return number

    def unslow(self, number: int) -> dict[Pair, tuple[int, int]]:
        """As everywhere; packets of clients are counted together."""
        with self._lock:
            counted = super().unslow(number)
            return self._told(self._meant.pop(number, []), counted)

    # ---- clients stand together

    def _of(self, pairs: Iterable[Pair]) -> list[Pair]:
        """The links that these pairs share, each once."""
        return list(dict.fromkeys(map(self._shared, pairs)))

    def _told(self, pairs: Iterable[Pair], by_link: Mapping[Pair, A]) -> dict[Pair, A]:
        """What is known of links, told for the pairs that share them."""
        return {pair: by_link[self._shared(pair)] for pair in pairs if self._shared(pair) in by_link}

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

    def _require_whole(self, pairs: Iterable[Pair]) -> None:
        for group, members in self._grouped(pairs).items():
            self._require_all(group, members)

    def _require_all(self, group: Pair, members: set[Pair]) -> None:
        if group == (CLIENTS, CLIENTS):
            raise ClusterError("nothing can be done between clients: they run on one machine")
        place = group.index(CLIENTS)
        named, everybody = {pair[place] for pair in members}, set(self._clients())
        if unknown := sorted(named - everybody):
            raise ClusterError(f"no node {', '.join(unknown)}; there are {', '.join([*self._watches, *sorted(everybody)])}")
        if everybody - named:
            raise ClusterError(
                f"the link between {', '.join(sorted(named))} and {group[1 - place]} cannot be hurt alone: all clients run on "
                "this machine, and a host that is reached by ssh cannot tell one from another; faults that hurt all of them can "
                "be had (cut-clients; lossy and slow with a broker as target), and of one alone in local and docker"
            )

    # ---- rules of a pair, kept by a watcher under a number

    def _add_rule(self, source: str, destination: str, share: float = 1.0) -> int:
        handle = next(self._given)
        node, matches = self._keeper(source, destination), self._matches(source, destination)
        losing: list[dict[str, Any]] = [{"do": COUNT}, {"do": DROP, "share": share}] if share < 1 else [{"do": DROP}]
        self._astray[handle] = node
        self._watches[node].ask("drop", name=str(handle), rules=[{**match, **deed} for match in matches for deed in losing])
        del self._astray[handle]
        return handle

    def _keeper(self, source: str, destination: str) -> str:
        """The node whose watcher keeps the rules of a pair."""
        return source if destination == CLIENTS else destination

    def _matches(self, source: str, destination: str) -> list[dict[str, Any]]:
        """What packets of a pair look like, at its keeper."""
        clients, brokers, controllers, nodes_probe, clients_probe = range(self._port, self._port + 5)
        if source == CLIENTS:
            ours = {"way": "in", "address": self._probes.seen_as[destination][0], "side": "dport"}
            return [{**ours, **_span("tcp", clients)}, {**ours, **_span("udp", clients_probe)}]
        if destination == CLIENTS:
            ours = {"way": "out", "address": self._probes.seen_as[source][0], "side": "sport"}
            return [{**ours, **_span("tcp", clients)}, {**ours, **_span("udp", clients_probe)}]
        theirs = {"way": "in", "address": self._addresses[source]}
        between = [{**theirs, "side": side, **_span("tcp", brokers, controllers)} for side in ("dport", "sport")]
        return [*between, {**theirs, "side": "dport", **_span("udp", nodes_probe)}]

    def _delete_rule(self, keeper: str, handle: int) -> None:
        self._watches[keeper].ask("undrop", name=str(handle))

    def _counters(self, keeper: str) -> dict[int, tuple[int, int]]:
        counted = self._watches[keeper].ask("count")["packets"]
        return {int(name): (seen, dropped) for name, (seen, dropped) in counted.items()}

    def _slow_at(self, source: str, destination: str, number: int, **how: float) -> None:
        matches = self._matches(source, destination)
        keeper = self._watches[self._keeper(source, destination)]
        keeper.ask("slow", number=number, address=self._writes_as(source, destination), how=how, rules=matches)

    def _unslow_at(self, source: str, destination: str, number: int) -> tuple[int, int]:
        keeper = self._watches[self._keeper(source, destination)]
        seen, dropped = keeper.ask("unslow", number=number, address=self._writes_as(source, destination))["counted"]
        return int(seen), int(dropped)

    def _writes_as(self, source: str, destination: str) -> str:
        """The address that packets of a pair come from, in the eyes of its keeper."""
        return str(self._probes.seen_as[destination][0]) if source == CLIENTS else self._addresses[source]

    # ---- probes

    def probe(self, pairs: Iterable[Pair]) -> dict[Pair, bool]:
        """Whether a datagram sent now arrives, for all pairs at once; if not, after 0.25 s and what slow links take."""
        wanted = list(pairs)
        return self._told(wanted, self._probes.probe(self._of(wanted), self.patience_s()))

    def measure(self, pairs: Iterable[Pair], packets: int, size: int = 64, within_s: float = 1.0) -> dict[Pair, PacketTimes]:
        """How long each of some datagrams took, for all pairs at once (`harness.api.Measurable`).

        A link that clients share is measured once: a narrow one has no room for a train of each of them.
        """
        wanted = list(pairs)
        return self._told(wanted, self._probes.measure(Train(self._of(wanted), packets, size), within_s))

    def close(self) -> None:
        self._probes.close()


def _span(protocol: str, first: int, last: int | None = None) -> dict[str, Any]:
    return {"protocol": protocol, "ports": [first, last or first]}
