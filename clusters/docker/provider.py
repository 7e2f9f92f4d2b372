"""The plug-in `docker`: the sandbox, the description for the plan, and the cluster from start to end."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fencepost.clusters.docker.options import DockerOptions
from fencepost.harness.api import ClusterError, TopicSpec
from fencepost.harness.system.python_command import module_command

if TYPE_CHECKING:
    from fencepost.clusters.docker.cluster import DockerCluster
    from fencepost.clusters.docker.images import Image
    from fencepost.clusters.docker.run_resources import RunResources


class ContainerProvider(ABC):
    """The common part of clusters in containers, whatever the brokers are."""

    runs_images: ClassVar[bool] = True

    @abstractmethod
    def resolve_images(self, client: Any, on_progress: Callable[[str], None] = lambda _: None) -> dict[str, Image]:
        """The image of every version in use. Raises CampaignError with the remedy when there is none, and ClusterError."""

    @abstractmethod
    def make(self, run_dir: Path, resources: RunResources, images: dict[str, Image]) -> DockerCluster: ...

    def obtain(self, on_progress: Callable[[str], None]) -> None:
        """Pull or build every image that is used. Raises CampaignError (there is none) and ClusterError."""
        from fencepost.clusters.docker import engine

        with engine.opened() as client:
            self.resolve_images(client, on_progress)

    def sandbox(self, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` under a supervisor that removes everything from Docker at the end.

        Makes sure that the images are there first. Raises ClusterError with the remedy.
        """
        from fencepost.clusters.docker import engine, host_python

        if reason := engine.trouble():
            raise ClusterError(f"no cluster in Docker here: {reason}")
        with engine.opened() as client:
            self.resolve_images(client)
            host_python.ensure_image(client)
        return module_command("fencepost.clusters.docker.init", "--", *argv)

    @contextmanager
    def up(self, run_dir: Path, topics: Mapping[str, TopicSpec]) -> Iterator[DockerCluster]:
        """Start every node, make the topics, yield the cluster ready; at the end remove all, data included.

        Raises ClusterError, with the end of the log, when a node dies or is not ready within 90 s.
        """
        from fencepost.clusters.docker import engine, host_python
        from fencepost.clusters.docker.run_resources import RunResources

        with ExitStack() as steps:
            client = steps.enter_context(engine.opened())
            images = self.resolve_images(client)
            host_python.ensure_image(client)
            steps.callback(shutil.rmtree, run_dir / "data", ignore_errors=True)
            resources = RunResources(client, run_dir)
            steps.callback(resources.remove)
            cluster = self.make(run_dir, resources, images)
            steps.callback(cluster.end)
            cluster.begin(topics)
            yield cluster


@dataclass(frozen=True, kw_only=True)
class Docker(ContainerProvider, DockerOptions):
    """Brokers in containers of a network of their own, clients too; a Docker daemon on this machine, no privileged container."""

    def describe(self) -> dict[str, Any]:
        from fencepost.clusters.docker import engine

        with engine.opened() as client:
            images = self.resolve_images(client)
        return {
            "kafka": self.kafka,
            "versions": dict(self.versions),
            "upgrades": list(self.upgrades),
            "images": {version: f"{image.name} ({image.origin}, {image.id})" for version, image in images.items()},
            "replication": self.replicas(),
            "broker_settings": self.effective_settings(),
            "eligible_leaders": self.eligible_leaders(),
            "controllers": self.controllers or "combined",
            **self.describe_second(),
            "network": "containers",
        }

    def resolve_images(self, client: Any, on_progress: Callable[[str], None] = lambda _: None) -> dict[str, Image]:
        from fencepost.clusters.docker import images

        named = {version: self.image.replace("{version}", version) for version in self.all_versions()}
        return {version: images.resolve(client, version, name, on_progress) for version, name in named.items()}

    def make(self, run_dir: Path, resources: RunResources, images: dict[str, Image]) -> DockerCluster:
        from fencepost.clusters.docker.cluster import DockerCluster

        return DockerCluster(self, run_dir, resources, images)
