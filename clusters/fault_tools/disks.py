"""Nodes' small disks: a ballast file takes all free space of one, and is removed again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

BALLAST = ".fencepost-ballast"
COMPLAINT = "No space left on device"
_BLOCK = bytes(4096)


class NodeDisks(Protocol):
    """A disk of its own for every node."""

    def free(self, node: str) -> int:
        """Bytes that are free."""

    def fill(self, node: str) -> None:
        """Take all free space by a ballast file."""

    def clear(self, node: str) -> None:
        """Remove the ballast; nothing if there is none."""


def free(directory: Path) -> int:
    """Bytes that are free on a directory's disk."""
    status = os.statvfs(directory)
    return status.f_bavail * status.f_frsize


def fill(directory: Path) -> None:
    """Take all free space by a ballast file."""
    with (directory / BALLAST).open("ab", buffering=0) as ballast:
        try:
            while space := free(directory):
                os.posix_fallocate(ballast.fileno(), os.fstat(ballast.fileno()).st_size, space)
        except OSError:  # the broker took some meanwhile: the rest, block by block
            _top_up(ballast.fileno())


def _top_up(file: int) -> None:
    try:
        os.lseek(file, 0, os.SEEK_END)
        while True:
            os.write(file, _BLOCK)
    except OSError:
        return


def clear(directory: Path) -> None:
    """Remove the ballast; nothing if there is none."""
    (directory / BALLAST).unlink(missing_ok=True)
