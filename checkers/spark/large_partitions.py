"""Very large partitions: judged one at a time on a machine, and their packed records wait on its disk.

So memory grows neither with the number of cores nor with the partitions that wait for their turn.
"""

from __future__ import annotations

import ctypes
import mmap
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import IO

import pyarrow as pa

from checkers.spark.scan import PackedPart
from harness.api import liveness

LARGE = 64 << 20  # bytes of packed rows; unpacked and sorted they need about six times as much


def is_large(size: int) -> bool:
    """Whether a partition of so many bytes is judged alone on its machine."""
    return size >= LARGE


@contextmanager
def large_partition_lock(size: int) -> Iterator[None]:
    """For a partition of so many bytes: wait until no other large one is judged on this machine.

    The lock is the kernel's (`flock`), which frees it when a worker dies.
    """
    if not is_large(size):
        yield
        return
    release_freed_memory()
    with ExitStack() as stack:
        with suppress(OSError):  # without a directory of our own: memory is not saved, and nothing else
            stack.enter_context(liveness.alone(liveness.runtime_directory(), "large-partitions.lock"))
        yield
        release_freed_memory()


def release_freed_memory() -> None:
    """Give the kernel back what this process has freed; its C library keeps some of it (`checkers.spark.session`)."""
    pa.default_memory_pool().release_unused()
    with suppress(AttributeError):  # a C library without it keeps less
        ctypes.CDLL(None).malloc_trim(0)


class PackedParts:
    """The packed parts of one partition, in order: in memory while they are small, and beyond `LARGE` in a file without a name.

    size: bytes of all parts.
    """

    def __init__(self) -> None:
        self.size = 0
        self._parts: list[PackedPart] = []
        self._places: list[tuple[int, int, int]] = []  # of parts in the file: side, and the lengths of both messages
        self._file: IO[bytes] | None = None

    def append(self, part: PackedPart) -> None:
        """Raises OSError when the file cannot be written."""
        self.size += len(part.shared) + len(part.own)
        self._parts.append(part)
        if self.size >= LARGE:
            self._to_file()

    def take(self) -> list[PackedPart]:
        """All parts, once; those in the file as views of it, which the kernel reads when they are looked at."""
        parts, self._parts = self._parts, []
        if self._file is None:
            return parts
        with self._file as file:
            file.flush()
            content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        return list(_views(content, self._places))

    def _to_file(self) -> None:
        self._file = self._file or tempfile.TemporaryFile(prefix="fencepost-partition-")  # noqa: SIM115 - `take` closes it
        for side, shared, own in self._parts:
            self._file.write(shared)
            self._file.write(own)
            self._places.append((side, len(shared), len(own)))
        self._parts.clear()


def _views(content: memoryview, places: list[tuple[int, int, int]]) -> Iterator[PackedPart]:
    at = 0
    for side, shared, own in places:
        yield PackedPart(side, content[at : at + shared], content[at + shared : at + shared + own])
        at += shared + own
