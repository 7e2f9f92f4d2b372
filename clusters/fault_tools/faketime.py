"""libfaketime on this machine: where it is, how it is told what to do, whether it works.

Standard library only, for it is carried to hosts too (`ssh`).
"""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path

NAME = "faketime/libfaketimeMT.so.1"  # for programs with threads; below /usr/lib or its like
SEEN_AFTER_S = 1  # how often a process looks whether its clock was set
HOW = {
    "FAKETIME_CACHE_DURATION": str(SEEN_AFTER_S),
    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    "FAKETIME_FORCE_MONOTONIC_FIX": "0",  # Debian's default; with it a JVM's timed waits end at once, and no broker comes up
    "FAKETIME_DONT_RESET": "1",
    "NO_FAKE_STAT": "1",
}
REMEDY = "install libfaketime (Debian, Ubuntu: sudo apt install libfaketime)"
SHM = Path("/dev/shm")
_PLACES = ("/usr/lib", "/usr/lib64", "/usr/local/lib")


def library() -> Path | None:
    """libfaketime for programs with threads, wherever it is installed."""
    found = [path for place in _PLACES for pattern in (NAME, f"*/{NAME}") for path in Path(place).glob(pattern)]
    return found[0] if found else None


def trouble() -> str:
    """Why no process's clock can be set here, found out by trying; else empty."""
    found = library()
    if found is None:
        return f"no libfaketime found below {', '.join(_PLACES)}: {REMEDY}"
    env = {"LD_PRELOAD": str(found), "FAKETIME": "+3600", **HOW}
    done = subprocess.run(["date", "+%s"], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    said = done.stdout.strip()
    works = said.isdigit() and int(said) - time.time() > 3000  # what cannot be preloaded is complained of, and left out
    return "" if works else f"{found} does not set the clock of `date`: {done.stderr.strip() or said}"


def tell(file: Path, ahead_s: float) -> None:
    """Write how far a clock is ahead into the file that a process looks at (FAKETIME_TIMESTAMP_FILE)."""
    fresh = file.with_suffix(".new")
    fresh.write_text(f"{ahead_s:+.3f}\n")
    fresh.replace(file)  # nobody reads half of it


def forget(pid: int) -> None:
    """Remove what it leaves in /dev/shm of a process that was killed, where one that gets the same id would find it."""
    for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
        with suppress(FileNotFoundError, PermissionError):
            (SHM / name).unlink()
