"""Kafka Connect by version: the jars of a distributed worker, fetched once from Maven's central repository and kept."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fencepost.harness.api import CampaignError
from fencepost.harness.api.connect import EXACTLY_ONCE, ConnectWorker
from fencepost.harness.api.run import ConnectPlan
from fencepost.harness.fetching import maven
from fencepost.harness.fetching.java import java
from fencepost.harness.fetching.manifest import Manifest
from fencepost.harness.fetching.store import Store, cache_dir

OLDEST = (3, 2)  # what workers may be downgraded to; an older one was not tried
_LOG = "1.7.36"
_GROUP = "org.apache.kafka"
_PARTS = ("connect-runtime", "connect-json")
_CONNECTORS = {  # Kafka's own, with their packages; some releases are published without them
    "connect-file": "org.apache.kafka.connect.file.",
    "connect-mirror": "org.apache.kafka.connect.mirror.",
}
_WHOLE = "3.9.1, 4.2.0 and 4.3.0 are whole"


@dataclass(frozen=True)
class ConnectJars:
    """The jars of one version: `jars` maps each file name to its SHA-256."""

    version: str
    directory: Path
    jars: Mapping[str, str]


def refusal(version: str, since: tuple[int, int] = EXACTLY_ONCE) -> str:
    """The reason why no worker of such a version can be run, by its text alone; empty when it can.

    since: the first release that can: of a test's `version` one with exactly-once sources, of its `upgrades` `OLDEST`.
    """
    match = re.fullmatch(r"(\d+)\.(\d+)\.\d+", version)
    if match is None:
        return f'"{version}" is no version of Kafka Connect; one is 4.3.0'
    if (int(match[1]), int(match[2])) >= since:
        return ""
    if since == OLDEST:
        return f"Kafka Connect {version} is too old: workers may change to 3.2.0 or later"
    return f"Kafka Connect {version} has no exactly-once sources (KIP-618); 3.3.1 is the first release with them that runs"


def fetch(
    version: str, progress: Callable[[str], None] = lambda _: None, ivy: maven.Ivy | None = None, repair: bool = False
) -> ConnectJars:
    """The jars of a version, from the cache or else from Maven's central repository (about a minute, 50 MB).

    Raises CampaignError when there is no such version, ClusterError when it cannot be fetched or the cache is damaged.
    """
    if wrong := refusal(version, OLDEST):
        raise CampaignError([wrong])

    def fill(directory: Path) -> None:
        progress(f"fetching Kafka Connect {version} from Maven's central repository")
        absent = _resolve(version, directory, ivy)
        if absent:
            progress(f"Kafka Connect {version} is published without {' and '.join(absent)}: their connectors cannot be run")

    return _jars(_store().fetch(version, fill, progress, repair))


def fetch_all(workers: Iterable[ConnectWorker], progress: Callable[[str], None]) -> None:
    """Fetch the jars of every version that some workers may run.

    Raises as `fetch` does, and CampaignError where a worker's first version has no exactly-once sources.
    """
    for first in dict.fromkeys(worker.version for worker in workers):
        if wrong := refusal(first):
            raise CampaignError([wrong])
    for version in dict.fromkeys(version for worker in workers for version in worker.versions):
        fetch(version, progress)


def _resolve(version: str, directory: Path, ivy: maven.Ivy | None) -> list[str]:
    """Fetch the jars of a version; those of Kafka's own connectors that it was published without. Raises as `fetch` does."""
    absent: list[str] = []
    while True:
        parts = [*_PARTS, *(name for name in _CONNECTORS if name not in absent)]
        wanted = [*((_GROUP, part, version) for part in parts), ("org.slf4j", "slf4j-simple", _LOG)]
        try:
            maven.fetch(f"Kafka Connect {version}", wanted, directory, _WHOLE, ivy)
        except CampaignError as error:
            unpublished = [name for name in parts if name in _CONNECTORS and f"#{name};" in str(error)]
            if not unpublished:
                raise
            absent += unpublished
            shutil.rmtree(directory)
            directory.mkdir()
        else:
            return absent


def lost_connectors(workers: Iterable[ConnectWorker]) -> list[str]:
    """Connectors of Kafka's own that a release, which is in the cache, was published without: a sentence each."""
    ours = [worker for worker in workers if worker.ours]
    wanted = dict.fromkeys(
        ("version" if version == worker.version else "upgrades", version, name)
        for worker in ours
        for version in worker.versions
        for name in worker.classes
    )
    lost = []
    for option, version, name in wanted:
        fetched = installed(version)
        for part, package in _CONNECTORS.items():
            if fetched and name.startswith(package) and f"{part}-{version}.jar" not in fetched.jars:
                lost.append(f"workload.{option}: Kafka Connect {version} is published without {part}, which has {name}; {_WHOLE}")
    return lost


def installed(version: str) -> ConnectJars | None:
    """A version of the cache; None when it is not there, or damaged."""
    manifest = _store().present(version)
    return _jars(manifest) if manifest else None


def planned(version: str) -> ConnectPlan:
    """A version of the cache as a plan has it; without jars when it was not fetched yet."""
    jars = installed(version)
    return {"directory": str(jars.directory), "java": java()[0], "jars": dict(jars.jars)} if jars else {}


def all_installed() -> list[ConnectJars]:
    """Every whole version of the cache."""
    return [_jars(manifest) for manifest in _store().all()]


def _store() -> Store:
    return Store(cache_dir() / "connect", "Kafka Connect", "fencepost connect fetch {}")


def _jars(manifest: Manifest) -> ConnectJars:
    return ConnectJars(manifest.directory.name, manifest.directory, manifest.files)
