"""What runs may leave behind, and how it is found. Nothing here should ever be found; `fencepost clean` looks all the same."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from harness.api import DockerLeftover, Run
from harness.plugins import services
from harness.runs import store

SANDBOXES = ("clusters.local.init", "clusters.docker.init")  # the first processes of sandboxes
STALE_FETCH_S = 3600.0


@dataclass(frozen=True)
class Process:
    """A process as /proc shows it."""

    pid: int
    parent: int
    command: str


def processes(proc: Path = Path("/proc")) -> list[Process]:
    """Every process that can be seen; none where there is no /proc."""
    found = []
    for directory in proc.glob("[0-9]*"):
        try:
            command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            parent = int((directory / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it ended while we looked, or is not ours
        found.append(Process(int(directory.name), parent, command))
    return found


def orphaned_sandboxes(running: Sequence[Process]) -> list[Process]:
    """Sandboxes whose harness is gone: they hang on the first process of the machine."""
    sandboxes = [process for process in running if any(name in process.command for name in SANDBOXES)]
    return [process for process in sandboxes if process.parent == 1]


def end(process: Process) -> None:
    """Kill a sandbox's first process; the kernel ends the rest with it."""
    os.kill(process.pid, signal.SIGKILL)


def in_docker() -> Sequence[DockerLeftover]:
    """What any run has in Docker now, found by label; nothing when no daemon answers."""
    return services.docker().leftovers()


def data_directories(root: Path, running: Sequence[Process]) -> list[Path]:
    """Brokers' data of runs that are over: `data/` lives only as long as its run."""
    unused = [run for run in store.list_runs(root) if not _in_use(run, running)]
    return [run.path("data") for run in unused if run.path("data").is_dir()]


def stale_fetches(now: float | None = None) -> list[Path]:
    """Directories of downloads of Kafka that were broken off more than an hour ago."""
    oldest = (now or time.time()) - STALE_FETCH_S
    return [path for path in services.kafka().directory().glob(".*-*") if path.is_dir() and path.stat().st_mtime < oldest]


def old_runs(root: Path, days: float, running: Sequence[Process], now: datetime | None = None) -> list[Path]:
    """Directories of runs that were created more than `days` days ago and are over."""
    limit = (now or datetime.now(timezone.utc)) - timedelta(days=days)
    return [run.directory for run in store.list_runs(root) if _created(run) < limit and not _in_use(run, running)]


def remove(directory: Path) -> None:
    shutil.rmtree(directory)


def _created(run: Run) -> datetime:
    try:
        created = datetime.fromisoformat(run.created.replace("Z", "+00:00"))
    except ValueError:  # a plan without a readable time: the directory's own
        return datetime.fromtimestamp(run.directory.stat().st_mtime, timezone.utc)
    return created if created.tzinfo else created.replace(tzinfo=timezone.utc)


def _in_use(run: Run, running: Sequence[Process]) -> bool:
    return any(run.directory.name in process.command for process in running)
