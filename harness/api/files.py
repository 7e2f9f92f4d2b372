"""Files of a run's directory, which may come from anywhere: read if they are regular files, written whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from fencepost.harness.api.errors import UnwritableFile

Checksum = tuple[int, int]  # size, CRC-32
MOST_DOCUMENT = 256 << 20  # bytes of a JSON document: far more than any of ours has
_PART = 1 << 20
_WORDS = 1 << 14  # bytes of the end of a log in which its last lines are looked for
_OF_THE_KERNEL = ("/proc/", "/sys/")
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_REMEDIES = {  # where a file cannot be written, and nothing else lies in its place
    errno.EACCES: "allow writing to {folder}, or copy it to where you may write",
    errno.EPERM: "allow writing to {folder}, or copy it to where you may write",
    errno.EROFS: "copy {folder} to where you may write",
    errno.ENOSPC: "make room on the disk of {folder}",
    errno.EDQUOT: "make room on the disk of {folder}",
    errno.ENOENT: "is {folder} still there?",
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
        raise OSError(f"it is {_KINDS.get(kind, 'no file')}")
    if not status.st_size and str(path.resolve()).startswith(_OF_THE_KERNEL):
        raise OSError("it is a file of the kernel, which may never end")
    return path


def limited(path: Path, most: int = MOST_DOCUMENT) -> bytes:
    """The content of a regular file. Raises OSError, also for one with more bytes than `most`: a sparse file has any size."""
    with regular(path).open("rb") as file:
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


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file beside `path` to be written; it takes the place of `path` when the block ends, and vanishes when that raises.

    Raises UnwritableFile when one of the two cannot be written.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")  # not to be guessed, and unique in every PID namespace
    try:
        yield part
        part.replace(path)
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, "remove what lies there").format(folder=path.parent)
        raise UnwritableFile([f"{path}: cannot be written ({error.strerror or error}); {remedy}"]) from error
    finally:
        if part.is_file():
            part.unlink()


def write_json(path: Path, obj: Any) -> None:
    """Write `obj` as JSON, complete or not at all: a reader never sees half a file.

    Half of a surrogate pair, which UTF-8 does not hold, is written as `\\ud83d`, JSON's own escape. Raises CampaignError.
    """
    with replacing(path) as part, part.open("w", encoding="utf-8", errors="backslashreplace") as file:
        json.dump(obj, file, indent=1, ensure_ascii=False, default=str)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())


def last_words(log: Path, lines: int = 5) -> str:
    """The last lines of a log, for an error that quotes them. Raises OSError."""
    with open(regular(log), "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _WORDS))
        text = file.read(_WORDS).decode("utf-8", "replace")
    return " / ".join(text.strip().splitlines()[-lines:]) or "none"
