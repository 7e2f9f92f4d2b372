"""Jars of our own Java sources, built once and kept beside them; only who changes a source builds one again.

The compiler is a fixed release of Eclipse's, the libraries are fixed releases from Maven's central repository, and the entries
have fixed times: so a jar is the same wherever it is built.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from fencepost.harness.fetching import maven, tools
from fencepost.harness.fetching.java import java

COMPILER = "3.38.0"
SUMS = "META-INF/sources.sha256"  # in the jar: what it was built from
_MANIFEST = "META-INF/MANIFEST.MF"
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class BuiltJar:
    """A jar and its sources.

    directory: the directory of the sources; the jar lies beside it, with its name.
    libraries: the libraries that it is compiled against, as (group, artifact, version).
    release: the oldest Java that it runs on.
    """

    directory: Path
    libraries: Sequence[tuple[str, str, str]]
    release: str

    @property
    def jar(self) -> Path:
        """The built jar."""
        return self.directory.with_suffix(".jar")

    def sources(self) -> Mapping[str, bytes]:
        """The sources, by their path below the directory."""
        files = [path for path in sorted(self.directory.rglob("*")) if path.is_file()]
        return {str(path.relative_to(self.directory)): path.read_bytes() for path in files}

    def sums(self) -> bytes:
        """A line for each source: its SHA-256 and its path."""
        return "".join(f"{hashlib.sha256(text).hexdigest()}  {name}\n" for name, text in self.sources().items()).encode()

    def entries(self) -> Mapping[str, bytes]:
        """The entries of the jar as it lies there."""
        with ZipFile(self.jar) as jar:
            return {name: jar.read(name) for name in jar.namelist()}

    def fetch(self, library: Path) -> None:
        """Put the compiler and the libraries into an empty directory. Raises ClusterError when they cannot be reached."""
        maven.fetch(self.directory.name, [*self.libraries, ("org.eclipse.jdt", "ecj", COMPILER)], library)

    def build(self, library: Path) -> Mapping[str, bytes]:
        """The entries of the jar, compiled with what `fetch` put into `library`. Raises ToolError with what the compiler says."""
        resources = {name: text for name, text in self.sources().items() if not name.endswith(".java")}
        manifest = b"Manifest-Version: 1.0\r\n\r\n"
        return {_MANIFEST: manifest, SUMS: self.sums(), **resources, **self._classes(library)}

    def rebuild(self) -> None:
        """Fetch, build and write the jar."""
        with tempfile.TemporaryDirectory(prefix="fencepost-jar-") as library:
            self.fetch(Path(library))
            write(self.jar, self.build(Path(library)))

    def _classes(self, library: Path) -> dict[str, bytes]:
        compiler = [java()[0], "-jar", str(library / f"ecj-{COMPILER}.jar")]
        path = ":".join(str(path) for path in sorted(library.glob("*.jar")) if not path.name.startswith("ecj-"))
        with tempfile.TemporaryDirectory(prefix="fencepost-jar-") as made:
            options = [f"-{self.release}", "-nowarn", "-proc:none", "-encoding", "UTF-8", "-cp", path, "-d", made]
            tools.run([*compiler, *options, str(self.directory)], f"compiling {self.directory.name}")
            return {str(path.relative_to(made)): path.read_bytes() for path in sorted(Path(made).rglob("*.class"))}


def write(jar: Path, entries: Mapping[str, bytes]) -> None:
    """Write a jar with fixed times, its manifest first, in the place of the one that a process may have open."""
    part = jar.with_name(f".{jar.name}.{os.getpid()}")
    try:
        _write(part, entries)
        part.replace(jar)
    finally:
        part.unlink(missing_ok=True)


def _write(jar: Path, entries: Mapping[str, bytes]) -> None:
    with ZipFile(jar, "w", ZIP_DEFLATED) as file:
        for name, content in entries.items():
            entry = ZipInfo(name, _EPOCH)
            entry.compress_type = ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            file.writestr(entry, content)
