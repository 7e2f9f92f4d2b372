"""The network of the hosts: packet rules, which the watchers make, and probes.

A fault between nodes applies to the traffic of their broker and controller listeners; a fault between clients and a broker to
that of its client listener, at its host, in either direction. No other traffic between the hosts or with this machine is touched.

All clients run on this machine, under one address: a broker's host cannot tell one from another. So a fault applies to the links
between a broker and all clients together, or to none.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from fencepost.clusters.fault_tools import remote_probes
from fencepost.clusters.fault_tools.link_table import LinkTable
from fencepost.clusters.fault_tools.probes import ProbeSeries
from fencepost.clusters.fault_tools.undo import undo_each
from fencepost.clusters.ssh.host_probes import CLIENTS, HostProbes
from fencepost.clusters.ssh.parallel import in_parallel
from fencepost.clusters.ssh.remote.host_rules import COUNT, DROP
from fencepost.clusters.ssh.watcher_client import WatcherClient
from fencepost.harness.api import ClusterError, PacketTimes, Pair

A = TypeVar("A")


class Network(LinkTable):
    """Nodes with a watcher and an address each. Safe to use from several threads.

    port: of the client listener on every node (the others follow).
    clients: returns the names of the clients spawned so far.
    """

    def __init__(
        self, watchers: Mapping[str, WatcherClient], addresses: Mapping[str, str], port: int, clients: Callable[[], Sequence[str]]
    ) -> None:
        super().__init__()
        self._watchers, self._addresses, self._port, self._clients = watchers, addresses, port, clients
        self._handles = itertools.count(1)
        self._unconfirmed: dict[int, str] = {}  # handle of rules that failed, and may be there in part -> their node
        self._dropped_clients: dict[Pair, set[Pair]] = {}  # clients' pairs that are dropped by one rule
        self._pairs_of: dict[int, list[Pair]] = {}  # the pairs of a loss or delay, by the number that `lose` or `slow` returned
        self._probes = HostProbes(watchers, addresses, port)
        self._missing: dict[str, str] | None = None

    # ---- trials

    def trouble(self) -> str:
        """The reason why packets cannot be dropped here, or rules would not match the right ones; empty when both work."""
        if rules_trouble := {node: watcher.rules_trouble for node, watcher in self._watchers.items() if watcher.rules_trouble}:
            return "; ".join(f"packet rules cannot be changed on {node}: {reason}" for node, reason in rules_trouble.items())
        in_parallel(self._probes.learn_own_address, self._watchers)
        nodes = list(self._watchers)
        pairs = [(a, b) for a in nodes for b in nodes if a != b]
        pairs += [pair for node in nodes for pair in ((CLIENTS, node), (node, CLIENTS))]
        if closed := remote_probes.closed_pairs(pairs, self.probe):
            return (
                f"datagrams do not arrive, or not under their sender's address: {closed}; the hosts and this machine must reach "
                f"each other without address translation, at UDP ports {self._port + 3} and {self._port + 4} too"
            )
        return ""

    def missing_capabilities(self) -> dict[str, str]:
        """Names of the capabilities that some node's links lack, found out by one trial, each with the reason."""
        with self._lock:
            if self._missing is None:
                reasons_of: dict[str, list[str]] = {}
                for node, missing in zip(self._watchers, in_parallel(self._missing_at, self._watchers), strict=True):
                    for name, reason in missing.items():
                        reasons_of.setdefault(name, []).append(f"on {node}: {reason}")
                self._missing = {name: "; ".join(reasons) for name, reasons in reasons_of.items()}
            return self._missing

    def _missing_at(self, node: str) -> dict[str, str]:
        return dict(self._watchers[node].ask("missing_capabilities")["missing_capabilities"])

    # ---- drops

    def drop(self, pairs: Iterable[Pair]) -> None:
        """See `DropTable.drop`. Raises ClusterError, with nothing dropped, for some but not all clients of a broker."""
        wanted = list(pairs)
        with self._lock:
            dropped = {
                group: self._dropped_clients.get(group, set()) | members
                for group, members in self._by_client_link(wanted).items()
            }
            for group, members in dropped.items():
                self._require_all_of(group, members)
            self._dropped_clients.update(dropped)
            super().drop(self._links(wanted))

    def undrop(self, pairs: Iterable[Pair]) -> None:
        """See `DropTable.undrop`; the rule of all clients is deleted with the last of them."""
        given = list(pairs)
        with self._lock:
            for group, members in self._by_client_link(given).items():
                self._dropped_clients[group] = self._dropped_clients.get(group, set()) - members
            super().undrop(pair for pair in self._links(given) if not self._dropped_clients.get(pair))

    def undrop_all(self) -> None:
        with self._lock:
            self._dropped_clients.clear()
            undo_each(lambda undo: undo(), [super().undrop_all, self._delete_unconfirmed])

    def _delete_unconfirmed(self) -> None:
        """Delete what is left of rules that failed."""

        def remove(handle: int) -> None:
            self._delete_rule(self._unconfirmed[handle], handle)
            del self._unconfirmed[handle]

        undo_each(remove, list(self._unconfirmed))

    def dropped_packets(self, pairs: Iterable[Pair]) -> dict[Pair, int]:
        wanted = list(pairs)
        return self._per_pair(wanted, super().dropped_packets(self._links(wanted)))

    # ---- loss and delay

    def lose(self, pairs: Iterable[Pair], share: float) -> int:
        """See `DropTable.lose`. Raises ClusterError, with nothing lost, for some but not all clients of a broker."""
        wanted = list(pairs)
        with self._lock:
            self._require_all_clients(wanted)
            number = super().lose(self._links(wanted), share)
            self._pairs_of[number] = wanted
            return number

    def unlose(self, number: int) -> dict[Pair, tuple[int, int]]:
        """See the base class; packets of all clients are counted together."""
        with self._lock:
            counted = super().unlose(number)
            return self._per_pair(self._pairs_of.pop(number, []), counted)

    def slow(self, pairs: Iterable[Pair], delay_ms: float = 0.0, jitter_ms: float = 0.0, kbit_s: float = 0.0) -> int:
        """See `LinkTable.slow`. Raises ClusterError, with nothing delayed, for some but not all clients of a broker."""
        wanted = list(pairs)
        with self._lock:
            self._require_all_clients(wanted)
            number = super().slow(self._links(wanted), delay_ms, jitter_ms, kbit_s)
            self._pairs_of[number] = wanted
            return number

    def unslow(self, number: int) -> dict[Pair, tuple[int, int]]:
        """See the base class; packets of all clients are counted together."""
        with self._lock:
            counted = super().unslow(number)
            return self._per_pair(self._pairs_of.pop(number, []), counted)

    # ---- all clients share a link

    def _links(self, pairs: Iterable[Pair]) -> list[Pair]:
        """The links of these pairs, each once."""
        return list(dict.fromkeys(map(self._link, pairs)))

    def _per_pair(self, pairs: Iterable[Pair], by_link: Mapping[Pair, A]) -> dict[Pair, A]:
        """The values of links, by the pairs that share them."""
        return {pair: by_link[self._link(pair)] for pair in pairs if self._link(pair) in by_link}

    def _link(self, pair: Pair) -> Pair:
        """The pair, with `CLIENTS` in the place of a client."""
        source, destination = (name if name in self._watchers else CLIENTS for name in pair)
        return source, destination

    def _by_client_link(self, pairs: Iterable[Pair]) -> dict[Pair, set[Pair]]:
        """The pairs of clients, by their link."""
        groups: dict[Pair, set[Pair]] = {}
        for pair in pairs:
            if CLIENTS in (shared := self._link(pair)):
                groups.setdefault(shared, set()).add(pair)
        return groups

    def _require_all_clients(self, pairs: Iterable[Pair]) -> None:
        for group, members in self._by_client_link(pairs).items():
            self._require_all_of(group, members)

    def _require_all_of(self, group: Pair, members: set[Pair]) -> None:
        if group == (CLIENTS, CLIENTS):
            raise ClusterError("nothing can be done between clients: they run on one machine")
        side = group.index(CLIENTS)
        named, all_clients = {pair[side] for pair in members}, set(self._clients())
        if unknown := sorted(named - all_clients):
            raise ClusterError(f"no node {', '.join(unknown)}; there are {', '.join([*self._watchers, *sorted(all_clients)])}")
        if all_clients - named:
            raise ClusterError(
                f"the link between {', '.join(sorted(named))} and {group[1 - side]} cannot be hurt alone: all clients run on "
                "this machine, and a host that is reached by ssh cannot tell one from another; faults that hurt all of them can "
                "be had (cut-clients; packet-loss and latency with a broker as target), and of one alone in local and docker"
            )

    # ---- the rules of a pair, which a watcher has under a number

    def _add_rule(self, source: str, destination: str, share: float = 1.0) -> int:
        handle = next(self._handles)
        node, matches = self._rule_node(source, destination), self._matches(source, destination)
        losing: list[dict[str, Any]] = [{"do": COUNT}, {"do": DROP, "share": share}] if share < 1 else [{"do": DROP}]
        self._unconfirmed[handle] = node
        self._watchers[node].ask("drop", name=str(handle), rules=[{**match, **action} for match in matches for action in losing])
        del self._unconfirmed[handle]
        return handle

    def _rule_node(self, source: str, destination: str) -> str:
        """The node whose watcher has the rules of a pair."""
        return source if destination == CLIENTS else destination

    def _matches(self, source: str, destination: str) -> list[dict[str, Any]]:
        """The matches for the packets of a pair, at the node that has its rules."""
        clients, brokers, controllers, nodes_probe, clients_probe = range(self._port, self._port + 5)
        if source == CLIENTS:
            ours = {"way": "in", "address": self._probes.own_address_at[destination][0], "side": "dport"}
            return [{**ours, **_span("tcp", clients)}, {**ours, **_span("udp", clients_probe)}]
        if destination == CLIENTS:
            ours = {"way": "out", "address": self._probes.own_address_at[source][0], "side": "sport"}
            return [{**ours, **_span("tcp", clients)}, {**ours, **_span("udp", clients_probe)}]
        theirs = {"way": "in", "address": self._addresses[source]}
        between = [{**theirs, "side": side, **_span("tcp", brokers, controllers)} for side in ("dport", "sport")]
        return [*between, {**theirs, "side": "dport", **_span("udp", nodes_probe)}]

    def _delete_rule(self, node: str, handle: int) -> None:
        self._watchers[node].ask("undrop", name=str(handle))

    def _counters(self, node: str) -> dict[int, tuple[int, int]]:
        counted = self._watchers[node].ask("count")["packets"]
        return {int(name): (seen, dropped) for name, (seen, dropped) in counted.items()}

    def _delay_at(self, source: str, destination: str, number: int, **how: float) -> None:
        matches = self._matches(source, destination)
        watcher = self._watchers[self._rule_node(source, destination)]
        watcher.ask("slow", number=number, address=self._source_address(source, destination), how=how, rules=matches)

    def _undelay_at(self, source: str, destination: str, number: int) -> tuple[int, int]:
        watcher = self._watchers[self._rule_node(source, destination)]
        seen, dropped = watcher.ask("unslow", number=number, address=self._source_address(source, destination))["counted"]
        return int(seen), int(dropped)

    def _source_address(self, source: str, destination: str) -> str:
        """The source address of packets of a pair, as the node that has its rules sees it."""
        return str(self._probes.own_address_at[destination][0]) if source == CLIENTS else self._addresses[source]

    # ---- probes

    def probe(self, pairs: Iterable[Pair]) -> dict[Pair, bool]:
        """Return for each pair whether a datagram sent now arrives; for all at once, within `probe_timeout_s`."""
        wanted = list(pairs)
        return self._per_pair(wanted, self._probes.probe(self._links(wanted), self.probe_timeout_s()))

    def measure(self, pairs: Iterable[Pair], packets: int, size: int = 64, within_s: float = 1.0) -> dict[Pair, PacketTimes]:
        """The time that each of some datagrams took, for all pairs at once (`harness.api.Measurable`).

        The link of all clients is measured once: with little bandwidth it has no room for a series of each.
        """
        wanted = list(pairs)
        return self._per_pair(wanted, self._probes.measure(ProbeSeries(self._links(wanted), packets, size), within_s))

    def close(self) -> None:
        self._probes.close()


def _span(protocol: str, first: int, last: int | None = None) -> dict[str, Any]:
    return {"protocol": protocol, "ports": [first, last or first]}
