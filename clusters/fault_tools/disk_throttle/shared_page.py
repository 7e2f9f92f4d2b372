"""A page of memory that the harness and a throttle program share: the faults on the disk, and what they have delayed.

It belongs to the node. It outlives the broker and its program, so that a slow disk stays slow when they start again.
"""

from __future__ import annotations

import ctypes
import mmap
import os

SLOTS = 8


class ThrottleSlot(ctypes.Structure):
    """One fault on the disk: the harness writes the first three fields, `number` (0: none) last, and the program the others."""

    _fields_ = [
        ("number", ctypes.c_int64),
        ("delay_s", ctypes.c_double),  # of each write and sync
        ("bytes_s", ctypes.c_double),  # 0: any rate
        ("operations", ctypes.c_int64),
        ("bytes", ctypes.c_int64),
        ("longest_s", ctypes.c_double),
    ]
    number: int
    delay_s: float
    bytes_s: float
    operations: int
    bytes: int
    longest_s: float


class SharedPage(ctypes.Structure):
    """The whole page; the program writes the broker's process id into `pid`."""

    _fields_ = [("pid", ctypes.c_int64), ("slots", ThrottleSlot * SLOTS)]
    pid: int
    slots: ctypes.Array[ThrottleSlot]


def make() -> int:
    """A file descriptor of a new page, all zeros."""
    made = os.memfd_create("disk")
    os.ftruncate(made, ctypes.sizeof(SharedPage))
    return made


def attach(descriptor: int) -> SharedPage:
    """The page behind a file descriptor."""
    return SharedPage.from_buffer(mmap.mmap(descriptor, ctypes.sizeof(SharedPage)))
