"""The plug-in `external`: the supervisor, the description for the plan, and the cluster from start to end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.clusters.external.options import ExternalOptions
from fencepost.harness.api import TopicSpec
from fencepost.harness.api.run import write_left_behind
from fencepost.harness.system.python_command import module_command

if TYPE_CHECKING:
    from fencepost.clusters.external.cluster import ExternalCluster

GRACE_S = (
    25.0  # for removing topics when the harness is gone; less than it waits itself (fencepost.harness.runs.runner.LIFELINE_S)
)


@dataclass(frozen=True, kw_only=True)
class External(ExternalOptions):
    """Somebody else's cluster, by its bootstrap servers; topics and groups of the run's own on it, removed at the end."""

    def sandbox(self, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` under a supervisor, which lets it remove its topics when the harness is gone."""
        return module_command("fencepost.clusters.local.init", f"--grace={GRACE_S:g}", "--", *argv)

    def obtain(self, on_progress: Callable[[str], None]) -> None:
        """Fetch Kafka's messages for the proxy, if there is one. Raises ClusterError."""
        if self.proxy:
            from fencepost.harness.proxy import jars

            jars.classpath(progress=on_progress)

    def describe(self) -> dict[str, Any]:
        """Asks the cluster for its brokers. Raises ClusterError when it does not answer, CampaignError for a missing secret."""
        from fencepost.clusters.external.cluster import broker_names
        from fencepost.clusters.external.connection import Connection

        nodes = Connection(self.bootstrap, self.settings).nodes()
        return {
            "kafka": self.kafka or "unknown",
            "brokers": len(nodes),
            "nodes": {name: f"broker {number} at {nodes[number]}" for number, name in broker_names(nodes).items()},
            "replication": min(self.replication, len(nodes)),
            # what is left to the cluster, min.insync.replicas first of all, is read from the topics once they are there
            "topic_settings": {"retention.ms": "-1", "retention.bytes": "-1"},
            "network": "this machine's own",
        }

    @contextmanager
    def up(self, run_dir: Path, topics: Mapping[str, TopicSpec]) -> Iterator[ExternalCluster]:
        """Make the topics, yield the cluster; at the end kill the clients and remove topics and groups.

        What could not be removed is written to `left.json` of the run, a sentence each. Raises ClusterError.
        """
        from fencepost.clusters.external.cluster import ExternalCluster

        cluster = ExternalCluster(self, run_dir)
        try:
            cluster.begin(topics)
            yield cluster
        finally:
            _report_left_behind(run_dir, cluster.end())


def _report_left_behind(run_dir: Path, left: Sequence[str]) -> None:
    import structlog

    for sentence in left:
        structlog.get_logger().warning("left behind", what=sentence)
    if left:
        write_left_behind(run_dir, left)
