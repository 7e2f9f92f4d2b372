"""Very large partitions are judged one at a time on a machine, so that memory does not grow with the number of cores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from harness.api import liveness

LARGE = 64 << 20  # bytes of packed rows; unpacked and sorted they need about ten times as much


@contextmanager
def large_partition_lock(size: int) -> Iterator[None]:
    """For a partition of so many bytes: wait until no other large one is judged on this machine.

    The lock is the kernel's (`flock`), which frees it when a worker dies.
    """
    if size < LARGE:
        yield
        return
    with ExitStack() as stack:
        with suppress(OSError):  # without a directory of our own: memory is not saved, and nothing else
            stack.enter_context(liveness.alone(liveness.runtime_directory(), "large-partitions.lock"))
        yield
