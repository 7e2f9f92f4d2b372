"""The search for what runs may leave behind. Nothing here should ever be found; `fencepost clean` looks all the same.

Nothing that lives is touched. Directories have a lock while they are used, and what is in Docker a label of its process
(`harness.system.liveness`). A sandbox lives as long as its harness, which is the case while somebody has the other end of its
standard input open: the kernel knows that, in whichever PID namespace or container the harness is, and whatever its process id.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.api.services import DockerLeftover
from fencepost.harness.fetching.store import interrupted
from fencepost.harness.history.results_folder import age, each_run
from fencepost.harness.plugins import services
from fencepost.harness.system import liveness
from fencepost.harness.system.processes import command_line, process_ids, status
from fencepost.harness.system.python_command import START

SANDBOXES = ("fencepost.clusters.local.init", "fencepost.clusters.docker.init")  # the first processes of sandboxes
TEMPORARY = ("spark", "warm", "shared", "selfcheck", "base", "nemesis", "client", "index")  # kinds of temporary directories
UNLOCKED_S = 24 * 3600.0  # age from which one without a lock is left over: of an older version, or logs of the conformance kits
OLDEST_DAYS = 700_000  # of a run: no date lies further back
_PATIENCE_S = 5.0


# --------------------------------------------------------------------------------------------------
# Processes
# --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Process:
    """A process as /proc shows it."""

    pid: int
    parent: int
    words: tuple[str, ...]

    @property
    def command(self) -> str:
        return " ".join(self.words)

    @property
    def is_sandbox(self) -> bool:
        """Return whether it is the supervisor of a sandbox, and no program that only has its name among its arguments."""
        python, start, module = [*self.words, "", "", ""][:3]
        started = os.path.basename(start) == os.path.basename(START) or start == "-m"  # by older versions
        return os.path.basename(python).startswith("python") and started and module in SANDBOXES

    @property
    def grace_s(self) -> float:
        """The time that it may go on without its harness, to clean up elsewhere."""
        given = [word.partition("=")[2] for word in self.words if word.startswith("--grace=")]
        return float(given[0]) if given else 0.0


def processes() -> list[Process]:
    """Every process that can be seen; none where there is no /proc."""
    running = []
    for pid in process_ids():
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):  # it ended while we looked, or is not ours
            words, seen = command_line(pid), status(pid)
            if seen:
                running.append(Process(pid, seen.parent, words))
    return running


def orphaned_sandboxes(running: Sequence[Process]) -> list[Process]:
    """Sandboxes whose harness is surely gone, and that have not ended within the time that they have for it."""
    lost = [process for process in running if process.is_sandbox and has_lost_its_harness(process.pid)]
    deadline = time.monotonic() + max((process.grace_s for process in lost), default=0.0) + _PATIENCE_S
    while lost and time.monotonic() < deadline:
        time.sleep(0.1)
        lost = [process for process in lost if has_lost_its_harness(process.pid)]
    return lost


def has_lost_its_harness(pid: int) -> bool:
    """Return whether no process can write any more to the pipe of a process's standard input: False where that is not visible."""
    try:
        descriptor = os.open(f"/proc/{pid}/fd/0", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return False
        waiting = select.poll()
        waiting.register(descriptor, 0)  # POLLHUP is always reported
        return any(events & select.POLLHUP for _, events in waiting.poll(0))
    finally:
        os.close(descriptor)


def end(process: Process) -> None:
    """Kill a sandbox's first process; the kernel ends the rest with it."""
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)


# --------------------------------------------------------------------------------------------------
# In Docker
# --------------------------------------------------------------------------------------------------
def in_docker() -> Sequence[DockerLeftover]:
    """The objects of any run in Docker, by their label; none on a machine without Docker. Raises ClusterError: no answer."""
    return services.docker().leftovers()


# --------------------------------------------------------------------------------------------------
# Directories
# --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Leftover:
    """A directory, and the one whose lock says whether it is in use (itself, or the run's)."""

    directory: Path
    locked: Path

    @contextmanager
    def unused(self, running: Sequence[Process]) -> Iterator[str]:
        """Lock it: yields its user, empty for none; then no other process can begin to use it within the block."""
        with liveness.exclusive(self.locked) as holder:
            yield holder or _user(self.locked, running)


def data_directories(root: Path) -> list[Leftover]:
    """Brokers' data: `data/` lives only as long as its run."""
    leftovers = [Leftover(place / "data", place) for place, _ in _runs(root)]
    return [leftover for leftover in leftovers if leftover.directory.is_dir() and not leftover.directory.is_symlink()]


def downloads() -> list[Leftover]:
    """Directories of downloads of Kafka; that of their parent is the lock of whoever fetches."""
    kafka = services.kafka().directory()
    return [Leftover(path, kafka) for path in interrupted(kafka)]


def old_runs(root: Path, days: float, now: datetime | None = None) -> list[Leftover]:
    """Directories of runs that were created more than `days` days ago."""
    limit = (now or datetime.now(timezone.utc)) - timedelta(days=min(days, OLDEST_DAYS))
    return [Leftover(place, place) for place, created in _runs(root) if created < limit]


def _runs(root: Path) -> list[tuple[Path, datetime]]:
    """The directories of all runs whose plan can be read, and when each was created; the oldest first."""
    whole = (run for run in each_run(root) if RunFile.PLAN not in run.problems)
    runs = sorted((age(run), run.directory, _created(run)) for run in whole)
    return [(place, created) for _, place, created in runs]


def temporary_directories(now: float | None = None) -> list[Leftover]:
    """Our directories among the temporary ones. Those without a lock, of older versions, must be older than a day."""
    oldest = (now or time.time()) - UNLOCKED_S
    kinds = [f"{liveness.PREFIX}{kind}-*" for kind in TEMPORARY]
    paths = [path for kind in kinds for path in Path(tempfile.gettempdir()).glob(kind)]
    return [Leftover(path, path) for path in sorted(paths) if _is_ours(path, oldest)]


def remove(directory: Path) -> None:
    shutil.rmtree(directory)


def _is_ours(path: Path, oldest: float) -> bool:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return ours and (os.path.lexists(path / liveness.LOCK) or status.st_mtime < oldest)


def _created(run: Run) -> datetime:
    try:
        created = datetime.fromisoformat(run.created.replace("Z", "+00:00"))
    except ValueError:  # a plan without a readable time: the directory's own
        return datetime.fromtimestamp(run.directory.stat().st_mtime, timezone.utc)
    return created if created.tzinfo else created.replace(tzinfo=timezone.utc)


def _user(directory: Path, running: Sequence[Process]) -> str:
    """A process that names a directory, such as one of an older version, which took no lock; empty when there is none."""
    names = (process for process in running if directory.name in process.command and process.pid != os.getpid())
    return next((f"process {process.pid} ({process.command[:80]})" for process in names), "")
