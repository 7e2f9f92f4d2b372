"""The plug-in `local`: the sandbox, the description for the plan, and the cluster from start to end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.clusters.kafka.distribution import fetch
from fencepost.clusters.local import class_archive, sandbox, services
from fencepost.clusters.local.options import LocalOptions
from fencepost.harness.api import CampaignError, Partitionable, TopicSpec

if TYPE_CHECKING:
    from fencepost.clusters.local.cluster import LocalCluster


@dataclass(frozen=True, kw_only=True)
class Local(LocalOptions):
    """Brokers as JVMs on this machine, in network namespaces where it allows them; Linux and Java 17 or newer, no root."""

    def sandbox(self, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` in namespaces (or, where refused, under a supervisor alone).

        Makes sure that Kafka and its class archive are there first: inside, nothing can be fetched. Raises ClusterError.
        """
        for version in self.all_versions():
            class_archive.ensure(fetch(version))
        command = sandbox.command(argv, loopback=self.loopback)
        return services.outside(self.services, command) if self.services else command

    def obtain(self, on_progress: Callable[[str], None]) -> None:
        """Fetch every version that is used, and see that declared services answer. Raises CampaignError and ClusterError."""
        if silent := services.unanswered(self.services):
            raise CampaignError(silent)
        for version in self.all_versions():
            fetch(version, on_progress)

    def describe(self) -> dict[str, Any]:
        return {
            "kafka": self.kafka,
            "versions": dict(self.versions),
            "upgrades": list(self.upgrades),
            "jars": {name: checksum for version in self.all_versions() for name, checksum in fetch(version).jars.items()},
            "replication": self.replicas(),
            "broker_settings": self.effective_settings(),
            "eligible_leaders": self.eligible_leaders(),
            "controllers": self.controllers or "combined",
            **self.describe_second(),
            **({"services": self.service_addresses()} if self.services else {}),
            "network": "loopback" if Partitionable in self.missing() else "namespaces",
        }

    @contextmanager
    def up(self, run_dir: Path, topics: Mapping[str, TopicSpec]) -> Iterator[LocalCluster]:
        """Start every node, make the topics, yield the cluster ready; at the end kill all and remove the data.

        Raises ClusterError, with the end of the log, when a node dies or is not ready within 90 s.
        """
        from fencepost.clusters.local.cluster import LocalCluster

        cluster = LocalCluster(self, run_dir, {version: fetch(version) for version in self.all_versions()})
        try:
            cluster.begin(topics)
            yield cluster
        finally:
            cluster.end()
