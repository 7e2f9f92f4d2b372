"""Nodes' small disks, wherever they lie: a file takes all the room that is left, and gives it back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

BALLAST = ".fencepost-ballast"
COMPLAINT = "No space left on device"
_BLOCK = bytes(4096)


class Disks(Protocol):
    """A disk of its own for every node."""

    def free(self, node: str) -> int:
        """Bytes that are free."""

    def fill(self, node: str) -> None:
        """Take all that is free."""

    def clear(self, node: str) -> None:
        """Give back what `fill` took; nothing if it took nothing."""


def free(directory: Path) -> int:
    """Bytes that are free on a directory's disk."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


def fill(directory: Path) -> None:
    """Take all that is free."""
    with (directory / BALLAST).open("ab", buffering=0) as ballast:
        try:
            while room := free(directory):
                os.posix_fallocate(ballast.fileno(), os.fstat(ballast.fileno()).st_size, room)
        except OSError:  # the broker took some meanwhile: whatever is left, block by block
            _top_up(ballast.fileno())


def _top_up(file: int) -> None:
    try:
        os.lseek(file, 0, os.SEEK_END)
        while True:
            os.write(file, _BLOCK)
    except OSError:
        return


def clear(directory: Path) -> None:
    """Give back what `fill` took; nothing if it took nothing."""
    (directory / BALLAST).unlink(missing_ok=True)
