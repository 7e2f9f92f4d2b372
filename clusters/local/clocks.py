"""Clocks of a sandbox's brokers, and the /dev/shm of its own that libfaketime needs there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fencepost.clusters.fault_tools.clocks import Clocks
from fencepost.clusters.fault_tools.faketime import REMEDY, SHM, library
from fencepost.clusters.local import disks
from fencepost.harness.api import ClusterError

_SHM_MB = 64


def sandbox_clocks(directory: Path, nodes: Iterable[str]) -> Clocks:
    """Clocks of the sandbox's nodes. Raises ClusterError where none can be set."""
    path = library()
    if path is None:
        raise ClusterError(f"no clock can be set: {REMEDY}")
    if error := disks.mount(SHM, _SHM_MB):
        raise ClusterError(f"no clock can be set without a /dev/shm of the sandbox's own: {error}")
    return Clocks(str(path), directory, nodes)
