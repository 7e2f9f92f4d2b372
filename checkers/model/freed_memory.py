"""Memory that a process has freed: kept for its next arrays, or given back to the kernel.

The C library gives back what a large array had as soon as it is freed, and the kernel clears the pages of the next one. That can
be a third of the processor time of work on arrays; on a virtual machine, whose host may have to find each page first, to get a
page takes many times as long as to write to it.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

import pyarrow as pa

KEPT = 256 << 20  # bytes free at the end of a process's memory from which on they are given back
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # parameters of mallopt(3)


def keep_freed_memory() -> None:
    """Let this process use freed memory again, also that of large arrays."""
    with suppress(AttributeError):  # a C library without it
        for parameter, value in ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, KEPT)):
            ctypes.CDLL(None).mallopt(parameter, value)


def release_freed_memory() -> None:
    """Give the kernel back what this process has freed and kept."""
    pa.default_memory_pool().release_unused()
    with suppress(AttributeError):  # a C library without it keeps less
        ctypes.CDLL(None).malloc_trim(0)
