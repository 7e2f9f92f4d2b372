"""The plug-in `local`: options, what this machine offers, and the way up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusters.broker_settings import broker_settings
from clusters.kafka import fetch
from clusters.local import archive, sandbox
from harness.api import CampaignError, Partitionable, TopicSpec

if TYPE_CHECKING:
    from clusters.local.cluster import LocalCluster


@dataclass(frozen=True, kw_only=True)
class Local:
    """Brokers as JVMs on this machine, in network namespaces where it allows them; Linux and Java 17 or newer, no root."""

    brokers: int = 3
    kafka: str = "4.3.0"  # any released version, fetched once
    controllers: int = 0  # separate KRaft controllers k1...; 0: every broker is one too
    settings: Mapping[str, Any] = field(default_factory=dict)  # broker settings, laid over ours
    heap_mb: int = 512  # of each JVM
    loopback: bool = False  # no namespaces even where they are allowed
    keep_storage: bool = False  # copy the nodes' log segments into the run's `storage/`

    def __post_init__(self) -> None:
        mistakes = [
            f"{name} = {value}: must be between {low} and {high}"
            for name, value, low, high in (
                ("brokers", self.brokers, 1, 50),
                ("controllers", self.controllers, 0, 9),
                ("heap_mb", self.heap_mb, 128, 1 << 16),
            )
            if not low <= value <= high
        ]
        if mistakes:
            raise CampaignError(mistakes)

    def sandbox(self, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` in namespaces (or, where refused, under a supervisor alone).

        Makes sure that Kafka and its class archive are there first: inside, nothing can be fetched. Raises ClusterError.
        """
        archive.ensure(fetch(self.kafka))
        return sandbox.command(argv, loopback=self.loopback)

    def missing(self) -> dict[type, str]:
        if self.loopback:
            return {Partitionable: "the campaign asks for loopback = true, where brokers cannot be cut from one another"}
        reason = sandbox.box().reason
        return {Partitionable: reason} if reason else {}

    def describe(self) -> dict[str, Any]:
        return {
            "kafka": self.kafka,
            "jars": dict(fetch(self.kafka).jars),
            "broker_settings": broker_settings(self.brokers, self.settings),
            "controllers": self.controllers or "combined",
            "network": "loopback" if self.missing() else "namespaces",
        }

    @contextmanager
    def up(self, run_dir: Path, topics: Mapping[str, TopicSpec]) -> Iterator[LocalCluster]:
        """Start every node, make the topics, yield the cluster ready; at the end kill all and remove the data.

        Raises ClusterError, with the end of the log, when a node dies or is not ready within 90 s.
        """
        from clusters.local.cluster import LocalCluster

        cluster = LocalCluster(self, run_dir, fetch(self.kafka))
        try:
            cluster.begin(topics)
            yield cluster
        finally:
            cluster.end()
