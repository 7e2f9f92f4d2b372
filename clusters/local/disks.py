"""A small disk of its own for every node: a file system in memory, mounted in the sandbox's mount namespace, gone with it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from fencepost.clusters.fault_tools import disks
from fencepost.harness.api import ClusterError

_MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


class MountedDisks:
    """Nodes' data directories (`clusters.fault_tools.disks.NodeDisks`), each of `size_mb`.

    Raises ClusterError where none can be mounted.
    """

    def __init__(self, directories: Iterable[Path], size_mb: int) -> None:
        self._of = {directory.name: directory for directory in directories}
        for directory in self._of.values():
            directory.mkdir(parents=True)
            if error := mount(directory, size_mb):
                raise ClusterError(f"no disk of {size_mb} MB for {directory.name}: {error}")

    def close(self) -> None:
        """Unmount all; their contents are lost."""
        for directory in self._of.values():
            _libc.umount2(os.fsencode(directory), _MNT_DETACH)

    def free(self, node: str) -> int:
        return disks.free(self._of[node])

    def fill(self, node: str) -> None:
        disks.fill(self._of[node])

    def clear(self, node: str) -> None:
        disks.clear(self._of[node])


def mount(directory: Path, size_mb: int) -> str:
    """Mount a file system of this size there; empty when it worked, else the kernel's error."""
    options = f"size={size_mb}m,mode=0755".encode()
    if _libc.mount(b"fencepost", os.fsencode(directory), b"tmpfs", 0, options) == 0:
        return ""
    return f"mount of a tmpfs: {os.strerror(ctypes.get_errno())}"


def trouble() -> str:
    """The reason why no disk can be mounted in the present namespace, by a trial; else empty."""
    with TemporaryDirectory() as name:
        trouble = mount(Path(name), 1)
        if not trouble:
            _libc.umount2(os.fsencode(name), _MNT_DETACH)
        return trouble
