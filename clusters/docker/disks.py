"""Small disks of nodes in containers: volumes in memory, which a node's helper holds for the whole run and its container shares.

The daemon mounts a volume with the first container that uses it, and discards its contents with the last. Only containers see a
volume, so functions that work on one run in the helper (`helper_function.py`).
"""

from __future__ import annotations

from pathlib import Path

from docker.types import Mount

from fencepost.clusters.docker import host_python
from fencepost.clusters.docker.run_resources import RunResources, mount
from fencepost.clusters.fault_tools import disks
from fencepost.clusters.kafka import storage

INSIDE = Path("/var/lib/fencepost")


class DiskVolumes:
    """Nodes' disks (`clusters.fault_tools.disks.NodeDisks`), each of `size_mb`. Raises ClusterError when a helper is gone."""

    def __init__(self, resources: RunResources, size_mb: int) -> None:
        self._resources, self.size_mb = resources, size_mb

    def add(self, node: str, here: Path) -> list[Mount]:
        """Make a node's disk. Returns what its helper mounts: the disk, and the directory here that files are copied through."""
        here.mkdir(parents=True)
        uid, _, gid = host_python.user().partition(":")
        options = {"type": "tmpfs", "device": "tmpfs", "o": f"size={self.size_mb}m,mode=0755,uid={uid},gid={gid}"}
        labels = self._resources.labels_for(node)
        self._resources.client.volumes.create(self._name(node), driver="local", driver_opts=options, labels=labels)
        return [self.mount(node), mount(here)]

    def mount(self, node: str) -> Mount:
        return Mount(str(INSIDE), self._name(node), type="volume", no_copy=True)

    def copy_in(self, node: str, here: Path) -> None:
        """Copy a formatted directory onto the disk."""
        self._resources.network.run_in_helper(node, storage.collect, here, INSIDE)

    def copy_out(self, node: str, here: Path) -> None:
        """Copy the log segments and checkpoints into the directory."""
        self._resources.network.run_in_helper(node, storage.collect, INSIDE, here)

    def free(self, node: str) -> int:
        return self._resources.network.run_in_helper(node, disks.free, INSIDE)

    def fill(self, node: str) -> None:
        self._resources.network.run_in_helper(node, disks.fill, INSIDE)

    def clear(self, node: str) -> None:
        self._resources.network.run_in_helper(node, disks.clear, INSIDE)

    def _name(self, node: str) -> str:
        return f"{self._resources.name}-{node}-disk"
