"""A small disk for a node's data: a file system in memory, mounted by root."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from fencepost.clusters.ssh.remote.root_programs import ProgramError, run


def mount(directory: Path, size_mb: int, sudo: bool) -> None:
    """Mount a disk of this size for our user; nothing if there is one. Raises ProgramError."""
    directory.mkdir(exist_ok=True)
    if not os.path.ismount(directory):
        options = f"size={size_mb}m,mode=0700,uid={os.getuid()},gid={os.getgid()}"
        run("mount", "-t", "tmpfs", "-o", options, "fencepost", str(directory), sudo=sudo)


def unmount(directory: Path, sudo: bool) -> None:
    """Unmount the disk, whose contents are lost; nothing if there is none."""
    if os.path.ismount(directory):
        with suppress(ProgramError):
            run("umount", "-l", str(directory), sudo=sudo)
