"""Files beneath a directory whose content may come from anywhere, such as that of a run (docs/run-directory.md).

The directory is what its user named, and links lead to it as to any file. Beneath it no link is followed: each folder on the way
is opened from the descriptor of the one before, and a file that is opened is a regular one, so that nobody waits at a pipe or
changes a device. A document is written beside its place and takes it by a rename, whatever lay there before. What is written in
place (logs, lines of a history) has no other name: a hard link would lead elsewhere. Nothing else writes beneath such a directory
(`tests/harness/test_writers.py`).
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from fencepost.harness.api.errors import UnwritableFile
from fencepost.harness.api.files import KINDS, content_within

_PASSED = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC  # a folder may be entered that may not be listed
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHANGE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_REMEDIES = {  # where a file cannot be written, and nothing else lies in its place
    errno.EACCES: "allow writing to {folder}, or copy it to where you may write",
    errno.EPERM: "allow writing to {folder}, or copy it to where you may write",
    errno.EROFS: "copy {folder} to where you may write",
    errno.ENOSPC: "make room on the disk of {folder}",
    errno.EDQUOT: "make room on the disk of {folder}",
    errno.ENOENT: "is {folder} still there?",
}


# --------------------------------------------------------------------------------------------------
# Reading
# --------------------------------------------------------------------------------------------------
def regular(directory: Path, file: str) -> Path:
    """The path of a file beneath a directory, when it is a regular one that no link leads to.

    For libraries that open paths themselves. Raises FileNotFoundError when nothing lies there, and OSError for anything else.
    """
    with _folder_of(directory, file) as (folder, name):
        _demand_regular(folder, name)
    return directory / file


def reading(directory: Path, file: str) -> BinaryIO:
    """A regular file beneath a directory, opened. Raises OSError."""
    with _folder_of(directory, file) as (folder, name):
        return os.fdopen(_opened(folder, name, _READ), "rb")


def limited(directory: Path, file: str, most: int) -> bytes:
    """The content of a regular file. Raises OSError, also for one with more than `most` bytes."""
    with reading(directory, file) as opened:
        return content_within(opened, most)


def names(directory: Path, folder: str) -> list[str]:
    """The names in a folder beneath a directory, in order; none where there is no such folder. Raises OSError: it is a link."""
    try:
        with _folder(directory, PurePosixPath(folder).parts) as passed:
            descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=passed)
            try:
                return sorted(os.listdir(descriptor))
            finally:
                os.close(descriptor)
    except FileNotFoundError:
        return []


# --------------------------------------------------------------------------------------------------
# Writing
# --------------------------------------------------------------------------------------------------
@contextmanager
def replacing(directory: Path, file: str) -> Iterator[BinaryIO]:
    """A new file beside `file` to be written; it takes that place when the block ends, and vanishes when that raises.

    A link or a pipe in that place is replaced as a file is. Raises UnwritableFile when one of the two cannot be written.
    """
    with _writable(directory, file), _folder_of(directory, file) as (folder, name):
        part = f".{name}.{secrets.token_hex(6)}.part"  # not to be guessed, and unique in every PID namespace
        written = os.fdopen(os.open(part, _NEW, 0o666, dir_fd=folder), "wb")
        try:
            with written:
                yield written
            os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(part, dir_fd=folder)
            raise


def write_text(directory: Path, file: str, text: str, *, synced: bool = False) -> None:
    """Write a text, complete or not at all: a reader never sees half a file. synced: it is on the disk when the call returns.

    Half of a surrogate pair, which UTF-8 does not hold, is written as `\\ud83d`, JSON's own escape. Raises UnwritableFile.
    """
    with replacing(directory, file) as part:
        part.write(text.encode("utf-8", errors="backslashreplace"))
        if synced:
            part.flush()
            os.fsync(part.fileno())


def json_text(obj: Any) -> str:
    """A document as it is written."""
    return json.dumps(obj, indent=1, ensure_ascii=False, default=str) + "\n"


def write_json(directory: Path, file: str, obj: Any) -> None:
    """Write `obj` as JSON, complete or not at all, and on the disk when the call returns. Raises UnwritableFile."""
    write_text(directory, file, json_text(obj), synced=True)


def make_folder(directory: Path, folder: str) -> None:
    """Make a folder beneath a directory, with those on the way; nothing where it is there. Raises UnwritableFile."""
    with _writable(directory, folder), _folder(directory, PurePosixPath(folder).parts, make=True):
        pass


def make_new_folder(directory: Path, folder: str) -> bool:
    """Make a folder as `make_folder` does; False when it was there, so that of several processes one alone has made it."""
    *way, name = PurePosixPath(folder).parts
    with _writable(directory, folder), _folder(directory, way, make=True) as within:
        try:
            os.mkdir(name, dir_fd=within)
        except FileExistsError:
            return False
        return True


def appending(directory: Path, file: str) -> int:
    """A descriptor at the end of a file, which is made where there is none, as are the folders on the way.

    Raises UnwritableFile, also for a file that has another name besides: what is appended would be in that one, too.
    """
    with _writable(directory, file), _folder_of(directory, file, make=True) as (folder, name):
        return _opened(folder, name, _APPEND, alone=True)


def log_file(directory: Path, file: str) -> BinaryIO:
    """A file beneath a directory to whose end everything is written at once (`appending`), as a child's output is."""
    return os.fdopen(appending(directory, file), "ab", buffering=0)


def remove(directory: Path, file: str) -> None:
    """Remove a file beneath a directory, or the link in its place; nothing where that cannot be done."""
    with suppress(OSError), _folder_of(directory, file) as (folder, name):
        os.unlink(name, dir_fd=folder)


def remove_empty(directory: Path, folder: str) -> None:
    """Remove a folder in which nothing lies; nothing where that cannot be done."""
    with suppress(OSError), _folder_of(directory, folder) as (within, name):
        os.rmdir(name, dir_fd=within)


def changing(directory: Path, file: str) -> BinaryIO:
    """A file beneath a directory, opened to be changed where it lies, since others have it open. Raises UnwritableFile."""
    with _writable(directory, file), _folder_of(directory, file) as (folder, name):
        return os.fdopen(_opened(folder, name, _CHANGE, alone=True), "r+b")


# --------------------------------------------------------------------------------------------------
# From descriptor to descriptor
# --------------------------------------------------------------------------------------------------
@contextmanager
def _folder_of(directory: Path, file: str, make: bool = False) -> Iterator[tuple[int, str]]:
    """The folder of a file, opened, and the file's name in it."""
    *folders, name = PurePosixPath(file).parts
    if name in ("..", "/"):
        raise OSError(errno.EINVAL, f"{file!r} is no file beneath a directory")
    with _folder(directory, folders, make) as folder:
        yield folder, name


@contextmanager
def _folder(directory: Path, folders: tuple[str, ...] | list[str], make: bool = False) -> Iterator[int]:
    """A descriptor of a folder beneath a directory. Raises OSError, also where a link leads to one of them."""
    descriptor = os.open(directory, _PASSED)
    try:
        for folder in folders:
            within = _entered(descriptor, folder, make)
            os.close(descriptor)
            descriptor = within
        yield descriptor
    finally:
        os.close(descriptor)


def _entered(descriptor: int, folder: str, make: bool) -> int:
    if folder in ("..", "/"):
        raise OSError(errno.EINVAL, f"{folder!r} does not lead beneath the directory")
    if make:
        with suppress(FileExistsError):
            os.mkdir(folder, dir_fd=descriptor)
    try:
        return os.open(folder, _PASSED | os.O_NOFOLLOW, dir_fd=descriptor)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            status = os.stat(folder, dir_fd=descriptor, follow_symlinks=False)
            raise OSError(errno.ENOTDIR, _wrong(descriptor, folder, status.st_mode, "folder")) from None
        raise


def _opened(folder: int, name: str, flags: int, alone: bool = False) -> int:
    """A descriptor of a regular file; alone: it has no other name. Raises OSError for anything else, and opens none of that."""
    with suppress(FileNotFoundError):
        _demand_regular(folder, name)
    descriptor = os.open(name, flags, 0o666, dir_fd=folder)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):  # since it was looked at
            raise OSError(errno.EINVAL, f"it is {KINDS.get(stat.S_IFMT(status.st_mode), 'no file')}")
        if alone and status.st_nlink > 1:
            raise OSError(errno.EMLINK, "it is a hard link: the same file has another name elsewhere")
        os.set_blocking(descriptor, True)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _demand_regular(folder: int, name: str) -> None:
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    if not stat.S_ISREG(mode):
        raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, _wrong(folder, name, mode, ""))


def _wrong(folder: int, name: str, mode: int, named: str) -> str:
    """The reason why an entry is not opened, in words; named: what the sentence calls it besides its name."""
    subject = f"its {named} `{name}`" if named else "it"
    if stat.S_ISLNK(mode):
        return f"{subject} is a link to {os.readlink(name, dir_fd=folder)!r}, and links in this directory are not followed"
    return f"{subject} is {KINDS.get(stat.S_IFMT(mode), 'a file')}"


@contextmanager
def _writable(directory: Path, file: str) -> Iterator[None]:
    """Raises UnwritableFile, with the remedy, for each OSError of a block."""
    path = directory / file
    try:
        yield
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, "remove what lies there").format(folder=path.parent)
        raise UnwritableFile([f"{path}: cannot be written ({error.strerror or error}); {remedy}"]) from error
