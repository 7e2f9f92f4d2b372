"""The footprint of a driver: its threads, open files and child processes, of which it gathers none if it lets go of all."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from fencepost.harness.system import processes


def footprint(pid: int) -> Mapping[str, int]:
    """How many threads, open files and child processes a process has now."""
    proc = Path("/proc", str(pid))
    counts = {"threads": _entries(proc / "task"), "open files": _entries(proc / "fd")}
    return {**counts, "child processes": sum(_parent(other) == pid for other in processes.process_ids())}


def gathered(before: Mapping[str, int], now: Mapping[str, int], opens: int) -> list[str]:
    """What a driver has gathered since it was opened so many times, in words: what grows by one with every second opening."""
    grown = {what: now[what] - count for what, count in before.items()}
    return [f"{count} {what}" for what, count in grown.items() if count > opens / 2]


def _entries(folder: Path) -> int:
    with suppress(OSError):  # it has ended
        return sum(1 for _ in folder.iterdir())
    return 0


def _parent(pid: int) -> int:
    with suppress(OSError):
        if (status := processes.status(pid)) is not None and status.state != processes.ZOMBIE:
            return status.parent
    return 0
