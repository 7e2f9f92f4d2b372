"""Kafka by version: the jars of any released broker, fetched once and kept.

Resolved from Maven's central repository by the Ivy that PySpark ships, so that Java is all a machine needs. A version in the
cache is complete or absent: it is fetched into a temporary directory, listed with checksums, and renamed. After that, the
network is not used again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from clusters.kafka import broker_config, manifest
from clusters.kafka.java import java
from clusters.kafka.parent_death import die_with
from clusters.kafka.versions import KNOWN, numbers, refusal
from harness.api import CampaignError, ClusterError, HarnessError, liveness

_SCALA = "2.13"
_SLF4J = "1.7.36"  # Kafka brings slf4j's API of this line, and no logger
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


def fetch(
    version: str, on_progress: Callable[[str], None] = lambda _: None, ivy: Ivy | None = None, repair: bool = False
) -> Distribution:
    """The distribution of `version`, from the cache or else from Maven's central repository (about a minute, 45 MB).

    `on_progress` gets one line about each long step; `ivy` replaces the resolver (tests). repair: fetch it anew when what is in
    the cache is damaged. Raises ClusterError naming the version and the resolver's output, when the network is away, Java is
    missing, or the cache is damaged; CampaignError when there is no such version.
    """
    if wrong := refusal(version):
        raise CampaignError([wrong])
    if (found := _usable(version, repair)) and not found[1]:
        return found[0]
    with _locked(on_progress):
        _remove_leftovers()
        found = _usable(version, repair)  # another process may have fetched it meanwhile
        if found and not found[1]:
            return found[0]
        return _fetch(version, on_progress, ivy or run_ivy, found[1] if found else "")


def _usable(version: str, repair: bool) -> tuple[Distribution, str] | None:
    """What is in the cache, and its damage; None when it is not there. Raises ClusterError for damage, unless it is repaired."""
    directory = kafka_dir() / version
    try:
        known = manifest.read(directory)
        damage = known.damage() if known else []
    except ClusterError as error:
        known, damage = None, [str(error)]
    if damage and not repair:
        more = f" and {len(damage) - 1} more" if len(damage) > 1 else ""
        raise ClusterError(
            f"Kafka {version} in the cache is damaged: {damage[0]}{more}. Fetch it anew: fencepost cluster fetch {version}"
        )
    jars = known.jars if known else {}
    return (Distribution(version, directory, jars), "; ".join(damage)) if known or damage else None


def installed() -> list[Distribution]:
    """Every complete distribution in the cache, oldest version first; those without a manifest that can be read are left out."""
    found = [_read(path.parent.name) for path in kafka_dir().glob(f"*/{manifest.MANIFEST}")]
    return sorted((d for d in found if d and not refusal(d.version)), key=lambda d: numbers(d.version))


def verify(version: str) -> list[str]:
    """Read every jar of a cached version again; what is wrong, one sentence each (empty: all as fetched)."""
    try:
        known = manifest.read(kafka_dir() / version)
    except ClusterError as error:
        return [str(error)]
    return known.damage(every=True) if known else [f"Kafka {version} is not in {kafka_dir()}"]


def run_ivy(recipe: Path, destination: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    """Resolve `recipe` (an ivy.xml) and put the jars into `destination`."""
    spec = find_spec("pyspark")
    jars = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar")) if spec and spec.origin else []
    if not jars:
        raise ClusterError("Kafka is fetched with the Ivy inside PySpark, and this PySpark has none: pip install 'pyspark>=4.1'")
    pattern = f"{destination}/[artifact]-[revision](-[classifier]).[ext]"
    argv = [java()[0], "-jar", str(jars[-1]), "-ivy", str(recipe), "-retrieve", pattern, "-cache", str(cache)]
    try:
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_FETCH_S,
            preexec_fn=die_with(os.getpid()),  # or it would write on into what the next fetch removes
        )
    except subprocess.TimeoutExpired as e:
        raise ClusterError(f"fetching Kafka: no end after {_FETCH_S:.0f} s; is Maven's central repository slow today?") from e


def kafka_dir() -> Path:
    """Where the versions of Kafka lie."""
    return cache_dir() / "kafka"


def _read(version: str) -> Distribution | None:
    try:
        known = manifest.read(kafka_dir() / version)
    except ClusterError:
        return None
    return Distribution(version, known.directory, known.jars) if known else None


def _fetch(version: str, on_progress: Callable[[str], None], ivy: Ivy, damage: str) -> Distribution:
    """Fetch into a directory of its own, Ivy's cache included, in which no broken-off fetch has left anything; then rename it."""
    if damage:
        on_progress(f"Kafka {version} in the cache is damaged: {damage}")
    on_progress(f"fetching Kafka {version} from Maven's central repository")
    directory = Path(tempfile.mkdtemp(prefix=f".{version}-", dir=kafka_dir()))
    final, work = kafka_dir() / version, directory / "ivy"
    try:
        work.mkdir()
        recipe = work / "ivy.xml"
        recipe.write_text(_recipe(version))
        done = ivy(recipe, directory, work / "cache")
        made = manifest.of(directory, version)
        if done.returncode != 0 or f"kafka_{_SCALA}-{version}.jar" not in made.jars:
            raise _refused(version, done.stdout + done.stderr)
        shutil.rmtree(work)
        made.write()
        directory.chmod(0o755)
        if final.exists():  # damaged; its name begins as that of a leftover
            final.rename(directory.with_name(f"{directory.name}-damaged"))
        directory.rename(final)
    finally:
        _remove_leftovers()
    return Distribution(version, final, made.jars)


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
        with ExitStack() as stack:
            waiting = "waiting for another fetch of Kafka to end: "
            stack.enter_context(liveness.alone(kafka_dir(), waiting=lambda user: on_progress(waiting + user)))
            lock = stack.pop_all()
    except OSError as e:
        raise ClusterError(f"Kafka cannot be kept in {kafka_dir()}: {e.strerror}; name another place in FENCEPOST_CACHE") from e
    with lock:
        yield


def _remove_leftovers() -> None:
    """Directories of fetches that were interrupted; safe under the lock."""
    for path in kafka_dir().glob(".*-*"):
        shutil.rmtree(path, ignore_errors=True)
