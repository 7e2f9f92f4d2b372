"""The proxies before the brokers that a provider runs: one for each, where the broker is, at the broker's advertised address."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog

from fencepost.clusters.kafka.broker_config import PlannedNode
from fencepost.clusters.kafka.interception import Interceptor
from fencepost.clusters.kafka.protocol import Address
from fencepost.harness.api import CampaignError, ClusterError
from fencepost.harness.api.beneath import make_folder
from fencepost.harness.api.run import RunFile
from fencepost.harness.proxy.control import Control
from fencepost.harness.proxy.process import SPAN, Broker, Settings

LOOK_S = 0.5  # between two looks whether a proxy has ended
MOST_STARTS = 5  # of a broker's proxy
CONTROL_PORT = 8474  # at the broker's own address
HEAP_MB = 192
log = structlog.get_logger()


class RunningProxy(Protocol):
    """A proxy that was started (`harness.proxy.process.ProxyProcess`)."""

    control: Control

    def is_alive(self) -> bool:
        """True until it has ended."""

    def end(self) -> None:
        """End it."""


Launch = Callable[[PlannedNode, Settings], RunningProxy]


class Watch:
    """Looks again and again, in a thread, whether a proxy has ended, and has it started again."""

    def __init__(self, restart_ended: Callable[[], object]) -> None:
        self._restart_ended = restart_ended
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Look from now on; nothing when it does already."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, daemon=True, name="proxies")
            self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._over.set()

    def _look(self) -> None:
        problem = ""
        while not self._over.wait(LOOK_S):
            try:
                self._restart_ended()
            except ClusterError as error:
                if str(error) != problem:
                    log.warning("proxy has ended", why=str(error))
                problem = str(error)


@dataclass
class _Placed:
    node: PlannedNode
    control_port: int
    running: RunningProxy
    started: int = 1  # how often


class BrokerProxies:
    """The proxies, as long as the cluster lives. Links that faults cut lie before them, as they lie before the brokers.

    interceptor: gets their controls.
    launch: starts one. It raises ClusterError, or CampaignError when the proxy refuses its settings.
    """

    def __init__(self, run_dir: Path, interceptor: Interceptor, launch: Launch) -> None:
        self._run_dir, self._interceptor, self._launch = run_dir, interceptor, launch
        self._placed: dict[str, _Placed] = {}
        self._lock = threading.Lock()
        self._watch = Watch(self.restart_ended)

    def start(self, node: PlannedNode, control_port: int = CONTROL_PORT) -> None:
        """Start the proxy of a broker. control_port: 0 for any that is free. Raises ClusterError."""
        make_folder(self._run_dir, RunFile.WIRE_LINES)
        self._placed[node.name] = _Placed(node, control_port, self._launched(node, self._settings(node, control_port, 1)))
        self._interceptor.controls[node.name] = self._placed[node.name].running.control
        self._watch.begin()

    def restart_ended(self) -> None:
        """Put another proxy in the place of each that has ended by itself: without one its broker cannot be reached.

        Raises ClusterError.
        """
        with self._lock:
            for placed in self._placed.values():
                if not placed.running.is_alive():
                    self._restart(placed)

    def _restart(self, placed: _Placed) -> None:
        if placed.started == MOST_STARTS:
            raise ClusterError(
                f"the proxy of {placed.node.name} has ended {MOST_STARTS} times: proxy.log beside the broker's log"
            )
        placed.started += 1
        placed.running = self._launched(placed.node, self._settings(placed.node, placed.control_port, placed.started))
        self._interceptor.replace(placed.node.name, placed.running.control)
        log.warning("proxy had ended", node=placed.node.name, now="started again")

    def close(self) -> None:
        """End all of them."""
        self._watch.end()
        with self._lock, ExitStack() as steps:
            for placed in self._placed.values():
                steps.callback(placed.running.end)

    def _launched(self, node: PlannedNode, settings: Settings) -> RunningProxy:
        try:
            return self._launch(node, settings)
        except CampaignError as error:  # an address that is in use
            raise ClusterError(f"the proxy of {node.name} does not start: {'; '.join(error.mistakes)}") from error

    def _settings(self, node: PlannedNode, control_port: int, time: int) -> Settings:
        """The settings of a broker's proxy when it is started for the n-th time: each time has a file of the record."""
        return Settings(
            brokers=[
                Broker(upstream=_text(upstream), listen=_text(node.listeners[name]), node=node.name)
                for name, upstream in node.behind.items()
            ],
            control=f"{node.address[0]}:{control_port}",
            record=self._run_dir / RunFile.WIRE_LINES,
            node=node.name if time == 1 else f"{node.name}-{time}",
            first=(time - 1) * SPAN,
        )


def _text(address: Address) -> str:
    return "{}:{}".format(*address)
