"""The memory that this process may still take."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_UNLIMITED = 1 << 60


def available_memory(meminfo: Path = Path("/proc/meminfo"), groups: Path = _GROUPS, own: Path = Path("/proc/self/cgroup")) -> int:
    """Bytes that this process may still take: what the kernel can give without swapping, or less where a control group has less.

    The arguments are the kernel's files.
    """
    limits = [_of_machine(meminfo), *(_of_group(folder) for folder in _control_groups(groups, own))]
    return max(0, min(limits))


def _of_machine(meminfo: Path) -> int:
    with suppress(OSError, ValueError):
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return _UNLIMITED


def _control_groups(groups: Path, own: Path) -> list[Path]:
    """The directories of this process's control group (version 2) and of those around it."""
    with suppress(OSError):
        name = next((line[3:] for line in own.read_text().splitlines() if line.startswith("0::")), "/")
        group = groups / name.strip("/")
        return [folder for folder in (group, *group.parents) if folder.is_relative_to(groups)]
    return []


def _of_group(folder: Path) -> int:
    """What a control group has left: the kernel takes cached files back before it refuses memory."""
    with suppress(OSError, ValueError, IndexError):  # `max`: no limit; no such file: the root of all
        limit, used = (int((folder / name).read_text()) for name in ("memory.max", "memory.current"))
        lines = (folder / "memory.stat").read_text().splitlines()
        cached = [int(line.split()[1]) for line in lines if line.startswith("inactive_file ")]
        return limit - used + cached[0]
    return _UNLIMITED
