"""What surrounds the brokers of a local cluster and can be hurt: links, power, disks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusters.links import NEED_A_NETWORK, LinkFaults
from clusters.local import disks
from clusters.local.network import Network
from clusters.options import KafkaOptions
from clusters.power_faults import PowerFaults
from harness.api import ClusterError, Fillable, Partitionable

if TYPE_CHECKING:
    from clusters.local.provider import Local

OWN_DISK = "the brokers' data lies on this machine's own disk; give each a small one: disk_mb = 300 in [test.cluster]"


class Surroundings(LinkFaults, PowerFaults):
    """`LinkFaults` (in namespaces), `Powered`, `Fillable` (with `disk_mb`)."""

    _options: Local
    _network: Network | None
    _disks: disks.Disks | None = None

    def unavailable(self, capability: type) -> str | None:
        if not isinstance(self, capability):
            return f"a local cluster cannot do this: {capability.__name__}"
        if self._network is None and capability in NEED_A_NETWORK:
            return self._options.missing().get(capability, "the cluster was started outside its sandbox, on loopback")
        if capability is Fillable:
            return None if self._disks else OWN_DISK
        anywhere = KafkaOptions.missing(self._options).get(capability)
        return anywhere or (self._links_lack(capability) if self._network else None) or self._lacks_power(capability)

    def _links(self) -> Network:
        if self._network is None:
            raise ClusterError(f"nothing can be done to the network: {self.unavailable(Partitionable)}")
        return self._network

    # ---- disks

    def _make_disks(self) -> None:
        """Before storage is formatted. Raises ClusterError where none can be mounted."""
        self._begins: dict[str, int] = {}
        if self._options.disk_mb:
            self._disks = disks.Disks((self._data / name for name in self._planned), self._options.disk_mb)

    def fill_disk(self, node: str) -> None:
        self._begins[node] = len(self._logged(node))
        self._small_disks().fill(self._a_server(node))

    def clear_disk(self, node: str) -> None:
        self._small_disks().clear(self._a_server(node))

    def disk_free(self, node: str) -> int:
        return self._small_disks().free(self._a_server(node))

    def disk_complaint(self, node: str) -> str:
        said = self._logged(self._a_server(node))[self._begins.get(node, 0) :].splitlines()
        return next((line.strip()[:500] for line in said if disks.COMPLAINT in line), "")

    def _small_disks(self) -> disks.Disks:
        if self._disks is None:
            raise ClusterError(f"no disk can be filled: {OWN_DISK}")
        return self._disks

    def _heal_surroundings(self) -> None:
        """Mend every link and give back every disk's room."""
        if self._network:
            self._network.undrop_all()
        for node in self._planned if self._disks else ():
            self.clear_disk(node)
