"""Processes as Linux shows them in /proc (proc(5)).

Standard library only, Python 3.9 or newer: hosts of the `ssh` cluster use it, too.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
ZOMBIE = "Z"


class ProcessStatus(NamedTuple):
    """Of a process: the kernel's letter for its state, its parent's id, and when it started, in ticks since the boot."""

    state: str
    parent: int
    started: str


def process_ids() -> list[int]:
    """Every process that can be seen; none where there is no /proc."""
    with suppress(FileNotFoundError):
        return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal()]
    return []


def status(pid: int) -> ProcessStatus | None:
    """The status of a process; None when there is none. Raises OSError where it may not be read."""
    try:
        fields = content(pid, "stat").rpartition(b")")[2].decode().split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return ProcessStatus(fields[0], int(fields[1]), fields[19])


def content(pid: int, file: str) -> bytes:
    """A file of a process. Raises OSError: it has ended, or is not ours."""
    return (PROC / str(pid) / file).read_bytes()


def command_line(pid: int) -> tuple[str, ...]:
    """The words a process was started with. Raises OSError: it has ended, or is not ours."""
    return tuple(content(pid, "cmdline").decode(errors="replace").rstrip("\0").split("\0"))


def state(pid: int) -> str:
    """The kernel's letter for a process; empty when there is none."""
    seen = status(pid)
    return seen.state if seen else ""
