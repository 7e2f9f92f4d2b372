"""Logs that programs write which are not ours: kept below a size, whatever is written.

A program has its log as its standard output or error and appends to it, so nobody stands in between: the log outlives the
program, whoever is killed or frozen. A log that has become too long is cut behind its beginning, and what comes then follows
there. A line at the cut says how much was dropped.
"""

from __future__ import annotations

import fcntl
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

LARGEST = 64 << 20  # bytes of a log; half of it is kept of the beginning
LARGEST_OF = {"server.log": 1 << 30}  # brokers write more in a night
EVERY_S = 0.2  # between two looks
SHORT, WORDS = 1 << 20, 2000  # bytes of a log that nobody keeps; of its end that is shown


class Bound:
    """The bound of one log.

    largest: bytes at which it is cut to half of them.
    """

    def __init__(self, largest: int = LARGEST) -> None:
        self._largest = largest
        self.dropped = 0  # bytes

    def shorten(self, log: int) -> None:
        """Cut the log (a descriptor that can be written) if it is too long."""
        size = os.fstat(log).st_size
        if size <= self._largest:
            return
        kept = self._largest // 2
        self.dropped += size - kept
        os.ftruncate(log, kept)
        os.write(log, f"\nfencepost: {self.dropped} bytes of this log were dropped here\n".encode())


class BoundedLogs:
    """Keeps every log below a directory short, from a thread of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._bounds: dict[str, Bound] = {}
        self._over = threading.Event()

    @contextmanager
    def bounded(self) -> Iterator[None]:
        """Within the block no log becomes much longer than it may."""
        thread = threading.Thread(target=self._watch, daemon=True, name="logs")
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
            self.look()

    def _watch(self) -> None:
        while not self._over.wait(EVERY_S):
            self.look()

    def look(self) -> None:
        """Cut what is too long now."""
        for path in _files(self._directory):
            largest = LARGEST_OF.get(os.path.basename(path), LARGEST)
            with suppress(OSError):
                if os.stat(path, follow_symlinks=False).st_size > largest:
                    self._shorten(path, largest)

    def _shorten(self, path: str, largest: int) -> None:
        log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if stat.S_ISREG(os.fstat(log).st_mode):
                self._bounds.setdefault(path, Bound(largest)).shorten(log)
        finally:
            os.close(log)


def _files(directory: Path) -> Iterator[str]:
    for place, _, names in os.walk(directory):  # follows no links
        for name in names:
            yield os.path.join(place, name)


class ShortLog:
    """A log without a name that is gone with the block: of a program that is asked something, and of which nothing is kept."""

    def __init__(self, largest: int | None = None) -> None:
        self._largest = SHORT if largest is None else largest

    def __enter__(self) -> ShortLog:
        self.file: IO[bytes] = TemporaryFile()
        fcntl.fcntl(self.file, fcntl.F_SETFL, fcntl.fcntl(self.file, fcntl.F_GETFL) | os.O_APPEND)
        self._bound = Bound(self._largest)
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def shorten(self) -> None:
        """Cut it if it is too long."""
        self._bound.shorten(self.file.fileno())

    def text(self) -> str:
        """All that is in it."""
        self.shorten()
        return os.pread(self.file.fileno(), self._largest, 0).decode("utf-8", "replace")

    def last_words(self, lines: int = 3) -> str:
        """The last lines of it."""
        size = os.fstat(self.file.fileno()).st_size
        end = os.pread(self.file.fileno(), WORDS, max(0, size - WORDS)).decode("utf-8", "replace")
        return " / ".join([line.strip() for line in end.splitlines() if line.strip()][-lines:])
