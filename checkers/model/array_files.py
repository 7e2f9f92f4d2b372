"""Large arrays in files that the kernel maps into memory.

What lies in such a file is no memory of the process's own: the kernel holds its pages in its cache, writes them to the disk when
others need the memory, and reads them again when they are looked at.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import IO, Any
from weakref import WeakSet

import numpy as np

SMALL = 1 << 20  # bytes of an array that stays in memory
MOST_AT_ONCE = 16 << 20  # bytes that are written from memory
DROP_EVERY_S = 0.15


class Arrays:
    """Arrays that nobody changes any more, in memory."""

    def stored(self, values: Any) -> Any:
        """An array with the same values, or of a tuple each member."""
        return values

    def taken(self, values: Any, positions: Any) -> Any:
        """The values at some positions."""
        return values[positions]


class ArrayFiles(Arrays):
    """Files without names, each with one array; a file ends with its array. A stored array is read-only.

    folder: where they lie (None: the temporary directory). A small array stays in memory, and one for which the disk has no room.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._maps: WeakSet[mmap.mmap] = WeakSet()
        self._lock = Lock()

    def stored(self, values: Any) -> Any:
        """Same as `Arrays.stored`. What lies in a file already is returned as it is."""
        if type(values) is tuple:
            return tuple(map(self.stored, values))
        if not isinstance(values, np.ndarray) or values.nbytes < SMALL or _is_mapped(values):
            return values
        with suppress(OSError):
            return self._written([values], values.dtype).reshape(values.shape)
        return values

    def taken(self, values: Any, positions: Any) -> Any:
        """Same as `Arrays.taken`, some of them at a time."""
        if len(positions) * values.itemsize >= SMALL:
            with suppress(OSError):
                parts = np.array_split(positions, -(-len(positions) * values.itemsize // MOST_AT_ONCE))
                return self._written((values[part] for part in parts), values.dtype)
        return super().taken(values, positions)

    def _written(self, parts: Iterable[Any], kind: np.dtype[Any]) -> Any:
        with tempfile.TemporaryFile(prefix="fencepost-array-", dir=self.folder, buffering=0) as file:
            for part in parts:
                content = np.ascontiguousarray(part, dtype=kind).data.cast("B")
                while content:
                    content = content[os.write(file.fileno(), content) :]
            return np.frombuffer(self.mapped(file), kind)

    def mapped(self, file: IO[bytes]) -> mmap.mmap:
        """A file's content, which the kernel reads when it is looked at; the file itself may be closed. Raises OSError."""
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        with self._lock:
            self._maps.add(mapped)
        return mapped

    def drop_pages(self) -> None:
        """Unmap all pages from this process. They stay in the kernel's cache while there is room for them."""
        with self._lock:
            maps = list(self._maps)
        for mapped in maps:
            mapped.madvise(mmap.MADV_DONTNEED)

    @contextmanager
    def dropping_pages(self) -> Iterator[None]:
        """Drop all pages a few times a second for the length of a block, so that only those in use are mapped."""
        over = Event()

        def run() -> None:
            while not over.wait(DROP_EVERY_S):
                self.drop_pages()

        thread = Thread(target=run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def _is_mapped(values: Any) -> bool:
    while isinstance(values, np.ndarray):
        values = values.base
    return isinstance(values, memoryview) and isinstance(values.obj, mmap.mmap)
