"""Transfers files to and from a host: jars by their checksums, a run's files, log segments."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from pathlib import Path
from typing import IO

from clusters.fault_tools.disks import BALLAST

_SKIPPED = ("index", ".lock", BALLAST)  # ends of names: indexes can be rebuilt


def jar_path(directory: Path, name: str, checksum: str) -> Path:
    """The path of a jar: under its SHA-256, so that versions share common jars."""
    return directory / checksum[:16] / name


def missing(directory: Path, jars: dict[str, str]) -> list[str]:
    """Names of jars (name -> SHA-256) that are not there, or are not what they should be."""
    return [name for name, checksum in jars.items() if _sha256(jar_path(directory, name, checksum)) != checksum]


def receive(stream: IO[bytes], directory: Path) -> None:
    """Store jars from a tar of `checksum/name`, each complete or not at all. Raises ValueError for a damaged one."""
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            checksum, _, name = member.name.partition("/")
            target = jar_path(directory, name, checksum)
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.parent / f".{name}-{os.getpid()}"
            try:
                _write(tar, member, part)
                if _sha256(part) != checksum:
                    raise ValueError(f"{name} arrived damaged: SHA-256 {_sha256(part)}, expected {checksum}")
                os.replace(str(part), str(target))
            finally:
                if part.exists():
                    part.unlink()


def unpack(stream: IO[bytes], directory: Path) -> None:
    """Store the files and directories of a tar."""
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            target = directory / member.name
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
            elif member.isfile():
                target.parent.mkdir(parents=True, exist_ok=True)
                _write(tar, member, target)


def pack(directory: Path, stream: IO[bytes]) -> None:
    """Write everything in a directory as a tar, without what can be rebuilt."""
    with tarfile.open(fileobj=stream, mode="w|") as tar:
        for path in sorted(directory.rglob("*")):
            if not path.name.endswith(_SKIPPED):
                tar.add(str(path), str(path.relative_to(directory)), recursive=False)


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    source = tar.extractfile(member)
    assert source is not None
    with target.open("wb") as out:
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
