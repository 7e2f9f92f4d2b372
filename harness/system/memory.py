"""The memory that this process may still take."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_UNLIMITED = 1 << 60
_FILES = (  # of a control group, version 2 and 1: its limit, what is used, and the line of memory.stat with the cached files
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


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
    """The directories of this process's control groups that may bound its memory, of both versions, and of those around them.

    In a container that does not show the path of a group, the root is the group itself.
    """
    folders: list[Path] = []
    with suppress(OSError, ValueError):
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers or "memory" in controllers.split(","):
                root = groups / "memory" if controllers else groups
                group = root / path.strip("/")
                folders += [folder for folder in (group, *group.parents) if folder.is_relative_to(root)]
    return folders


def _of_group(folder: Path) -> int:
    """What a control group has left: the kernel takes cached files back before it refuses memory."""
    return min(_left(folder, *names) for names in _FILES)


def _left(folder: Path, limit: str, used: str, cached: str) -> int:
    with suppress(OSError, ValueError, KeyError):  # `max`: no limit; no such file: the root of all, or the other version
        most, taken = (int((folder / name).read_text()) for name in (limit, used))
        counts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return most - taken + int(counts[cached])
    return _UNLIMITED
