"""A page of memory that the harness and a broker's program share: how slow the disk is to be, and what was held back.

It belongs to the node: it outlives the broker and its program, and what is slow stays so when they are started anew.
"""

from __future__ import annotations

import ctypes
import mmap
import os

SLOTS = 8


class Slot(ctypes.Structure):
    """One slowness: the harness writes the first three, `number` (0: none) last, and the program the others."""

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


class Page(ctypes.Structure):
    """`pid` is the broker's, as its program tells."""

    _fields_ = [("pid", ctypes.c_int64), ("slots", Slot * SLOTS)]
    pid: int
    slots: ctypes.Array[Slot]


def make() -> int:
    """A file descriptor of a new page, all zeros."""
    made = os.memfd_create("disk")
    os.ftruncate(made, ctypes.sizeof(Page))
    return made


def of(descriptor: int) -> Page:
    """The page behind a file descriptor."""
    return Page.from_buffer(mmap.mmap(descriptor, ctypes.sizeof(Page)))
