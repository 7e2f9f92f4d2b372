"""Probes between hosts, sent and received by their watchers, and between hosts and the harness, where the clients are."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fencepost.clusters.fault_tools import remote_probes
from fencepost.clusters.fault_tools.probes import PROBE_S, ProbePorts, ProbeSeries, ReceivedProbe
from fencepost.clusters.ssh.parallel import in_parallel
from fencepost.clusters.ssh.remote import watcher
from fencepost.clusters.ssh.watcher_client import WatcherClient
from fencepost.harness.api import PacketTimes, Pair

CLIENTS = "clients"  # stands for all clients in a pair
_CLOCK_ROUND_TRIPS = 5


class HostProbes:
    """Probes between nodes with a watcher each, and `CLIENTS`, which run on this machine.

    Safe to use from several threads.

    port: of the clients' listener on every node; watchers use the fourth and the fifth from there.
    own_address_at: node -> our address and port, as the node sees them (after `learn_own_address`).
    """

    def __init__(self, watchers: Mapping[str, WatcherClient], addresses: Mapping[str, str], port: int) -> None:
        self._watchers, self._addresses, self._port = watchers, addresses, port
        self._own_ports, self._own_lock = ProbePorts(("", 0)), threading.Lock()
        self.own_address_at: dict[str, list[Any]] = {}

    def learn_own_address(self, node: str) -> None:
        """Find out under which address the node sees this machine."""

        def probe_time(_pair: Pair, entry: ReceivedProbe) -> float:
            _, _, time_ms, *self.own_address_at[node] = entry
            return time_ms

        series = ProbeSeries([(CLIENTS, node)], packets=2)
        remote_probes.run_series(series, PROBE_S, self._sender(series), self._receiver(series), probe_time)

    def probe(self, pairs: Iterable[Pair], within_s: float) -> dict[Pair, bool]:
        """Return for each pair whether a datagram sent now arrives; for all at once, within `within_s`."""
        return self._run(ProbeSeries(pairs, packets=2), within_s, {}).arrived()

    def measure(self, series: ProbeSeries, within_s: float) -> dict[Pair, PacketTimes]:
        """The time of each datagram. Hosts' clocks are compared over ssh, which no fault slows.

        So times are exact to half of the fastest of five round trips.
        """
        nodes = [node for node in self._watchers if any(node in pair for pair in series.pairs)]
        return self._run(series, within_s, dict(zip(nodes, in_parallel(self._ahead_ms, nodes), strict=True))).times

    def _ahead_ms(self, node: str) -> float:
        """The milliseconds by which a node's monotonic clock, which times its probes, is ahead of ours."""

        def round_trip() -> tuple[int, float]:
            sent_ns = time.monotonic_ns()
            their_ns = self._watchers[node].ask("clock")["ns"]
            answered_ns = time.monotonic_ns()
            return answered_ns - sent_ns, their_ns - (sent_ns + answered_ns) / 2

        return min(round_trip() for _ in range(_CLOCK_ROUND_TRIPS))[1] / 1e6

    def _run(self, series: ProbeSeries, within_s: float, ahead_ms: Mapping[str, float]) -> ProbeSeries:
        def probe_time(pair: Pair, entry: ReceivedProbe) -> float | None:
            (source, destination), (_, _, time_ms, address, _) = pair, entry
            if source != CLIENTS and address != self._addresses[source]:
                return None  # masqueraded: no rule would match it
            return max(0.0, time_ms - ahead_ms.get(destination, 0.0) + ahead_ms.get(source, 0.0))

        return remote_probes.run_series(series, within_s, self._sender(series), self._receiver(series), probe_time)

    def _sender(self, series: ProbeSeries) -> remote_probes.Send:
        what = {"series": series.name, "packets": series.packets, "size": series.size}

        def send(source: str, to: Mapping[int, str]) -> None:
            if source == CLIENTS:
                self._send_own(to, series)
                return
            nodes = {link: [self._addresses[node], self._port + 3] for link, node in to.items() if node != CLIENTS}
            ours = {
                link: self.own_address_at[source]
                for link, node in to.items()
                if node == CLIENTS and source in self.own_address_at
            }
            for by, reached in ((watcher.NODES, nodes), (watcher.CLIENTS, ours)):
                if reached:
                    self._watchers[source].ask("send", by=by, to=reached, **what)

        return send

    def _send_own(self, to: Mapping[int, str], series: ProbeSeries) -> None:
        here = ["127.0.0.1", self._own_ports.sockets[0].getsockname()[1]]
        reached = {link: here if node == CLIENTS else [self._addresses[node], self._port + 4] for link, node in to.items()}
        with self._own_lock:
            self._own_ports.send(series.name, reached, series.packets, series.size)

    def _receiver(self, series: ProbeSeries) -> remote_probes.Receive:
        def receive(destination: str, known: int) -> Sequence[Any]:
            if destination == CLIENTS:
                with self._own_lock:
                    return self._own_ports.received(series.name, known)
            received: list[Any] = self._watchers[destination].ask("received", series=series.name, known=known)["received"]
            return received

        return receive

    def close(self) -> None:
        self._own_ports.close()
