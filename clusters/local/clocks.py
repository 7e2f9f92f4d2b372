"""Wall clocks of brokers that can be set: a library between a broker and the C library, and what a broker's own clock says.

The library (`clock.c` beside this file) is built with the machine's C compiler once, into the cache, and preloaded into brokers
only when the option `skewable` asks for it. Monotonic time, and so every timeout, stays as it is; what waits in the kernel until
a wall clock time does not notice. (libfaketime does the same, but brokers did not come up with it.)
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from clusters.kafka import cache_dir
from clusters.wire import Address
from harness.api import ClusterError

_SOURCE = Path(__file__).with_name("clock.c")
_FILE = "FENCEPOST_CLOCK"
_BUILD_S = 60.0
_AHEAD = struct.Struct("=q")  # nanoseconds
_TOO_LONG = struct.pack(">i", 0x7FFFFFFF)  # the length of a request, which no broker takes
_DATE = len("2026-11-21T19:11:22.291")
_SAID_WITHIN_S, _LOOK_EVERY_S = 3.0, 0.01


class Clocks:
    """One file per node that tells how far its wall clock is ahead; read by its process whenever it asks for the time."""

    def __init__(self, directory: Path, nodes: Iterable[str]) -> None:
        self._library = library()
        self._of = {node: directory / node / "clock" for node in nodes}
        for node, file in self._of.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            self.set(node, 0.0)

    def environment(self, node: str) -> dict[str, str]:
        """What a node's process needs in its environment."""
        return {"LD_PRELOAD": str(self._library), _FILE: str(self._of[node])}

    def set(self, node: str, ahead_s: float) -> None:
        """Set a node's clock so far ahead of ours (behind, if negative), at once and for as long as the run lasts."""
        file = os.open(self._of[node], os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(file, _AHEAD.pack(round(ahead_s * 1e9)), 0)  # in place: processes have it mapped
        finally:
            os.close(file)


@lru_cache(maxsize=1)
def library() -> Path:
    """The library, built if it was not yet (a second, once per machine). Raises ClusterError with the remedy."""
    made = cache_dir() / f"clock-{hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]}-{os.uname().machine}.so"
    if made.exists():
        return made
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise ClusterError("setting the clock of a process takes a C compiler: install one (Debian: apt install gcc libc6-dev)")
    made.parent.mkdir(parents=True, exist_ok=True)
    fresh = made.with_suffix(f".{os.getpid()}")
    argv = [compiler, "-O2", "-shared", "-fPIC", "-o", str(fresh), str(_SOURCE), "-ldl"]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_BUILD_S)
    if done.returncode != 0:
        said = " / ".join(done.stderr.strip().splitlines()[:3])
        raise ClusterError(f"the library that sets clocks could not be built with {compiler}: {said}")
    fresh.replace(made)
    return made


def trouble() -> str:
    """Why no process's clock can be set here, found out by building and trying; else empty."""
    try:
        built = library()
    except (ClusterError, OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    argv, env = ["date", "+%s"], {"LD_PRELOAD": str(built)}
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return (
        "" if done.returncode == 0 and not done.stderr else f"the library that sets clocks does not load: {done.stderr.strip()}"
    )


def ahead(address: Address, log: Callable[[], str]) -> float | None:
    """How many seconds a broker's wall clock is ahead of ours, by its own word; None when it says nothing.

    It is sent a request too long to be taken, and writes so into its log, with the date. log: reads its log.
    """
    with suppress(OSError), socket.create_connection(address, timeout=_SAID_WITHIN_S) as asked:
        mark, asked_s = f":{asked.getsockname()[1]}", time.time()
        asked.sendall(_TOO_LONG)
        deadline = time.monotonic() + _SAID_WITHIN_S
        while time.monotonic() < deadline:
            for line in reversed(log().splitlines()):
                if mark in line and "InvalidReceiveException" not in line and (said := _date(line)) is not None:
                    return round(said - asked_s, 3)
            time.sleep(_LOOK_EVERY_S)
    return None


def _date(line: str) -> float | None:
    try:
        return datetime.fromisoformat(line[:_DATE]).timestamp()
    except ValueError:
        return None
