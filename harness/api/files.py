"""Files that may come from anywhere, read if they are regular files. Those of a run's directory: `harness.api.beneath`."""

from __future__ import annotations

import os
import stat
import zlib
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

Checksum = tuple[int, int]  # size, CRC-32
_PART = 1 << 20
_WORDS = 1 << 14  # bytes of the end of a log in which its last lines are looked for
_OF_THE_KERNEL = ("/proc/", "/sys/")
KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def regular(path: Path) -> Path:
    """The path itself, when a regular file lies there, perhaps behind links: only such a file ends when it is read.

    Raises FileNotFoundError when nothing lies there, and OSError for a link that leads nowhere, a directory, a pipe, a device, or
    a file of the kernel.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise OSError(f"it is a link to {os.readlink(path)}, which does not exist") from None
        raise
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        raise OSError(f"it is {KINDS.get(kind, 'no file')}")
    if not status.st_size and str(path.resolve()).startswith(_OF_THE_KERNEL):
        raise OSError("it is a file of the kernel, which may never end")
    return path


def demand_ending(folder: Path) -> None:
    """Raises OSError when a pipe, a socket or a device lies in a folder: a library that opens all in it would wait for ever."""
    for path in folder.rglob("*"):
        kind = stat.S_IFREG
        with suppress(OSError):  # a link that leads nowhere: nobody can open it
            kind = stat.S_IFMT(path.stat().st_mode)
        if kind not in (stat.S_IFREG, stat.S_IFDIR):
            raise OSError(f"{path.name}: it is {KINDS.get(kind, 'no file')}")


def limited(path: Path, most: int) -> bytes:
    """The content of a regular file. Raises OSError, also for one with more bytes than `most`: a sparse file has any size."""
    with regular(path).open("rb") as file:
        return content_within(file, most)


def content_within(file: BinaryIO, most: int) -> bytes:
    """The content of an opened file. Raises OSError for one with more bytes than `most`, before it is read."""
    if os.fstat(file.fileno()).st_size <= most:
        content = file.read(most + 1)  # it may grow meanwhile
        if len(content) <= most:
            return content
    raise OSError(f"it has more than {most:,} bytes")


def fits_in_memory() -> int:
    """The number of bytes of a file that may be held at a time: an eighth of this machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8


def checksum(path: Path) -> Checksum:
    """The size of a file and the CRC-32 of its content. Raises OSError."""
    status = regular(path).stat()
    return status.st_size, _crc(path, status.st_size, status.st_mtime_ns)


@lru_cache
def _crc(path: Path, size: int, changed_ns: int) -> int:
    crc = 0
    with path.open("rb") as file:
        while part := file.read(_PART):
            crc = zlib.crc32(part, crc)
    return crc


def last_words(log: Path, lines: int = 5) -> str:
    """The last lines of a log, for an error that quotes them. Raises OSError."""
    with open(regular(log), "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _WORDS))
        text = file.read(_WORDS).decode("utf-8", "replace")
    return " / ".join(text.strip().splitlines()[-lines:]) or "none"
