"""Builds the connectors' jars: `python -m fencepost.workloads.connectors.build`. Only who changes a connector needs it.

The compiler is a fixed release of Eclipse's, the API a fixed release of Kafka's, both from Maven's central repository: so a
jar is the same wherever it is built.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from fencepost.harness.fetching import maven, tools
from fencepost.harness.fetching.java import java

HERE = Path(__file__).parent
API = "3.3.2"  # of the first line with exactly-once sources (KIP-618); later ones only added to it
COMPILER = "3.38.0"
RELEASE = "11"  # the oldest Java that Connect 3.3 runs on
SUMS = "META-INF/sources.sha256"  # in the jar: what it was built from
_MANIFEST = "META-INF/MANIFEST.MF"
_EPOCH = (1980, 1, 1, 0, 0, 0)


def jar_of(connector: str) -> Path:
    """The built jar of a connector ("numbered")."""
    return HERE / f"{connector}.jar"


def sources(connector: str) -> Mapping[str, bytes]:
    """A connector's sources, by their path below its directory."""
    directory = HERE / connector
    return {str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def sums(connector: str) -> bytes:
    """A line for each source: its SHA-256 and its path."""
    return "".join(f"{hashlib.sha256(text).hexdigest()}  {name}\n" for name, text in sources(connector).items()).encode()


def fetch(library: Path) -> None:
    """Put the compiler and Connect's API into an empty directory. Raises ClusterError when they cannot be reached."""
    wanted = [("org.apache.kafka", "connect-api", API), ("org.eclipse.jdt", "ecj", COMPILER)]
    maven.fetch(f"connect-api {API}", wanted, library)


def build(connector: str, library: Path) -> Mapping[str, bytes]:
    """The entries of a connector's jar, compiled with what `fetch` put into `library`.

    Raises ToolError with what the compiler says.
    """
    resources = {name: text for name, text in sources(connector).items() if not name.endswith(".java")}
    manifest = b"Manifest-Version: 1.0\r\n\r\n"
    return {_MANIFEST: manifest, SUMS: sums(connector), **resources, **_classes(connector, library)}


def write(jar: Path, entries: Mapping[str, bytes]) -> None:
    """Write a jar with fixed times, its manifest first."""
    with ZipFile(jar, "w", ZIP_DEFLATED) as file:
        for name, content in entries.items():
            entry = ZipInfo(name, _EPOCH)
            entry.compress_type = ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            file.writestr(entry, content)


def _classes(connector: str, library: Path) -> dict[str, bytes]:
    compiler = [java()[0], "-jar", str(library / f"ecj-{COMPILER}.jar")]
    api = ":".join(str(path) for path in sorted(library.glob("*.jar")) if not path.name.startswith("ecj-"))
    with tempfile.TemporaryDirectory(prefix="fencepost-connector-") as made:
        options = [f"-{RELEASE}", "-nowarn", "-proc:none", "-encoding", "UTF-8", "-cp", api, "-d", made]
        tools.run([*compiler, *options, str(HERE / connector)], f"compiling the connector {connector}")
        return {str(path.relative_to(made)): path.read_bytes() for path in sorted(Path(made).rglob("*.class"))}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="fencepost-connector-") as library:
        fetch(Path(library))
        for directory in sorted(HERE.glob("*/META-INF")):
            connector = directory.parent.name
            write(jar_of(connector), build(connector, Path(library)))


if __name__ == "__main__":
    main()
