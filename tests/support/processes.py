"""A deadline for the end of processes that are not our children."""

from __future__ import annotations

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
