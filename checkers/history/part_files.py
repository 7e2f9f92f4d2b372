"""Packed parts, and messages for run checks, in files where all executors are processes of one machine.

Only where each lies goes through Spark then. Through pipes, the JVM's heap and its files the same bytes would be copied eight
times.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from fencepost.checkers.history.scan import NamedPart, PackedPart
from fencepost.harness.system.array_files import in_pieces


class StoredPart(NamedTuple):
    """The place of a packed part: a file, where in it, and how many bytes `shared` and `own` have, one after the other."""

    side: int
    path: str
    start: int
    shared: int
    own: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.shared + self.own


class StoredMessage(NamedTuple):
    """The place of a message: a file, where in it, and how many bytes it has."""

    path: str
    start: int
    size: int

    def read(self) -> bytes:
        """Raises OSError."""
        with open(self.path, "rb") as file:
            file.seek(self.start)
            return file.read(self.size)


def stored(folder: Path, parts: Iterable[NamedPart]) -> Iterator[tuple[str, StoredPart]]:
    """Write parts to this process's file in a folder. They can be read once all are written. Raises OSError."""
    path = folder / f"parts-{os.getpid()}"
    with open(path, "ab") as file:
        for name, part in parts:
            yield name, append(file, part, str(path))


def append(file: IO[bytes], part: PackedPart, path: str) -> StoredPart:
    """Write a part at the end of a file; the place names the file by `path`. Raises OSError."""
    start = file.tell()
    for content in (part.shared, part.own):
        file.writelines(in_pieces(content))
    return StoredPart(part.side, path, start, len(part.shared), len(part.own))


def stored_message(folder: Path, message: bytes) -> StoredMessage:
    """Write a message to this process's file in a folder. Raises OSError."""
    path = folder / f"messages-{os.getpid()}"
    with open(path, "ab") as file:
        start = file.tell()
        file.writelines(in_pieces(message))
    return StoredMessage(str(path), start, len(message))


def view(content: memoryview, part: StoredPart) -> PackedPart:
    """A part of a file's content."""
    middle = part.start + part.shared
    return PackedPart(part.side, content[part.start : middle], content[middle : middle + part.own])
