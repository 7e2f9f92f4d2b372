"""Kafka by version: the jars of any released broker, fetched once and kept.

Resolved from Maven's central repository by the Ivy that PySpark ships, so that Java is all a machine needs. A version in the
cache is complete or absent: it is fetched into a temporary directory, listed with checksums, and renamed. After that, the
network is not used again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from clusters.kafka import broker_config
from clusters.kafka.java import java
from clusters.kafka.versions import KNOWN, numbers, refusal
from harness.api import CampaignError, ClusterError, HarnessError

_SCALA = "2.13"
_SLF4J = "1.7.36"  # Kafka brings slf4j's API of this line, and no logger
_MANIFEST = "manifest.json"
_FETCH_S = 900.0
_UNREACHED = ("UnknownHost", "Host ", "ConnectException", "timed out", "Connection refused", "SERVER ERROR")

Ivy = Callable[[Path, Path, Path], "subprocess.CompletedProcess[str]"]  # (ivy.xml, destination, cache)


@dataclass(frozen=True)
class Distribution:
    """The jars of one Kafka version: `jars` maps each file name to its SHA-256."""

    version: str
    directory: Path
    jars: Mapping[str, str]

    def classpath(self) -> str:
        return os.pathsep.join(str(self.directory / name) for name in sorted(self.jars))

    def command(self, main: str, arguments: Iterable[str], heap_mb: int, flags: Iterable[str] = ()) -> list[str]:
        """The command line of one of its programs on this machine's Java. Raises ClusterError when there is no Java."""
        known = [f"-XX:SharedArchiveFile={self.classes()}"] if self.classes().exists() else []
        return broker_config.command(java()[0], self.classpath(), main, arguments, heap_mb, [*known, *flags])

    def classes(self) -> Path:
        """The path of the archive of its classes for the present Java (`clusters.local.class_archive`)."""
        return self.directory / f"classes-java-{java()[1]}.jsa"


def cache_dir() -> Path:
    """The directory of everything fetched: FENCEPOST_CACHE, else `fencepost` under XDG_CACHE_HOME or ~/.cache."""
    if named := os.environ.get("FENCEPOST_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fencepost"


def fetch(version: str, on_progress: Callable[[str], None] = lambda _: None, ivy: Ivy | None = None) -> Distribution:
    """The distribution of `version`, from the cache or else from Maven's central repository (about a minute, 45 MB).

    `on_progress` gets one line about each long step; `ivy` replaces the resolver (tests). Raises ClusterError naming the
    version and the resolver's output, when the network is away or Java is missing; CampaignError when there is no such version.
    """
    if wrong := refusal(version):
        raise CampaignError([wrong])
    if found := _read(version):
        return found
    with _locked(on_progress):
        _remove_leftovers()
        found = _read(version)  # another process may have fetched it meanwhile
        return found or _fetch(version, on_progress, ivy or run_ivy)


def installed() -> list[Distribution]:
    """Every complete distribution in the cache, oldest version first."""
    found = [_read(path.parent.name) for path in kafka_dir().glob(f"*/{_MANIFEST}")]
    return sorted((d for d in found if d), key=lambda d: numbers(d.version))


def verify(version: str) -> list[str]:
    """Read every jar of a cached version again; what is wrong, one sentence each (empty: all as fetched)."""
    found = _read(version)
    if found is None:
        return [f"Kafka {version} is not in {kafka_dir()}"]
    wrong = []
    for name, checksum in found.jars.items():
        path = found.directory / name
        if not path.is_file():
            wrong.append(f"{path} is missing")
        elif _sha256(path) != checksum:
            wrong.append(f"{path} is not what was fetched: SHA-256 {_sha256(path)}, expected {checksum}")
    return wrong


def run_ivy(recipe: Path, destination: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    """Resolve `recipe` (an ivy.xml) and put the jars into `destination`."""
    spec = find_spec("pyspark")
    jars = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar")) if spec and spec.origin else []
    if not jars:
        raise ClusterError("Kafka is fetched with the Ivy inside PySpark, and this PySpark has none: pip install 'pyspark>=4.1'")
    pattern = f"{destination}/[artifact]-[revision](-[classifier]).[ext]"
    argv = [java()[0], "-jar", str(jars[-1]), "-ivy", str(recipe), "-retrieve", pattern, "-cache", str(cache)]
    try:
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_FETCH_S)
    except subprocess.TimeoutExpired as e:
        raise ClusterError(f"fetching Kafka: no end after {_FETCH_S:.0f} s; is Maven's central repository slow today?") from e


def kafka_dir() -> Path:
    """Where the versions of Kafka lie."""
    return cache_dir() / "kafka"


def _read(version: str) -> Distribution | None:
    manifest = kafka_dir() / version / _MANIFEST
    if not manifest.is_file():
        return None
    jars = json.loads(manifest.read_text())["jars"]
    return Distribution(version, manifest.parent, jars)


def _fetch(version: str, on_progress: Callable[[str], None], ivy: Ivy) -> Distribution:
    on_progress(f"fetching Kafka {version} from Maven's central repository")
    directory = Path(tempfile.mkdtemp(prefix=f".{version}-", dir=kafka_dir()))
    try:
        recipe = directory / "ivy.xml"
        recipe.write_text(_recipe(version))
        done = ivy(recipe, directory, cache_dir() / "ivy")
        jars = {path.name: _sha256(path) for path in sorted(directory.glob("*.jar"))}
        if done.returncode != 0 or f"kafka_{_SCALA}-{version}.jar" not in jars:
            raise _refused(version, done.stdout + done.stderr)
        (directory / _MANIFEST).write_text(json.dumps({"version": version, "jars": jars}, indent=1))
        directory.chmod(0o755)
        directory.rename(kafka_dir() / version)
    finally:
        shutil.rmtree(directory, ignore_errors=True)  # gone already when it was renamed
    return Distribution(version, kafka_dir() / version, jars)


def _recipe(version: str) -> str:
    return f"""<ivy-module version="2.0">
  <info organisation="fencepost" module="kafka"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_{_SCALA}" rev="{version}" conf="default->default"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="{_SLF4J}" conf="default->default"/>
  </dependencies>
</ivy-module>
"""


def _refused(version: str, output: str) -> HarnessError:
    """What is wrong: there is no such version, or it could not be reached; with the resolver's own words."""
    lines = [line.strip(" \t:") for line in output.splitlines()]
    unreached = [line for line in lines if any(word in line for word in _UNREACHED)]
    absent = [line for line in lines if "not found" in line]
    if absent and not unreached:
        known = ", ".join(KNOWN)
        return CampaignError([f"Kafka {version}: there is no such version ({absent[0]}). Known to be complete: {known}"])
    causes = list(dict.fromkeys(line for line in lines if line in [*unreached, *absent] or "ERROR" in line))[:4]
    return ClusterError(
        f"Kafka {version} could not be fetched: {'; '.join(causes) or ' '.join(lines[-3:])}. Versions known to be complete: "
        f"{', '.join(KNOWN)}. If the version exists, is Maven's central repository reachable from here?"
    )


@contextmanager
def _locked(on_progress: Callable[[str], None]) -> Iterator[None]:
    """Only one fetch at a time; the lock ends with its process."""
    try:
        kafka_dir().mkdir(parents=True, exist_ok=True)
        lock = (kafka_dir() / ".lock").open("w")
    except OSError as e:
        raise ClusterError(f"Kafka cannot be kept in {kafka_dir()}: {e.strerror}; name another place in FENCEPOST_CACHE") from e
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_progress("waiting for another fetch of Kafka to end")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _remove_leftovers() -> None:
    """Directories of fetches that were interrupted; safe under the lock."""
    for path in kafka_dir().glob(".*-*"):
        shutil.rmtree(path, ignore_errors=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as f:
        digest = hashlib.sha256()
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
