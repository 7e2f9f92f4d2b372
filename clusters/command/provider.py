"""The plug-in `command`: the sandbox, the description for the plan, and the cluster from start to end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.clusters.command.options import CommandOptions
from fencepost.clusters.local import sandbox
from fencepost.harness.api import Partitionable, TopicSpec

if TYPE_CHECKING:
    from fencepost.clusters.command.cluster import CommandCluster


@dataclass(frozen=True, kw_only=True)
class Command(CommandOptions):
    """Any broker that speaks Kafka's protocol, started by a command line: processes of this machine, as in `local`."""

    def sandbox(self, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` in namespaces (or, where refused, under a supervisor alone)."""
        return sandbox.command(argv, loopback=self.loopback)

    def obtain(self, on_progress: Callable[[str], None]) -> None:
        """Fetch Kafka's messages for the proxies, if there are any. Raises ClusterError."""
        if self.proxy:
            from fencepost.harness.proxy import jars

            jars.messages(progress=on_progress)

    def describe(self) -> dict[str, Any]:
        return {
            "kafka": self.title or "unknown",
            "command": " ".join(self.words("command")),
            "broker_settings": self.effective_settings(),
            "controllers": "combined",
            "network": "loopback" if Partitionable in self.missing() else "namespaces",
        }

    @contextmanager
    def up(self, run_dir: Path, topics: Mapping[str, TopicSpec]) -> Iterator[CommandCluster]:
        """Start every node, make the topics, yield the cluster ready; at the end kill all and remove the data.

        Raises ClusterError, with the end of the log, when a program ends or does not answer within `ready_s`.
        """
        from fencepost.clusters.command.cluster import CommandCluster, KafkaBuildCluster

        cluster = (KafkaBuildCluster if self.is_kafka else CommandCluster)(self, run_dir)
        try:
            cluster.begin(topics)
            yield cluster
        finally:
            cluster.end()
