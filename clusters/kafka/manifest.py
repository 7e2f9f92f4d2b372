"""The manifest of a fetched version of Kafka: the checksums of its jars, and size and time of each when it was compared.

Jars are compared with it before each use. A jar of the same size and time as then is taken to be the same, which costs nothing;
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

from harness.api import ClusterError

MANIFEST = "manifest.json"
Stamp = list[int]  # size in bytes, time of the last change in ns


@dataclass(frozen=True)
class Manifest:
    """jars: each file name with its SHA-256. stamps: each file name with what it had when it was last compared."""

    directory: Path
    version: str
    jars: Mapping[str, str]
    stamps: Mapping[str, Stamp]

    def write(self) -> None:
        """Write it, complete or not at all. Raises OSError."""
        text = json.dumps({"version": self.version, "jars": dict(self.jars), "stamps": dict(self.stamps)}, indent=1)
        descriptor, part = tempfile.mkstemp(prefix=".manifest-", dir=self.directory)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.chmod(part, 0o644)
        os.replace(part, self.directory / MANIFEST)

    def damage(self, every: bool = False) -> list[str]:
        """What is wrong with the jars, a sentence each; those that are unchanged by their stamp are read only with `every`."""
        stamps = {name: _stamp(self.directory / name) for name in self.jars}
        suspect = [name for name in self.jars if every or not stamps[name] or stamps[name] != self.stamps.get(name)]
        wrong = [text for name in suspect if (text := self._wrong(name))]
        if suspect and not wrong and not every:
            with suppress(OSError):  # a cache that we may not write is read each time
                Manifest(self.directory, self.version, self.jars, stamps).write()
        return wrong

    def _wrong(self, name: str) -> str:
        path = self.directory / name
        try:
            found = sha256(path)
        except FileNotFoundError:
            return f"{path} is missing"
        except OSError as error:
            return f"{path} cannot be read: {error.strerror}"
        return "" if found == self.jars[name] else f"{path} is not what was fetched: SHA-256 {found}, expected {self.jars[name]}"


def of(directory: Path, version: str) -> Manifest:
    """The manifest of jars that were just fetched."""
    jars = sorted(directory.glob("*.jar"))
    return Manifest(directory, version, {jar.name: sha256(jar) for jar in jars}, {jar.name: _stamp(jar) for jar in jars})


def read(directory: Path) -> Manifest | None:
    """The manifest in a directory, None when there is none. Raises ClusterError when it cannot be understood."""
    try:
        found = json.loads((directory / MANIFEST).read_text())
        jars, stamps = found["jars"], found.get("stamps", {})
        if not all(isinstance(checksum, str) and name == Path(name).name for name, checksum in jars.items()):
            raise ValueError("names must be plain file names, checksums texts")
        return Manifest(directory, str(found["version"]), dict(jars), dict(stamps))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ClusterError(f"{directory / MANIFEST} cannot be understood ({type(error).__name__}: {error})") from error


def sha256(path: Path) -> str:
    with path.open("rb") as f:
        digest = hashlib.sha256()
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _stamp(path: Path) -> Stamp:
    """Empty when there is no such file."""
    try:
        found = path.stat()
    except OSError:
        return []
    return [found.st_size, found.st_mtime_ns]
