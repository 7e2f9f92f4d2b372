"""The plug-in `docker`: options, what this machine offers, and the way up."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusters.broker_settings import broker_settings
from harness.api import CampaignError, ClusterError, TopicSpec

if TYPE_CHECKING:
    from clusters.docker.cluster import DockerCluster


@dataclass(frozen=True, kw_only=True)
class Docker:
    """Brokers in containers of a network of their own, clients too; a Docker daemon on this machine, no privileged container."""

    brokers: int = 3
    kafka: str = "4.3.0"
    versions: Mapping[str, str] = field(default_factory=dict)  # node -> another Kafka version (n1 = "3.9.1")
    controllers: int = 0  # separate KRaft controllers k1...; 0: every broker is one too
    settings: Mapping[str, Any] = field(default_factory=dict)  # broker settings, laid over ours
    image: str = ""  # brokers' image; default: fencepost/kafka:VERSION, else apache/kafka:VERSION
    heap_mb: int = 512  # of each JVM
    memory_mb: int = 1536  # of each broker's container; more than that, and the kernel ends it
    cpus: float = 0.0  # processors of each broker's container; 0: no limit
    keep_storage: bool = False  # copy the nodes' log segments into the run's `storage/`

    def __post_init__(self) -> None:
        mistakes = [
            f"{name} = {value}: must be between {low} and {high}"
            for name, value, low, high in (
                ("brokers", self.brokers, 1, 50),
                ("controllers", self.controllers, 0, 9),
                ("heap_mb", self.heap_mb, 128, 1 << 16),
                ("memory_mb", self.memory_mb, self.heap_mb + 128, 1 << 18),
                ("cpus", self.cpus, 0, 1 << 10),
            )
            if not low <= value <= high
        ]
        names = {f"n{i + 1}" for i in range(self.brokers)} | {f"k{i + 1}" for i in range(self.controllers)}
        mistakes += [f"versions.{node}: no such node; there are {', '.join(sorted(names))}" for node in {*self.versions} - names]
        if mistakes:
            raise CampaignError(mistakes)

    def version(self, node: str) -> str:
        """The Kafka version of a node."""
        return self.versions.get(node, self.kafka)

    def oldest(self) -> str:
        """The oldest version of all nodes, by which storage is formatted and the cluster's features are decided."""
        return min({self.kafka, *self.versions.values()}, key=_numbers)

    def sandbox(self, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` under a supervisor that removes everything from Docker at the end.

        Makes sure that the images are there first. Raises ClusterError with the remedy.
        """
        from clusters.docker import engine, host

        if reason := engine.trouble():
            raise ClusterError(f"no cluster in Docker here: {reason}")
        with engine.opened() as client:
            self._found_images(client)
            host.ensure_image(client)
        return [sys.executable, "-m", "clusters.docker.init", "--", *argv]

    def missing(self) -> dict[type, str]:
        return {}

    def describe(self) -> dict[str, Any]:
        from clusters.docker import engine

        with engine.opened() as client:
            images = self._found_images(client)
        return {
            "kafka": self.kafka,
            "versions": dict(self.versions),
            "images": {version: f"{image.name} ({image.origin}, {image.id})" for version, image in images.items()},
            "broker_settings": broker_settings(self.brokers, self.settings),
            "controllers": self.controllers or "combined",
            "network": "containers",
        }

    @contextmanager
    def up(self, run_dir: Path, topics: Mapping[str, TopicSpec]) -> Iterator[DockerCluster]:
        """Start every node, make the topics, yield the cluster ready; at the end remove all, data included.

        Raises ClusterError, with the end of the log, when a node dies or is not ready within 90 s.
        """
        from clusters.docker import engine, host
        from clusters.docker.cluster import DockerCluster, Place

        with ExitStack() as steps:
            client = steps.enter_context(engine.opened())
            images = {version: image.name for version, image in self._found_images(client).items()}
            host.ensure_image(client)
            place = Place(client, run_dir)
            steps.callback(place.remove)
            cluster = DockerCluster(self, run_dir, place, images)
            steps.callback(cluster.end)
            cluster.begin(topics)
            yield cluster

    def _found_images(self, client: Any) -> dict[str, Any]:
        """The image of every version in use."""
        from clusters.docker import images

        return {version: images.resolve(client, version, self.image) for version in {self.kafka, *self.versions.values()}}


def _numbers(version: str) -> list[int]:
    return [int(part) if part.isdigit() else -1 for part in version.split(".")]
