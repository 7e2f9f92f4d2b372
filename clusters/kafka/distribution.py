"""Kafka by version: the jars of any released broker, fetched once from Maven's central repository and kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fencepost.clusters.kafka import broker_config
from fencepost.clusters.kafka.versions import KNOWN, numbers, refusal
from fencepost.harness.api import CampaignError
from fencepost.harness.fetching import maven
from fencepost.harness.fetching.java import java
from fencepost.harness.fetching.manifest import Manifest
from fencepost.harness.fetching.store import Store, cache_dir

_SCALA = "2.13"
_SLF4J = "1.7.36"  # Kafka brings slf4j's API of this line, and no logger


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


def fetch(
    version: str, on_progress: Callable[[str], None] = lambda _: None, ivy: maven.Ivy | None = None, repair: bool = False
) -> Distribution:
    """The distribution of `version`, from the cache or else from Maven's central repository (about a minute, 45 MB).

    `on_progress` gets one line about each long step; `ivy` replaces the resolver (tests). repair: fetch it anew when what is in
    the cache is damaged. Raises ClusterError naming the version and the resolver's output, when the network is away, Java is
    missing, or the cache is damaged; CampaignError when there is no such version.
    """
    if wrong := refusal(version):
        raise CampaignError([wrong])

    def fill(directory: Path) -> None:
        on_progress(f"fetching Kafka {version} from Maven's central repository")
        wanted = [("org.apache.kafka", f"kafka_{_SCALA}", version), ("org.slf4j", "slf4j-simple", _SLF4J)]
        maven.fetch(f"Kafka {version}", wanted, directory, f"Tried with fencepost: {', '.join(KNOWN)}", ivy)

    return _distribution(_store().fetch(version, fill, on_progress, repair))


def installed() -> list[Distribution]:
    """Every complete distribution in the cache, oldest version first; those without a manifest that can be read are left out."""
    distributions = [_distribution(manifest) for manifest in _store().all() if not refusal(manifest.directory.name)]
    return sorted(distributions, key=lambda distribution: numbers(distribution.version))


def cached(version: str) -> Distribution | None:
    """The complete distribution of a version in the cache; None where there is none whose manifest can be read."""
    manifest = None if refusal(version) else _store().complete(version)
    return _distribution(manifest) if manifest else None


def verify(version: str) -> list[str]:
    """Read every jar of a cached version again; what is wrong, one sentence each (empty: all as fetched)."""
    return _store().verify(version)


def kafka_dir() -> Path:
    """The directory of the versions of Kafka."""
    return cache_dir() / "kafka"


def _store() -> Store:
    return Store(kafka_dir(), "Kafka", "fencepost cluster fetch {}")


def _distribution(manifest: Manifest) -> Distribution:
    return Distribution(manifest.directory.name, manifest.directory, manifest.files)
