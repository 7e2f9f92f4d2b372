"""Datagrams between nodes, sent and heard by their watchers, and between them and us."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clusters.fault_tools import remote_probes
from clusters.fault_tools.probes import PROBE_S, Heard, Ports, Train
from clusters.ssh.install import everywhere
from clusters.ssh.remote import watcher
from clusters.ssh.watcher_client import Watch
from harness.api import PacketTimes, Pair

CLIENTS = "clients"  # stands for all of them in a pair
_CLOCK_LOOKS = 5


class Probes:
    """Nodes with a watcher and an address each, and `CLIENTS`, who are here.

    port: of the clients' listener on every node; watchers use the fourth and the fifth from there. seen_as: node -> our
    address and port, as it sees them (after `greet`). Safe to use from several threads.
    """

    def __init__(self, watches: Mapping[str, Watch], addresses: Mapping[str, str], port: int) -> None:
        self._watches, self._addresses, self._port = watches, addresses, port
        self._ours, self._listening = Ports(("", 0)), threading.Lock()
        self.seen_as: dict[str, list[Any]] = {}

    def greet(self, node: str) -> None:
        """Learn as whom the node sees us."""

        def took(_pair: Pair, entry: Heard) -> float:
            _, _, took_ms, *self.seen_as[node] = entry
            return took_ms

        train = Train([(CLIENTS, node)], packets=2)
        remote_probes.ride(train, PROBE_S, self._sender(train), self._hearer(train), took)

    def probe(self, pairs: Iterable[Pair], within_s: float) -> dict[Pair, bool]:
        """Whether a datagram sent now arrives, for all pairs at once; when one does not, after `within_s`."""
        return self._ride(Train(pairs, packets=2), within_s, {}).arrived()

    def measure(self, train: Train, within_s: float) -> dict[Pair, PacketTimes]:
        """How long each datagram took. Clocks of hosts are compared over ssh, which no fault of ours makes slow.

        So times are known to half of the fastest of five round trips.
        """
        nodes = [node for node in self._watches if any(node in pair for pair in train.pairs)]
        return self._ride(train, within_s, dict(zip(nodes, everywhere(self._ahead_ms, nodes), strict=True))).took

    def _ahead_ms(self, node: str) -> float:
        """How far the clock of a node that probes tell the time by is ahead of ours."""

        def looked() -> tuple[int, float]:
            asked_ns = time.monotonic_ns()
            told_ns = self._watches[node].ask("clock")["ns"]
            answered_ns = time.monotonic_ns()
            return answered_ns - asked_ns, told_ns - (asked_ns + answered_ns) / 2

        return min(looked() for _ in range(_CLOCK_LOOKS))[1] / 1e6

    def _ride(self, train: Train, within_s: float, ahead_ms: Mapping[str, float]) -> Train:
        def took(pair: Pair, entry: Heard) -> float | None:
            (source, destination), (_, _, took_ms, address, _) = pair, entry
            if source != CLIENTS and address != self._addresses[source]:
                return None  # masqueraded: no rule would hit it
            return max(0.0, took_ms - ahead_ms.get(destination, 0.0) + ahead_ms.get(source, 0.0))

        return remote_probes.ride(train, within_s, self._sender(train), self._hearer(train), took)

    def _sender(self, train: Train) -> remote_probes.Send:
        what = {"train": train.name, "packets": train.packets, "size": train.size}

        def send(source: str, to: Mapping[int, str]) -> None:
            if source == CLIENTS:
                self._send_ours(to, train)
                return
            nodes = {link: [self._addresses[one], self._port + 3] for link, one in to.items() if one != CLIENTS}
            ours = {link: self.seen_as[source] for link, one in to.items() if one == CLIENTS and source in self.seen_as}
            for by, reached in ((watcher.NODES, nodes), (watcher.CLIENTS, ours)):
                if reached:
                    self._watches[source].ask("send", by=by, to=reached, **what)

        return send

    def _send_ours(self, to: Mapping[int, str], train: Train) -> None:
        here = ["127.0.0.1", self._ours.sockets[0].getsockname()[1]]
        reached = {link: here if node == CLIENTS else [self._addresses[node], self._port + 4] for link, node in to.items()}
        with self._listening:
            self._ours.send(train.name, reached, train.packets, train.size)

    def _hearer(self, train: Train) -> remote_probes.Hear:
        def hear(destination: str, beyond: int) -> Sequence[Any]:
            if destination == CLIENTS:
                with self._listening:
                    return self._ours.heard(train.name, beyond)
            heard: list[Any] = self._watches[destination].ask("heard", train=train.name, beyond=beyond)["heard"]
            return heard

        return hear

    def close(self) -> None:
        self._ours.close()
