"""Liveness: the difference between a run, directory or container in use and what a dead process has left.

A process id alone says nothing: it is used again, and means another process in every PID namespace and container. So:

* **A directory is in use while its lock is held.** `hold` takes the kernel's lock (flock(2)) on the file `.lock` in it, shared
  with all others who use it. The lock belongs to the open file, and ends with the last process that has it open, however it dies.
  It is the same lock in every PID namespace and container that has the directory, whatever path leads to it. A child that
  inherits the file holds the lock too: the supervisor of a run's sandbox does, until all in the sandbox is gone. Who removes a
  directory takes the lock alone (`exclusive`), so that nobody begins to use it meanwhile. What cannot be locked (another user's,
  a file system without locks) counts as in use.
* **A process is known by an `identity`:** host, boot, PID namespace, process id, and the time of its start. It is surely dead if
  that boot is over, or if it is missing in the PID namespace that we are in too. Of another namespace nothing is known (`None`).

The file has a line for each who took the lock since it was last free, for people: the lock decides, not the line.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import json
import os
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType

from fencepost.harness.system import processes

LOCK = ".lock"
PREFIX = "fencepost-"  # of temporary directories
_READ = 64 << 10
_WAIT_S = 10.0  # for somebody who removes the directory


# --------------------------------------------------------------------------------------------------
# Processes
# --------------------------------------------------------------------------------------------------
def identity() -> str:
    """An identity of this process that no other has: `host boot namespace pid start`."""
    return " ".join((socket.gethostname(), _boot(), _namespace(), str(os.getpid()), _started(os.getpid())))


def alive(of: str) -> bool | None:
    """Return whether the process with this identity lives; None when that cannot be known here."""
    parts = of.split(" ")
    if len(parts) != 5 or not parts[3].isdigit() or "-" in parts:
        return None
    host, boot, namespace, pid, started = parts
    if boot != _boot():
        return False if host == socket.gethostname() else None
    return _started(int(pid)) == started if namespace == _namespace() else None


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:  # no Linux
        return "-"


def _namespace() -> str:
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return "-"


def _started(pid: int) -> str:
    """The start time of a process, in the kernel's ticks; empty when there is none, or it is a zombie."""
    seen = processes.status(pid)
    return seen.started if seen and seen.state != processes.ZOMBIE else ""


# --------------------------------------------------------------------------------------------------
# Directories
# --------------------------------------------------------------------------------------------------
class Hold:
    """A directory in use, until it is closed. descriptor: for a child that is to hold the lock as well; None without lock."""

    def __init__(self, descriptor: int | None) -> None:
        self.descriptor = descriptor

    def close(self) -> None:
        """End our use. Children that have inherited the lock go on holding it."""
        descriptor, self.descriptor = self.descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def hold(directory: Path) -> Hold:
    """Use a directory from now on. Where it cannot be locked it is used without, since nobody else can lock it either."""
    deadline = time.monotonic() + _WAIT_S
    while True:
        try:
            descriptor = _opened(directory)
        except OSError:
            return Hold(None)
        with suppress(OSError):
            if _locked(descriptor, fcntl.LOCK_EX):  # nobody uses it: what the file says is old
                os.ftruncate(descriptor, 0)
            if _locked(descriptor, fcntl.LOCK_SH) and _is_there(descriptor, directory):
                os.write(descriptor, json.dumps(_line()).encode() + b"\n")
                return Hold(descriptor)
        os.close(descriptor)
        if time.monotonic() > deadline or not directory.is_dir():
            return Hold(None)
        time.sleep(0.02)


@contextmanager
def exclusive(directory: Path) -> Iterator[str]:
    """Lock a directory against all others: yields empty if it was unused, and stays so in the block; else its user as text."""
    try:
        descriptor = _opened(directory)
    except OSError as error:
        yield f"unknown: it cannot be locked ({error.strerror})"
        return
    try:
        try:
            free = _locked(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            yield f"unknown: it cannot be locked ({error.strerror})"
            return
        yield "" if free else _holders(descriptor)
    finally:
        os.close(descriptor)


def lock_reference(directory: Path) -> str:
    """A reference, valid elsewhere on this machine, to the lock that is held on a directory now; empty when none is held."""
    if not (directory / LOCK).exists():
        return ""
    with suppress(OSError):
        descriptor = _opened(directory)
        try:
            if not _locked(descriptor, fcntl.LOCK_EX):
                status = os.fstat(descriptor)
                return f"{status.st_dev}:{status.st_ino}:{directory.resolve()}"
        finally:
            os.close(descriptor)
    return ""


def user_of_lock(reference: str) -> str | None:
    """The holder of the lock that a reference means, empty for none; None when that lock cannot be found or tried from here."""
    device, inode, path = [*reference.split(":", 2), "", ""][:3]
    with suppress(OSError):
        there = os.stat(Path(path, LOCK))
        if path and (str(there.st_dev), str(there.st_ino)) == (device, inode):
            descriptor = _opened(Path(path))
            try:
                return "" if _locked(descriptor, fcntl.LOCK_EX) else _holders(descriptor)
            finally:
                os.close(descriptor)
    return None


@contextmanager
def alone(directory: Path, name: str = LOCK, waiting: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """The lock `name` of a directory, alone, for the length of a block. `waiting` hears who has it. Raises OSError."""
    while True:
        descriptor = _opened(directory, name)
        try:
            if not _locked(descriptor, fcntl.LOCK_EX):
                waiting(_holders(descriptor))
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if not _is_there(descriptor, directory, name):
                continue
            os.ftruncate(descriptor, 0)
            os.write(descriptor, json.dumps(_line()).encode() + b"\n")
            yield
            return
        finally:
            os.close(descriptor)


def _opened(directory: Path, name: str = LOCK) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(directory / name, flags, 0o600)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:  # what is written to a hard link is in another file, too
        os.close(descriptor)
        raise OSError(errno.EINVAL, f"its {name} is no file of its own")
    return descriptor


def _locked(descriptor: int, how: int) -> bool:
    """Take the lock, unless somebody's is in the way. Raises OSError where there are no locks."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_there(descriptor: int, directory: Path, name: str = LOCK) -> bool:
    """Return whether the file is still the directory's: it may have been removed before we had the lock."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(directory / name))
    except OSError:
        return False


def _line() -> dict[str, str]:
    what = " ".join([Path(sys.argv[0] or "python").name, *sys.argv[1:2]])
    since = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return {"what": what[:80], "since": since, "process": identity()}


def _holders(descriptor: int) -> str:
    """The holders of the lock by its file: those that are not known to be dead."""
    lines, holders = 0, []
    for line in os.pread(descriptor, _READ, 0).decode(errors="replace").splitlines():
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            entry = json.loads(line)
            lines += 1
            host, _, _, pid, _ = entry["process"].split(" ")
            if alive(entry["process"]) is not False:
                holders.append(f"{entry['what']} (process {pid} on {host}, since {entry['since']})")
    return ", ".join(holders) or (
        "the sandbox of a process that has died, which is ending" if lines else "somebody who does not say who"
    )


# --------------------------------------------------------------------------------------------------
# Temporary directories
# --------------------------------------------------------------------------------------------------
def runtime_directory() -> Path:
    """A directory for what our processes on this machine share, into which nobody else can write or put links.

    Raises OSError when what has its name is not ours alone.
    """
    given = os.environ.get("XDG_RUNTIME_DIR")
    path = (
        Path(given, "fencepost") if given and os.access(given, os.W_OK) else Path(tempfile.gettempdir(), f"{PREFIX}{os.getuid()}")
    )
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(errno.EPERM, f"{path} is not a directory of ours alone (mode 0700)")
    return path


class TemporaryPlace:
    """A temporary directory of our own (mode 0700, a name nobody can foresee), in use until it is removed."""

    def __init__(self, kind: str, parent: Path | None = None) -> None:
        self.path = Path(parent or tempfile.gettempdir(), f"{PREFIX}{kind}-{secrets.token_hex(8)}")
        self._hold = Hold(None)
        self._starting: list[subprocess.Popen[bytes]] = []
        self._removed = False
        self._changing = threading.Lock()
        with _ENDING:
            _demand_time()
            _PLACES.add(self)  # first: a signal may end the command as soon as the directory is there
            try:
                self.path.mkdir(mode=0o700)
            except OSError:
                _PLACES.discard(self)
                raise
        self._hold = hold(self.path)

    def start(self, start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        """Start a process that would wait for ever if it missed the directory. Until `started` it is killed when that is removed.

        Raises InterruptedError when it has been removed, by another thread.
        """
        with self._changing:
            _demand_time(over=self._removed)
            self._starting.append(start())
            return self._starting[-1]

    def started(self) -> None:
        """Note that what has been started ends by itself from now on."""
        self._starting.clear()

    def remove(self) -> None:
        """Remove it with all that is in it; nothing if it is gone.

        Under another name first: a thread that still writes into it would else write behind the removal, which leaves the rest.
        """
        _PLACES.discard(self)
        with self._changing:
            self._removed = True
            for process in self._starting:
                process.kill()
                process.wait()
        ending = self.path.with_name(f"{self.path.name}-ending")
        with suppress(OSError):
            self.path.rename(ending)
        for path in (ending, self.path):
            shutil.rmtree(path, ignore_errors=True)
        self._hold.close()


_PLACES: set[TemporaryPlace] = set()  # of this process, in use
_ENDING = threading.RLock()  # a signal may come while it is held
_ended = threading.Event()  # no more are made


def _demand_time(over: bool = False) -> None:
    """Raises InterruptedError in a thread that goes on while its process ends."""
    if over or _ended.is_set():
        raise InterruptedError(errno.EINTR, "the command is about to end")


def remove_temporary_places() -> None:
    """Remove all temporary directories of this process."""
    for place in list(_PLACES):
        place.remove()


def end_temporary_places() -> None:
    """Remove all temporary directories of this process, and let no thread make another one: the process ends."""
    with _ENDING:
        _ended.set()
    remove_temporary_places()


atexit.register(end_temporary_places)


@contextmanager
def temporary_directory(kind: str, parent: Path | None = None) -> Iterator[Path]:
    """`fencepost-KIND-...` for the length of a block; if we are killed, `fencepost clean` finds it."""
    place = TemporaryPlace(kind, parent)
    try:
        yield place.path
    finally:
        place.remove()
