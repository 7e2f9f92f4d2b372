"""The manifest of what was fetched: the checksums of its files, and size and time of each when it was compared.

Files are compared with it before each use. A file of the same size and time as then is taken to be the same, which costs nothing;
any other is read, and then its checksum decides.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fencepost.harness.api import ClusterError

MANIFEST = "manifest.json"
Stamp = list[int]  # size in bytes, time of the last change in ns


@dataclass(frozen=True)
class Manifest:
    """The list of a directory's files, with their checksums.

    directory: the directory that it is of.
    version: of what was fetched.
    files: each path below the directory with its SHA-256.
    stamps: each path with its size and times when it was last compared.
    """

    directory: Path
    version: str
    files: Mapping[str, str]
    stamps: Mapping[str, Stamp]

    def write(self) -> None:
        """Write it, complete or not at all. Raises OSError."""
        text = json.dumps({"version": self.version, "files": dict(self.files), "stamps": dict(self.stamps)}, indent=1)
        descriptor, part = tempfile.mkstemp(prefix=".manifest-", dir=self.directory)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.chmod(part, 0o644)
        os.replace(part, self.directory / MANIFEST)

    def damage(self, every: bool = False) -> list[str]:
        """The damage of the files, a sentence each; those that are unchanged by their stamp are read only with `every`."""
        stamps = {name: _stamp(self.directory / name) for name in self.files}
        suspect = [name for name in self.files if every or not stamps[name] or stamps[name] != self.stamps.get(name)]
        wrong = [text for name in suspect if (text := self._wrong(name))]
        if suspect and not wrong and not every:
            with suppress(OSError):  # a cache that we may not write is read each time
                Manifest(self.directory, self.version, self.files, stamps).write()
        return wrong

    def checksum(self) -> str:
        """One SHA-256 over the names and checksums of all files."""
        return hashlib.sha256("".join(f"{name} {self.files[name]}\n" for name in sorted(self.files)).encode()).hexdigest()

    def _wrong(self, name: str) -> str:
        path = self.directory / name
        try:
            checksum = sha256(path)
        except FileNotFoundError:
            return f"{path} is missing"
        except OSError as error:
            return f"{path} cannot be read: {error.strerror}"
        if checksum == self.files[name]:
            return ""
        return f"{path} is not what was fetched: SHA-256 {checksum}, expected {self.files[name]}"


def of(directory: Path, version: str) -> Manifest:
    """The manifest of what was just fetched: every plain file below the directory."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
    names = {path.relative_to(directory).as_posix(): path for path in paths}
    checksums = {name: sha256(path) for name, path in names.items()}
    return Manifest(directory, version, checksums, {name: _stamp(path) for name, path in names.items()})


def read(directory: Path) -> Manifest | None:
    """The manifest in a directory, None when there is none. Raises ClusterError when it cannot be understood."""
    try:
        document = json.loads((directory / MANIFEST).read_text())
        files = document["jars"] if "jars" in document else document["files"]  # a former name
        if not all(isinstance(checksum, str) and _below(name) for name, checksum in files.items()):
            raise ValueError("names must be paths below the directory, checksums texts")
        return Manifest(directory, str(document["version"]), dict(files), dict(document.get("stamps", {})))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ClusterError(f"{directory / MANIFEST} cannot be understood ({type(error).__name__}: {error})") from error


def _below(name: str) -> bool:
    return not name.startswith("/") and ".." not in name.split("/")


def sha256(path: Path) -> str:
    with path.open("rb") as f:
        digest = hashlib.sha256()
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _stamp(path: Path) -> Stamp:
    """The file's size and time of change; empty when there is no such file."""
    try:
        status = path.stat()
    except OSError:
        return []
    return [status.st_size, status.st_mtime_ns]
