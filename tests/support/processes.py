"""Processes that tests start: what signals do to them, and a deadline for the end of those that are not our children."""

from __future__ import annotations

import signal
import time
from pathlib import Path


def has_ended(pid: int, within_s: float = 30.0) -> bool:
    """Return whether a process ends in time. A zombie has ended: some machines' first process takes seconds to collect it."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


def heed_signals() -> None:
    """Let signals do to this process what they do by themselves; for `preexec_fn`.

    Whoever starts the tests by `nohup` has SIGHUP ignored, and a shell SIGINT in what it runs in the background: a child has it
    so, too, and a test that sends it the signal would wait for its patience.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
