"""What surrounds the brokers of a local cluster: the sandbox's network, disks and clocks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from clusters.links import NEED_A_NETWORK
from clusters.local import clocks, disks
from clusters.local.network import Network
from clusters.options import SurroundedOptions
from clusters.surroundings import Surroundings
from harness.api import ClusterError, Partitionable

if TYPE_CHECKING:
    from clusters.local.provider import Local


class LocalSurroundings(Surroundings):
    """`Surroundings`; links in namespaces only."""

    _options: Local
    _network: Network | None
    _mounted: disks.Mounted | None = None

    def unavailable(self, capability: type) -> str | None:
        if not isinstance(self, capability):
            return f"a local cluster cannot do this: {capability.__name__}"
        if self._network is None and capability in NEED_A_NETWORK:
            return self._options.missing().get(capability, "the cluster was started outside its sandbox, on loopback")
        anywhere = SurroundedOptions.missing(self._options).get(capability)
        return anywhere or (self._links_lack(capability) if self._network else None) or self._lacks_power(capability)

    def _links(self) -> Network:
        if self._network is None:
            raise ClusterError(f"nothing can be done to the network: {self.unavailable(Partitionable)}")
        return self._network

    def _surround(self) -> None:
        """Make disks and clocks, before storage is formatted. Raises ClusterError where that cannot be done."""
        if self._options.disk_mb:
            self._disks = self._mounted = disks.Mounted((self._data / name for name in self._planned), self._options.disk_mb)
        if self._options.skewable:
            self._clocks = clocks.made(self._run_dir / "logs", self._planned)

    def _environment(self, node: str) -> dict[str, str]:
        return {**os.environ, **(self._clocks.environment(node) if self._clocks else {})}
