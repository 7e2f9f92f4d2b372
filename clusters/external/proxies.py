"""A proxy on this machine before the brokers of an external cluster: it replaces their addresses in answers by its own."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from fencepost.harness.api import CampaignError, ClusterError
from fencepost.harness.api.beneath import log_file, make_folder
from fencepost.harness.api.run import RunFile
from fencepost.harness.proxy import jars
from fencepost.harness.proxy.process import SPAN, Broker, ProxyProcess, Settings

PASSED = ("plaintext", "sasl_plaintext")  # security protocols that a proxy can read
NO_TLS = "the proxy reads no TLS: {protocol}; leave out `proxy`, or give the clients a listener with one of {passed}"


def refusal(settings: Mapping[str, object]) -> str:
    """The reason why no proxy can stand before brokers with these client settings; empty when one can."""
    protocol = str(settings.get("security.protocol", "plaintext")).lower()
    return "" if protocol in PASSED else NO_TLS.format(protocol=protocol, passed=", ".join(PASSED))


class ExternalProxy:
    """One process with a listener for each broker, as long as the cluster is used."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir, self._ends = run_dir, ExitStack()
        self._running: ProxyProcess | None = None
        self._starts, self._lock = 0, threading.Lock()

    def start(self, nodes: Mapping[str, str]) -> ProxyProcess:
        """Start it. nodes: broker -> HOST:PORT. Raises ClusterError."""
        return self._start([Broker(upstream=address, node=node) for node, address in nodes.items()])

    def restarted(self) -> ProxyProcess | None:
        """Another one in the place of one that has ended by itself, at the same addresses. Raises ClusterError."""
        with self._lock:
            if self._running is None or self._running.is_alive():
                return None
            return self._start([Broker(**broker) for broker in self._running.brokers])

    def _start(self, brokers: Sequence[Broker]) -> ProxyProcess:
        make_folder(self._run_dir, RunFile.WIRE_LINES)
        make_folder(self._run_dir, RunFile.LOGS)
        self._starts += 1
        settings = Settings(
            brokers=brokers,
            rewrite=True,
            record=self._run_dir / RunFile.WIRE_LINES,
            node="proxy" if self._starts == 1 else f"proxy-{self._starts}",
            first=(self._starts - 1) * SPAN,
        )
        with log_file(self._run_dir, f"{RunFile.LOGS}/proxy.log") as log:
            try:
                self._running = self._ends.enter_context(ProxyProcess(settings, jars.classpath(), log))
            except CampaignError as error:
                raise ClusterError(f"the proxy does not start: {'; '.join(error.mistakes)}") from error
        return self._running

    def close(self) -> None:
        """End it."""
        with self._lock:
            self._running = None
            self._ends.close()
