"""Packed parts in files, where all executors are processes of one machine: Spark then shuffles only where each part lies.

Through pipes, the JVM's heap and its shuffle files the same bytes would be copied eight times.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from checkers.spark.scan import NamedPart, PackedPart


class StoredPart(NamedTuple):
    """Where a packed part lies: a file, where in it, and how many bytes `shared` and `own` have, one after the other."""

    side: int
    path: str
    start: int
    shared: int
    own: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.shared + self.own


def stored(folder: Path, parts: Iterable[NamedPart]) -> Iterator[tuple[str, StoredPart]]:
    """Write parts to this process's file in a folder. They can be read once all are written. Raises OSError."""
    path = folder / str(os.getpid())
    with open(path, "ab") as file:
        for name, part in parts:
            yield name, append(file, part, str(path))


def append(file: IO[bytes], part: PackedPart, path: str) -> StoredPart:
    """Write a part at the end of a file, which it knows by this path. Raises OSError."""
    start = file.tell()
    file.write(part.shared)
    file.write(part.own)
    return StoredPart(part.side, path, start, len(part.shared), len(part.own))


def mapped(file: IO[bytes]) -> memoryview:
    """A file's content, which the kernel reads when it is looked at; the file itself may be closed. Raises OSError."""
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def view(content: memoryview, part: StoredPart) -> PackedPart:
    """A part of a file's content."""
    middle = part.start + part.shared
    return PackedPart(part.side, content[part.start : middle], content[middle : middle + part.own])
