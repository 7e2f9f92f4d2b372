"""What surrounds the brokers of a local cluster and can be hurt: links, power, disks, clocks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from clusters.links import NEED_A_NETWORK, LinkFaults
from clusters.local import clocks, disks
from clusters.local.network import Network
from clusters.options import KafkaOptions
from clusters.power_faults import PowerFaults
from harness.api import ClusterError, Fillable, Partitionable, Skewable

if TYPE_CHECKING:
    from clusters.local.provider import Local

OWN_DISK = "the brokers' data lies on this machine's own disk; give each a small one: disk_mb = 300 in [test.cluster]"

OWN_CLOCK = "brokers read this machine's clock; let theirs be set: skewable = true in [test.cluster]"
_TAIL = 1 << 16  # bytes of a log that are enough to find what was just said


class Surroundings(LinkFaults, PowerFaults):
    """`LinkFaults` (in namespaces), `Powered`, `Fillable` (with `disk_mb`), `Skewable` (with `skewable`)."""

    _options: Local
    _network: Network | None
    _disks: disks.Disks | None = None
    _clocks: clocks.Clocks | None = None

    def unavailable(self, capability: type) -> str | None:
        if not isinstance(self, capability):
            return f"a local cluster cannot do this: {capability.__name__}"
        if self._network is None and capability in NEED_A_NETWORK:
            return self._options.missing().get(capability, "the cluster was started outside its sandbox, on loopback")
        if capability is Fillable:
            return None if self._disks else OWN_DISK
        if capability is Skewable:
            return None if self._clocks else OWN_CLOCK
        anywhere = KafkaOptions.missing(self._options).get(capability)
        return anywhere or (self._links_lack(capability) if self._network else None) or self._lacks_power(capability)

    def _links(self) -> Network:
        if self._network is None:
            raise ClusterError(f"nothing can be done to the network: {self.unavailable(Partitionable)}")
        return self._network

    # ---- disks

    def _surround(self) -> None:
        """Make disks and clocks, before storage is formatted. Raises ClusterError where that cannot be done."""
        self._begins: dict[str, int] = {}
        if self._options.disk_mb:
            self._disks = disks.Disks((self._data / name for name in self._planned), self._options.disk_mb)
        if self._options.skewable:
            self._clocks = clocks.Clocks(self._run_dir / "logs", self._planned)

    def fill_disk(self, node: str) -> None:
        self._begins[node] = len(self._logged(node))
        self._small_disks().fill(self._a_server(node))

    def clear_disk(self, node: str) -> None:
        self._small_disks().clear(self._a_server(node))
        self._begins[node] = len(self._logged(node))

    def disk_free(self, node: str) -> int:
        return self._small_disks().free(self._a_server(node))

    def disk_complaint(self, node: str) -> str:
        said = self._logged(self._a_server(node))[self._begins.get(node, 0) :].splitlines()
        return next((line.strip()[:500] for line in said if disks.COMPLAINT in line), "")

    def _small_disks(self) -> disks.Disks:
        if self._disks is None:
            raise ClusterError(f"no disk can be filled: {OWN_DISK}")
        return self._disks

    # ---- clocks

    def skew(self, node: str, ahead_s: float) -> None:
        if self._clocks is None:
            raise ClusterError(f"no clock can be set: {OWN_CLOCK}")
        self._clocks.set([self._a_server(node)], ahead_s)

    def clock_ahead(self, node: str) -> float | None:
        if self.pid(self._a_server(node)) is None:
            return None
        return clocks.ahead(self._planned[node].front, lambda: self._last_words(node))

    def _last_words(self, node: str) -> str:
        with self._log(node).open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _TAIL))
            return log.read().decode(errors="replace")

    def _environment(self, node: str) -> dict[str, str]:
        return {**os.environ, **(self._clocks.environment(node) if self._clocks else {})}

    def _heal_surroundings(self) -> None:
        """Mend every link, give back every disk's room, set every clock right."""
        if self._network:
            self._network.undrop_all()
        for node in self._planned if self._disks else ():
            self.clear_disk(node)
        if self._clocks:
            self._clocks.set(self._planned, 0.0)
