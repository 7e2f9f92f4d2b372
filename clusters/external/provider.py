"""The plug-in `external`: options, what can be done to somebody else's cluster, and the way in and out."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness.api import CampaignError, TopicSpec
from harness.secrets import mistakes

if TYPE_CHECKING:
    from clusters.external.cluster import ExternalCluster

GRACE_S = 25.0  # for removing topics when the harness is gone; less than it waits itself (harness.runs.runner.LIFELINE_S)
LEFT_BEHIND = "left.json"
_ADDRESS = re.compile(r"[^\s,:]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}")
_PREFIX = re.compile(r"[A-Za-z0-9._-]{1,100}")


@dataclass(frozen=True, kw_only=True)
class External:
    """Somebody else's cluster, by its bootstrap servers; topics and groups of the run's own on it, removed at the end.

    bootstrap: `host:port`, several with commas
    settings: client settings to connect with, librdkafka's names (security.protocol, sasl.*, ssl.*); secrets as `env:NAME` or
        `file:/path`
    prefix: what topics, groups, transactional ids and client ids of ours begin with; the run's id follows
    replication: of the run's topics; no more than there are brokers
    kafka: the brokers' version, if you want it in the report; a cluster does not tell
    """

    default_nemesis: ClassVar[tuple[str, ...]] = ()
    only_clients: ClassVar[str] = "fencepost does not run these brokers; only clients can be killed and paused"

    bootstrap: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    prefix: str = "fencepost-"
    replication: int = 3
    kafka: str = ""

    def __post_init__(self) -> None:
        if wrong := [*self._own_mistakes(), *self._settings_mistakes()]:
            raise CampaignError(wrong)

    def _own_mistakes(self) -> list[str]:
        wrong = [
            f'bootstrap: "{one}" is not host:port' for one in self.bootstrap.split(",") if not _ADDRESS.fullmatch(one.strip())
        ]
        if not _PREFIX.fullmatch(self.prefix):
            wrong.append(f'prefix = "{self.prefix}": 1 to 100 letters, digits, dots, dashes and underscores')
        return wrong + ([f"replication = {self.replication}: must be at least 1"] if self.replication < 1 else [])

    def _settings_mistakes(self) -> list[str]:
        from clusters.external.connection import OURS, refusal

        wrong = [f"settings.{key}: {text}" for key, text in mistakes(self.settings)]
        wrong += [f"settings.{key}: is set by fencepost itself" for key in self.settings if key in OURS]
        if wrong:
            return wrong
        said = refusal(self.settings)
        return [f"settings: {said}"] if said else []

    def sandbox(self, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` under a supervisor, which lets it remove its topics when the harness is gone."""
        return [sys.executable, "-m", "clusters.local.init", f"--grace={GRACE_S:g}", "--", *argv]

    def missing(self) -> dict[type, str]:
        from clusters.external.cluster import NOT_OURS, OF_BROKERS, OF_CLIENTS, OF_NETWORK, SHARED_NETWORK

        reasons = {self.only_clients: OF_CLIENTS, NOT_OURS: OF_BROKERS, SHARED_NETWORK: OF_NETWORK}
        return {capability: reason for reason, capabilities in reasons.items() for capability in capabilities}

    def connection(self) -> Mapping[str, Any]:
        return self.settings

    def describe(self) -> dict[str, Any]:
        """Asks the cluster for its brokers. Raises ClusterError when it does not answer, CampaignError for a missing secret."""
        from clusters.external.cluster import named
        from clusters.external.connection import Connection

        nodes = Connection(self.bootstrap, self.settings).nodes()
        return {
            "kafka": self.kafka or "unknown",
            "brokers": len(nodes),
            "nodes": {name: f"broker {number} at {nodes[number]}" for number, name in named(nodes).items()},
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
        from clusters.external.cluster import ExternalCluster

        cluster = ExternalCluster(self, run_dir)
        try:
            cluster.begin(topics)
            yield cluster
        finally:
            _tell(run_dir, cluster.end())


def _tell(run_dir: Path, left: Sequence[str]) -> None:
    import json

    import structlog

    for sentence in left:
        structlog.get_logger().warning("left behind", what=sentence)
    if left:
        (run_dir / LEFT_BEHIND).write_text(json.dumps({"left": list(left)}, indent=1) + "\n", encoding="utf-8")
