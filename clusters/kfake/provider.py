"""The plug-in `kfake`: its options, its program, and the cluster from start to end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.clusters.kfake import program
from fencepost.clusters.kfake.options import KfakeOptions
from fencepost.clusters.local import sandbox
from fencepost.harness.api import TopicSpec

if TYPE_CHECKING:
    from fencepost.clusters.kfake.cluster import KfakeCluster


@dataclass(frozen=True, kw_only=True)
class Kfake(KfakeOptions):
    """franz-go's fake of a Kafka cluster: all brokers in one process, in memory. Fast, and not Kafka: for tests of clients."""

    def obtain(self, on_progress: Callable[[str], None]) -> None:
        """Build the program, unless it is there. Raises ClusterError."""
        program.ensure(on_progress)

    def sandbox(self, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` under the supervisor, on loopback. Builds the program first."""
        program.ensure()
        return sandbox.command(argv, loopback=True)

    def describe(self) -> dict[str, Any]:
        return {
            "kafka": program.version(),
            "broker_settings": self.effective_settings(),
            "controllers": "combined",
            "network": "loopback",
        }

    @contextmanager
    def up(self, run_dir: Path, topics: Mapping[str, TopicSpec]) -> Iterator[KfakeCluster]:
        """Start the process, make the topics, yield the cluster ready; at the end kill all. Raises ClusterError."""
        from fencepost.clusters.kfake.cluster import KfakeCluster

        cluster = KfakeCluster(self, run_dir)
        try:
            cluster.begin(topics)
            yield cluster
        finally:
            cluster.end()
