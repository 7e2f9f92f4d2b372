"""Small disks of nodes in containers: volumes in memory, which a node's helper holds for the whole run and its container shares.

The daemon mounts a volume with the first container that wants it, and forgets what it held with the last. Only containers see
them, so whatever must be done to one is an errand in the helper (`errand.py`).
"""

from __future__ import annotations

from pathlib import Path

from docker.types import Mount

from clusters.docker import host_python
from clusters.docker.run_resources import Place, mount
from clusters.fault_tools import disks
from clusters.kafka import storage

INSIDE = Path("/var/lib/fencepost")


class Volumes:
    """Nodes' disks (`clusters.fault_tools.disks.Disks`), each of `size_mb`. Raises ClusterError when a helper is gone."""

    def __init__(self, place: Place, size_mb: int) -> None:
        self._place, self.size_mb = place, size_mb

    def add(self, node: str, here: Path) -> list[Mount]:
        """Make a node's disk. What its helper mounts: the disk, and the directory on this machine that things pass through."""
        here.mkdir(parents=True)
        uid, _, gid = host_python.user().partition(":")
        options = {"type": "tmpfs", "device": "tmpfs", "o": f"size={self.size_mb}m,mode=0755,uid={uid},gid={gid}"}
        labels = self._place.labelled(node)
        self._place.client.volumes.create(self._name(node), driver="local", driver_opts=options, labels=labels)
        return [self.mount(node), mount(here)]

    def mount(self, node: str) -> Mount:
        return Mount(str(INSIDE), self._name(node), type="volume", no_copy=True)

    def bring_in(self, node: str, here: Path) -> None:
        """Copy a formatted directory onto the disk."""
        self._place.network.errand(node, storage.collect, here, INSIDE)

    def bring_out(self, node: str, here: Path) -> None:
        """Copy the log segments and checkpoints into the directory."""
        self._place.network.errand(node, storage.collect, INSIDE, here)

    def free(self, node: str) -> int:
        return self._place.network.errand(node, disks.free, INSIDE)

    def fill(self, node: str) -> None:
        self._place.network.errand(node, disks.fill, INSIDE)

    def clear(self, node: str) -> None:
        self._place.network.errand(node, disks.clear, INSIDE)

    def _name(self, node: str) -> str:
        return f"{self._place.name}-{node}-disk"
