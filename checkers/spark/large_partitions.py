"""Very large partitions are judged one at a time on a machine, so that memory does not grow with the number of cores."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LARGE = 64 << 20  # bytes of packed rows; unpacked and sorted they need about ten times as much


@contextmanager
def large_partition_lock(size: int) -> Iterator[None]:
    """For a partition of so many bytes: wait until no other large one is judged on this machine.

    The lock is the kernel's (`flock`), which frees it when a worker dies.
    """
    if size < LARGE:
        yield
        return
    path = Path(tempfile.gettempdir()) / f"fencepost-large-{os.getuid()}.lock"
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
