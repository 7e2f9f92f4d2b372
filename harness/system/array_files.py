"""Large arrays in files that the kernel maps into memory.

What lies in such a file is no memory of the process's own: the kernel holds its pages in its cache, writes them to the disk when
others need the memory, and reads them again when they are looked at.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import tempfile
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event, Lock, Thread
from typing import IO, Any
from weakref import WeakSet, finalize

import numpy as np

SMALL = 1 << 20  # bytes of an array that stays in memory
MOST_AT_ONCE = 16 << 20  # bytes that are read into memory
PIECE = 512 << 10  # bytes of a write: more takes huge pages, which cost ten times as much where a host has to find them
TAKEN_AT_ONCE = 1 << 16  # positions: as 64 bits they stay in the processor's cache
DROP_EVERY_S = 0.15
FILES = 2  # that are reused: as many threads write at once


class Arrays:
    """Arrays that nobody changes any more, in memory."""

    def stored(self, values: Any) -> Any:
        """An array with the same values, or of a tuple each member."""
        return values

    def taken(self, values: Any, positions: Any) -> Any:
        """The values at some positions."""
        return values[positions]

    def joined(self, parts: Callable[[], Iterable[Any]], count: int, kind: Any) -> Any:
        """So many values as one array. parts: yields them in order, and may be called again. One part is in memory at a time."""
        whole, start = np.empty(count, kind), 0
        for part in parts():
            whole[start : start + len(part)] = part
            start += len(part)
        return whole


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
            return self._written([values], values.dtype, values.nbytes).reshape(values.shape)
        return values

    def taken(self, values: Any, positions: Any) -> Any:
        """Same as `Arrays.taken`."""
        size = len(positions) * values.itemsize
        if size >= SMALL:
            with suppress(OSError):
                return self._written(_taken(values, positions), values.dtype, size)
        return super().taken(values, positions)

    def joined(self, parts: Callable[[], Iterable[Any]], count: int, kind: Any) -> Any:
        """Same as `Arrays.joined`."""
        size = count * np.dtype(kind).itemsize
        if size >= SMALL:
            with suppress(OSError):
                return self._written(parts(), np.dtype(kind), size)
        return super().joined(parts, count, kind)

    def _written(self, parts: Iterable[Any], kind: np.dtype[Any], size: int) -> Any:
        """The parts of an array of so many bytes as one."""
        with _nameless(self.folder) as file:
            _write(file, 0, parts, kind)
            return np.frombuffer(self.mapped(file), kind)

    def mapped(self, file: IO[bytes], start: int = 0, size: int = 0) -> mmap.mmap:
        """A file's content, or so many bytes of it, which the kernel reads when it is looked at; the file itself may be closed.
        Raises OSError.
        """
        mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ, offset=start)
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


class Growing:
    """An array of so many values that come in pieces, in a file of its own if it is large."""

    def __init__(self, arrays: ArrayFiles, count: int, kind: Any) -> None:
        self._arrays, self._count, self._kind = arrays, count, np.dtype(kind)
        self._come = 0
        self._file: IO[bytes] | None = None
        if count * self._kind.itemsize >= SMALL:
            with suppress(OSError):
                self._file = _nameless(arrays.folder)
        self._whole = np.empty(0 if self._file else count, self._kind)

    def append(self, values: Any) -> None:
        """The next values."""
        if self._file:
            try:
                _write(self._file, self._come * self._kind.itemsize, [values], self._kind)
            except OSError:  # the disk has no room for more
                with self._file as file:
                    self._whole, self._file = self._in_memory(file), None
        if not self._file:
            self._whole[self._come : self._come + len(values)] = values
        self._come += len(values)

    def array(self) -> Any:
        """All values, once all have come; read-only where they lie in a file."""
        if not self._file:
            return self._whole
        with self._file as file:
            try:
                return np.frombuffer(self._arrays.mapped(file), self._kind)
            except OSError:
                return self._in_memory(file)

    def _in_memory(self, file: IO[bytes]) -> Any:
        """What has come until now, in an array with room for the rest."""
        whole = np.empty(self._count, self._kind)
        content, start = whole[: self._come].data.cast("B"), 0
        while start < len(content):
            start += os.preadv(file.fileno(), [content[start : start + MOST_AT_ONCE]], start)
        return whole


class ReusedFiles(ArrayFiles):
    """Arrays in a few files, `arrays-0` and so on of a folder, which are left to whoever needs them next. A context: it closes
    them.

    A new page of a file is cleared, and on a virtual machine the host may have to find it first: that takes up to ten times as
    long as to write to it. So the place of an array that is gone is used again, and the files of one partition by the next one.
    As long as somebody has an array of a file it is locked, since a mapping keeps it open; others get a file without a name
    meanwhile. No fork of this process may use its arrays.

    The kernel lets one thread write to a file at a time, and others spin: so threads that write at once have files of their own.
    """

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(folder)
        self._files: list[_Places] = []
        for number in range(FILES):
            with suppress(OSError):  # without any arrays stay in memory
                file = (_locked(folder / f"arrays-{number}") if folder else None) or _nameless(folder)
                self._files.append(_Places(file))

    def __enter__(self) -> ReusedFiles:
        return self

    def __exit__(self, *_: object) -> None:
        for places in self._files:
            places.file.close()

    def _written(self, parts: Iterable[Any], kind: np.dtype[Any], size: int) -> Any:
        if not self._files:
            raise OSError("there is no file for arrays")
        room = -(-size // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        with self._lock:
            places = min(self._files, key=lambda each: each.writers)
            places.writers += 1
            start = places.take(room)
        give_back = partial(places.returned.append, (start, room))
        try:
            _write(places.file, start, parts, kind)
            mapped = self.mapped(places.file, start, size)
        except BaseException:
            give_back()
            raise
        finally:
            with self._lock:
                places.writers -= 1
        finalize(mapped, give_back).atexit = False
        return np.frombuffer(mapped, kind)


class _Places:
    """What of a file is in use.

    writers: how many threads write to it.
    returned: places of arrays that are gone, as their threads say it.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.writers = file, 0
        self.returned: deque[tuple[int, int]] = deque()
        self._end, self._free = 0, list[tuple[int, int]]()

    def take(self, room: int) -> int:
        """The first place that is large enough."""
        while self.returned:
            insort(self._free, self.returned.popleft())
        joined: list[tuple[int, int]] = []
        for start, size in self._free:
            before, length = joined[-1] if joined else (0, -1)
            if before + length == start:
                joined[-1] = (before, length + size)
            else:
                joined.append((start, size))
        self._free = joined
        for number, (start, size) in enumerate(joined):
            if size >= room:
                joined[number : number + 1] = [(start + room, size - room)] if size > room else []
                return start
        start, self._end = self._end, self._end + room
        return start


def _taken(values: Any, positions: Any) -> Iterator[Any]:
    """The values at some positions, in parts: `values[positions]` takes up to twice as long where positions have 32 bits."""
    return (values.take(positions[start : start + TAKEN_AT_ONCE]) for start in range(0, len(positions), TAKEN_AT_ONCE))


def in_pieces(content: bytes | memoryview) -> Iterator[memoryview]:
    """What is to be written, in pieces of `PIECE` bytes."""
    whole = memoryview(content)
    return (whole[start : start + PIECE] for start in range(0, len(whole), PIECE))


def _nameless(folder: Path | None) -> IO[bytes]:
    return tempfile.TemporaryFile(prefix="fencepost-array-", dir=folder, buffering=0)


def _locked(path: Path) -> IO[bytes] | None:
    """A file to write arrays to that nobody else does, nor has arrays of; None where that is not to be had."""
    with suppress(OSError):
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "r+b", buffering=0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise
        return file
    return None


def _write(file: IO[bytes], start: int, parts: Iterable[Any], kind: np.dtype[Any]) -> None:
    """Write the parts of an array from some place of a file on. Raises OSError."""
    for part in parts:
        content = np.ascontiguousarray(part, dtype=kind).data.cast("B")
        while content:
            written = os.pwrite(file.fileno(), content[:PIECE], start)
            content, start = content[written:], start + written


def _is_mapped(values: Any) -> bool:
    while isinstance(values, np.ndarray):
        values = values.base
    return isinstance(values, memoryview) and isinstance(values.obj, mmap.mmap)
