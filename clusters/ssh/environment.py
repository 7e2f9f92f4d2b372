"""The environment of brokers on hosts: links, data, disks and clocks, all changed by the hosts' watchers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import structlog

from fencepost.clusters.fault_tools import disks
from fencepost.clusters.fault_tools.clocks import Clocks
from fencepost.clusters.fault_tools.environment import BrokerEnvironment
from fencepost.clusters.fault_tools.network_capabilities import NETWORK_CAPABILITIES
from fencepost.clusters.ssh.network import Network
from fencepost.clusters.ssh.options import SshOptions
from fencepost.clusters.ssh.parallel import in_parallel
from fencepost.clusters.ssh.remote.watcher import DATA
from fencepost.clusters.ssh.watcher_client import WatcherClient
from fencepost.harness.api import ClusterError, Fillable, Skewable

log = structlog.get_logger()
T = TypeVar("T")


class HostDisks:
    """Disks that watchers mounted (`clusters.fault_tools.disks.NodeDisks`)."""

    def __init__(self, run_on_data: Callable[[str, Callable[[Path], int | None]], int | None]) -> None:
        self._run_on_data = run_on_data

    def free(self, node: str) -> int:
        return self._run_on_data(node, disks.free) or 0

    def fill(self, node: str) -> None:
        self._run_on_data(node, disks.fill)

    def clear(self, node: str) -> None:
        self._run_on_data(node, disks.clear)


class HostClocks(Clocks):
    """Clocks that watchers set; the watchers also add the variables for it to the brokers' environment."""

    def __init__(self, watchers: Mapping[str, WatcherClient]) -> None:
        self._watchers = watchers
        super().__init__("", Path(), watchers)

    def _write(self, node: str) -> None:
        self._watchers[node].ask("skew", ahead_s=self._ahead_s[node])


class HostEnvironment(BrokerEnvironment):
    """`BrokerEnvironment`; a capability that some host does not allow is unavailable, with the reason."""

    _options: SshOptions
    _watchers: dict[str, WatcherClient]
    _network: Network | None
    _addresses: dict[str, str]
    _network_trouble: str  # why there are no network faults; empty when there are

    def _prepare_environment(self) -> None:
        """Try the links, and make disks and clocks, before storage is copied to the hosts. Watchers must serve."""
        self._lacking: dict[type, str] = {}
        self._network = Network(self._watchers, self._addresses, self._options.port, lambda: self.clients)
        self._network_trouble = self._network.trouble()
        if self._network_trouble:
            self._lacking.update(dict.fromkeys(NETWORK_CAPABILITIES, self._network_trouble))
        if self._options.disk_mb and self._enable(Fillable, "mount", size_mb=self._options.disk_mb):
            self._disks = HostDisks(self._run_on_data)
        if self._options.skewable and self._enable(Skewable, "prepare_clock"):
            self._clocks = HostClocks(self._watchers)
        for capability, reason in self._lacking.items():
            log.warning("unavailable", what=capability.__name__, reason=reason)

    def _enable(self, capability: type, do: str, **request: object) -> bool:
        """Have every watcher prepare a capability; whether all could. If not, it is unavailable, with the reasons."""
        troubles = in_parallel(lambda node: str(self._watchers[node].ask(do, **request)["trouble"]), self._watchers)
        reasons = [f"on {node}: {trouble}" for node, trouble in zip(self._watchers, troubles, strict=True) if trouble]
        if reasons:
            self._lacking[capability] = "; ".join(reasons)
        return not reasons

    def unavailable(self, capability: type) -> str | None:
        if not isinstance(self, capability):
            lacking = f"a cluster on hosts reached by ssh cannot do this: {capability.__name__}"
            return self._options.missing().get(capability, lacking)
        known = self._lacking.get(capability) or self._options.missing().get(capability)
        return known or self._missing_in_network(capability) or self._missing_power_failure(capability)

    def _usable_network(self) -> Network:
        if self._network is None or self._network_trouble:
            raise ClusterError(f"nothing can be done to the network: {self._network_trouble}")
        return self._network

    # ---- data

    def data_directory(self, node: str) -> Path:
        return Path(self._watchers[node].run, DATA)

    def _run_on_data(self, node: str, function: Callable[[Path], T]) -> T:
        return self._watchers[node].run_on_data(function)

    # ---- the log, which is fetched with a delay

    def _log_text(self, node: str) -> str:
        self._watchers[node].fetch_log()
        return super()._log_text(node)

    def _log_end(self, node: str) -> str:
        self._watchers[node].fetch_log()
        return super()._log_end(node)

    def _heal_environment(self) -> None:
        if not self._network_trouble:
            self._usable_network().undrop_all()
        super()._heal_environment()
