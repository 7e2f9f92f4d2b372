"""A small disk of its own for every node: a file system in memory, mounted in the sandbox's mount namespace, gone with it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.api import ClusterError

BALLAST = ".fencepost-ballast"
COMPLAINT = "No space left on device"
_MNT_DETACH = 2
_BLOCK = bytes(4096)
_libc = ctypes.CDLL(None, use_errno=True)


class Disks:
    """Nodes' data directories, each of `size_mb`. Raises ClusterError where none can be mounted."""

    def __init__(self, directories: Iterable[Path], size_mb: int) -> None:
        self._of = {directory.name: directory for directory in directories}
        for directory in self._of.values():
            directory.mkdir(parents=True)
            if trouble := mount(directory, size_mb):
                raise ClusterError(f"no disk of {size_mb} MB for {directory.name}: {trouble}")

    def close(self) -> None:
        """Unmount all; what they held is lost."""
        for directory in self._of.values():
            _libc.umount2(os.fsencode(directory), _MNT_DETACH)

    def free(self, node: str) -> int:
        """Bytes that are free."""
        found = os.statvfs(self._of[node])
        return found.f_bavail * found.f_frsize

    def fill(self, node: str) -> None:
        """Take all that is free."""
        with (self._of[node] / BALLAST).open("ab", buffering=0) as ballast:
            try:
                while free := self.free(node):
                    os.posix_fallocate(ballast.fileno(), os.fstat(ballast.fileno()).st_size, free)
            except OSError:  # the broker took some meanwhile: whatever is left, block by block
                self._top_up(ballast.fileno())

    def _top_up(self, file: int) -> None:
        try:
            os.lseek(file, 0, os.SEEK_END)
            while True:
                os.write(file, _BLOCK)
        except OSError:
            return

    def clear(self, node: str) -> None:
        """Give back what `fill` took; nothing if it took nothing."""
        (self._of[node] / BALLAST).unlink(missing_ok=True)


def mount(directory: Path, size_mb: int) -> str:
    """Mount a file system of this size there; empty when it worked, else what the kernel said."""
    options = f"size={size_mb}m,mode=0755".encode()
    if _libc.mount(b"fencepost", os.fsencode(directory), b"tmpfs", 0, options) == 0:
        return ""
    return f"mount of a tmpfs: {os.strerror(ctypes.get_errno())}"


def trouble() -> str:
    """Why no disk can be mounted in the present namespace, found out by trying; else empty."""
    with TemporaryDirectory() as name:
        said = mount(Path(name), 1)
        if not said:
            _libc.umount2(os.fsencode(name), _MNT_DETACH)
        return said
