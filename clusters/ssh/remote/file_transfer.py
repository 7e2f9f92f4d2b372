"""Transfers files to and from a host: jars by their checksums, a run's files, log segments.

Neither side trusts the other's tar: it may hold plain files and directories below the target, so many and so large, and nothing
else. (`tarfile`'s own filters came with Python 3.12 and late releases of 3.10 and 3.11, and bound neither number nor size.)
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from fencepost.clusters.fault_tools.disks import BALLAST

MOST_FILES, MOST_BYTES = 50_000, 16 << 30  # of one tar
_SKIPPED = ("index", ".lock", BALLAST)  # ends of names: indexes can be rebuilt
_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE)
_LONGEST_NAME = 4096


class UnsafeTar(ValueError):
    """A tar with a member that is refused. What came before it has been stored."""


class _PlainMember(tarfile.TarInfo):
    """A header of a plain file, a directory, or a long name (GNU); any other is refused before what follows it is read."""

    @classmethod
    def frombuf(cls, buf: Any, encoding: str, errors: str) -> _PlainMember:
        member = super().frombuf(buf, encoding, errors)
        if member.type == tarfile.GNUTYPE_LONGNAME and 0 <= member.size <= _LONGEST_NAME:
            return member
        if member.type not in _PLAIN or member.size < 0:
            raise UnsafeTar(f"{member.name!r} is no plain file or directory (type {member.type!r}, {member.size} bytes)")
        return member


def jar_path(directory: Path, name: str, checksum: str) -> Path:
    """The path of a jar: under its SHA-256, so that versions share common jars."""
    return directory / checksum[:16] / name


def missing(directory: Path, jars: dict[str, str]) -> list[str]:
    """Names of jars (name -> SHA-256) that are not there, or are not what they should be."""
    return [name for name, checksum in jars.items() if _sha256(jar_path(directory, name, checksum)) != checksum]


def receive(stream: IO[bytes], directory: Path) -> None:
    """Store jars from a tar of `checksum/name`, each complete or not at all. Raises ValueError for a damaged one."""
    with tarfile.open(fileobj=stream, mode="r|", tarinfo=_PlainMember) as tar:
        for member, path in _members(tar, directory):
            checksum, _, name = path.as_posix().partition("/")
            if not name or "/" in name:
                raise UnsafeTar(f"{member.name!r} is no jar's checksum/name")
            _receive_jar(tar, member, jar_path(directory, name, checksum), checksum)


def _receive_jar(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path, checksum: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.parent / f".{target.name}-{os.getpid()}"
    try:
        _write(tar, member, part)
        if _sha256(part) != checksum:
            raise ValueError(f"{target.name} arrived damaged: SHA-256 {_sha256(part)}, expected {checksum}")
        os.replace(str(part), str(target))
    finally:
        if part.exists():
            part.unlink()


def unpack(stream: IO[bytes], directory: Path, most_files: int = MOST_FILES, most_bytes: int = MOST_BYTES) -> None:
    """Store the plain files and directories of a tar below `directory`.

    Raises UnsafeTar at the first member that is anything else, lies elsewhere, or is too much; tarfile.ReadError for no tar.
    """
    try:
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_PlainMember) as tar:
            for member, path in _members(tar, directory, most_files, most_bytes):
                target = directory / path
                _make_directory(target if member.isdir() else target.parent)
                if not member.isdir():
                    _write(tar, member, target)
    except RecursionError as error:
        raise UnsafeTar("a long name follows a long name") from error


def _members(
    tar: tarfile.TarFile, directory: Path, most_files: int = MOST_FILES, most_bytes: int = MOST_BYTES
) -> Iterator[tuple[tarfile.TarInfo, PurePosixPath]]:
    """The members of a tar with their paths below `directory`. Raises UnsafeTar."""
    root, size = directory.resolve(), 0
    for number, member in enumerate(tar, 1):
        path = PurePosixPath(member.name)
        size += member.size
        if number > most_files or size > most_bytes:
            raise UnsafeTar(f"it holds more than {most_files} files, or more than {most_bytes} bytes: {member.name!r}")
        if path.is_absolute() or ".." in path.parts or "\0" in member.name or member.linkname or member.issparse():
            raise UnsafeTar(f"{member.name!r} is not a plain file or directory below the target")
        try:
            _demand_inside(root, Path(directory, path), path, member)
        except OSError as error:
            raise UnsafeTar(f"{member.name[:100]!r} cannot be a name: {error.strerror}") from error
        yield member, path


def _demand_inside(root: Path, target: Path, path: PurePosixPath, member: tarfile.TarInfo) -> None:
    """Raises UnsafeTar, and OSError for a name that cannot be."""
    if path == PurePosixPath() if member.isfile() else target.is_symlink():
        raise UnsafeTar(f"{member.name!r} takes the place of something else")
    if path.parts and root not in (parent := target.parent.resolve(), *parent.parents):
        raise UnsafeTar(f"{member.name!r} lies outside of the target, behind a link")


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnsafeTar(f"{path} cannot be a directory: {error.strerror}") from error


def pack(directory: Path, stream: IO[bytes]) -> None:
    """Write everything in a directory as a tar, without what can be rebuilt."""
    with opened(stream) as tar:
        for path in sorted(directory.rglob("*")):
            if not path.name.endswith(_SKIPPED):
                tar.add(str(path), str(path.relative_to(directory)), recursive=False)


def opened(stream: IO[bytes]) -> tarfile.TarFile:
    """A tar to be written, in the only format that the other side reads: without extended headers (pax)."""
    return tarfile.open(fileobj=stream, mode="w|", bufsize=1 << 18, format=tarfile.GNU_FORMAT)


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    source = tar.extractfile(member)
    assert source is not None
    try:
        descriptor = os.open(str(target), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise UnsafeTar(f"{target} cannot be a file: {error.strerror}") from error
    with os.fdopen(descriptor, "wb") as out:
        shutil.copyfileobj(source, out, 1 << 20)


def _sha256(path: Path) -> str:
    """The checksum of a file; empty when there is none."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
    except FileNotFoundError:
        return ""
    return digest.hexdigest()
