"""libfaketime on this machine: where it is, whether it works, and the sandbox's own /dev/shm that it needs."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from clusters.clocks import HOW, NAME, Clocks
from clusters.local import disks
from harness.api import ClusterError

_PLACES = ("/usr/lib", "/usr/lib64", "/usr/local/lib")
_REMEDY = "install libfaketime (Debian, Ubuntu: sudo apt install libfaketime)"
_SHM, _SHM_MB = Path("/dev/shm"), 64


def made(directory: Path, nodes: Iterable[str]) -> Clocks:
    """Clocks of the sandbox's nodes. Raises ClusterError where none can be set."""
    found = library()
    if found is None:
        raise ClusterError(f"no clock can be set: {_REMEDY}")
    if said := disks.mount(_SHM, _SHM_MB):
        raise ClusterError(f"no clock can be set without a /dev/shm of the sandbox's own: {said}")
    return Clocks(str(found), directory, nodes)


def library() -> Path | None:
    """libfaketime for programs with threads, wherever it is installed."""
    found = [path for place in _PLACES for pattern in (NAME, f"*/{NAME}") for path in Path(place).glob(pattern)]
    return found[0] if found else None


def trouble() -> str:
    """Why no process's clock can be set here, found out by trying; else empty."""
    found = library()
    if found is None:
        return f"no libfaketime found below {', '.join(_PLACES)}: {_REMEDY}"
    env = {"LD_PRELOAD": str(found), "FAKETIME": "+3600", **HOW}
    done = subprocess.run(["date", "+%s"], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    said = done.stdout.strip()
    works = said.isdigit() and int(said) - time.time() > 3000  # what cannot be preloaded is complained of, and left out
    return "" if works else f"{found} does not set the clock of `date`: {done.stderr.strip() or said}"
