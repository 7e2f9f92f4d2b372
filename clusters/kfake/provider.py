"""The plug-in `kfake`: its options, its program, and the cluster from start to end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from fencepost.clusters.kafka.options import NodeOptions
from fencepost.clusters.kfake import program
from fencepost.clusters.local import sandbox
from fencepost.harness.api import Between, Killable, Pausable, Scalable, TopicSpec
from fencepost.harness.api.capabilities import CAPABILITIES

if TYPE_CHECKING:
    from fencepost.clusters.kfake.cluster import KfakeCluster

ONE_PROCESS = "kfake's brokers are one process that holds everything in memory; only clients can be killed and paused"
OF_CLIENTS: tuple[type, ...] = (Killable, Pausable, Scalable)


@dataclass(frozen=True, kw_only=True)
class Kfake(NodeOptions):
    """franz-go's fake of a Kafka cluster: all brokers in one process, in memory. Fast, and not Kafka: for tests of clients.

    settings: broker settings that kfake has, by Kafka's names (`transactional.id.expiration.ms`)
    """

    default_nemesis: ClassVar[tuple[str, ...]] = ()
    only_clients: ClassVar[str] = ONE_PROCESS

    brokers: Annotated[int, Between(1, 9)] = 3  # n1, n2, ...: ports of one process
    settings: Mapping[str, Any] = field(default_factory=dict)

    def mistakes(self) -> list[str]:
        reason = program.missing()
        return [*super().mistakes(), *([reason] if reason else [])]

    def version(self, node: str) -> str:
        return program.version()

    def all_versions(self) -> list[str]:
        return [program.version()]

    def effective_settings(self) -> dict[str, str]:
        return {name: str(value).lower() for name, value in self.settings.items()}

    def missing(self) -> dict[type, str]:
        return {capability: ONE_PROCESS for capability in CAPABILITIES if capability not in OF_CLIENTS}

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
