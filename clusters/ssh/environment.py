"""What surrounds the brokers of a cluster on hosts: links, data, disks and clocks, all in the hands of the hosts' watchers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import structlog

from clusters.fault_tools import disks
from clusters.fault_tools.clocks import Clocks
from clusters.fault_tools.environment import Surroundings
from clusters.fault_tools.network_capabilities import NEED_A_NETWORK
from clusters.ssh.install import everywhere
from clusters.ssh.network import Network
from clusters.ssh.options import SshOptions
from clusters.ssh.remote.watcher import DATA
from clusters.ssh.watcher_client import Watch
from harness.api import ClusterError, Fillable, Skewable

log = structlog.get_logger()
T = TypeVar("T")


class HostDisks:
    """Disks that watchers mounted (`clusters.fault_tools.disks.Disks`)."""

    def __init__(self, at_home: Callable[[str, Callable[[Path], int | None]], int | None]) -> None:
        self._at_home = at_home

    def free(self, node: str) -> int:
        return self._at_home(node, disks.free) or 0

    def fill(self, node: str) -> None:
        self._at_home(node, disks.fill)

    def clear(self, node: str) -> None:
        self._at_home(node, disks.clear)


class HostClocks(Clocks):
    """Clocks that watchers set; what brokers need for that in their environment, watchers know."""

    def __init__(self, watches: Mapping[str, Watch]) -> None:
        self._watches = watches
        super().__init__("", Path(), watches)

    def _write(self, node: str) -> None:
        self._watches[node].ask("skew", ahead_s=self._ahead_s[node])


class HostSurroundings(Surroundings):
    """`Surroundings`; what some host turned out not to allow is unavailable, with its reason."""

    _options: SshOptions
    _watches: dict[str, Watch]
    _network: Network | None
    _addresses: dict[str, str]
    _closed: str  # why there are no network faults; empty when there are

    def _surround(self) -> None:
        """Find out what can be done to links; give disks and clocks, before storage is carried there. Watchers must serve."""
        self._lacking: dict[type, str] = {}
        self._network = Network(self._watches, self._addresses, self._options.port, lambda: self.clients)
        self._closed = self._network.trouble()
        if self._closed:
            self._lacking.update(dict.fromkeys(NEED_A_NETWORK, self._closed))
        if self._options.disk_mb and self._given(Fillable, "mount", size_mb=self._options.disk_mb):
            self._disks = HostDisks(self._at_home)
        if self._options.skewable and self._given(Skewable, "clockable"):
            self._clocks = HostClocks(self._watches)
        for capability, reason in self._lacking.items():
            log.warning("unavailable", what=capability.__name__, reason=reason)

    def _given(self, capability: type, do: str, **request: object) -> bool:
        """Have every watcher do something; whether all could. If not, the capability is lacking, with the reasons."""
        told = everywhere(lambda node: str(self._watches[node].ask(do, **request)["trouble"]), self._watches)
        reasons = [f"on {node}: {trouble}" for node, trouble in zip(self._watches, told, strict=True) if trouble]
        if reasons:
            self._lacking[capability] = "; ".join(reasons)
        return not reasons

    def unavailable(self, capability: type) -> str | None:
        if not isinstance(self, capability):
            lacking = f"a cluster on hosts reached by ssh cannot do this: {capability.__name__}"
            return self._options.missing().get(capability, lacking)
        known = self._lacking.get(capability) or self._options.missing().get(capability)
        return known or self._links_lack(capability) or self._lacks_power(capability)

    def _links(self) -> Network:
        if self._network is None or self._closed:
            raise ClusterError(f"nothing can be done to the network: {self._closed}")
        return self._network

    # ---- data

    def home(self, node: str) -> Path:
        return Path(self._watches[node].run, DATA)

    def _at_home(self, node: str, work: Callable[[Path], T]) -> T:
        told: T = self._watches[node].ask("work", name=work.__name__)["told"]  # pairs come as lists
        return told

    # ---- the log, which comes over with a delay

    def _logged(self, node: str) -> str:
        self._watches[node].fetch_log()
        return super()._logged(node)

    def _last_words(self, node: str) -> str:
        self._watches[node].fetch_log()
        return super()._last_words(node)

    def _heal_surroundings(self) -> None:
        if not self._closed:
            self._links().undrop_all()
        super()._heal_surroundings()
