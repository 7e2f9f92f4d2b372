"""libfaketime on this machine: where it is, how a clock is set with it, whether it works.

Standard library only, because it is copied to hosts too (`ssh`).
"""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path

NAME = "faketime/libfaketimeMT.so.1"  # for programs with threads; below /usr/lib or its like
REREAD_S = 1  # how often a process reads the offset of its clock
ENVIRONMENT = {
    "FAKETIME_CACHE_DURATION": str(REREAD_S),
    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    "FAKETIME_FORCE_MONOTONIC_FIX": "0",  # Debian's default; with it a JVM's timed waits end at once, and no broker comes up
    "FAKETIME_DONT_RESET": "1",
    "NO_FAKE_STAT": "1",
}
REMEDY = "install libfaketime (Debian, Ubuntu: sudo apt install libfaketime)"
SHM = Path("/dev/shm")
_TRIAL_S = 60.0
_DIRECTORIES = ("/usr/lib", "/usr/lib64", "/usr/local/lib")


def library() -> Path | None:
    """libfaketime for programs with threads, wherever it is installed."""
    paths = [path for directory in _DIRECTORIES for pattern in (NAME, f"*/{NAME}") for path in Path(directory).glob(pattern)]
    return paths[0] if paths else None


def trouble() -> str:
    """The reason why no process's clock can be set here, by a trial; else empty."""
    path = library()
    if path is None:
        return f"no libfaketime found below {', '.join(_DIRECTORIES)}: {REMEDY}"
    env = {"LD_PRELOAD": str(path), "FAKETIME": "+3600", **ENVIRONMENT}
    try:
        done = subprocess.run(
            ["date", "+%s"], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TRIAL_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{path} cannot be tried out: {error}"
    output = done.stdout.strip()
    works = output.isdigit() and int(output) - time.time() > 3000  # a library that cannot be preloaded is ignored with a message
    return "" if works else f"{path} does not set the clock of `date`: {done.stderr.strip() or output}"


def write_offset(file: Path, ahead_s: float) -> None:
    """Write how far a clock is ahead into the file that its process reads (FAKETIME_TIMESTAMP_FILE)."""
    fresh = file.with_suffix(".new")
    fresh.write_text(f"{ahead_s:+.3f}\n")
    fresh.replace(file)  # atomic: no process reads half of it


def remove_shared_memory(pid: int) -> None:
    """Remove what libfaketime left in /dev/shm for a killed process; a later process with that id would use it."""
    for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
        with suppress(FileNotFoundError, PermissionError):
            (SHM / name).unlink()
