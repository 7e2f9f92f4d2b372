"""The capability `Powered`: a power failure of a node, wherever its data directory is."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from fencepost.clusters.fault_tools import unsynced_data
from fencepost.clusters.kafka import storage
from fencepost.clusters.kafka.cluster import KafkaCluster
from fencepost.harness.api import ClusterError, Powered, TopicSpec


class PowerFailure(KafkaCluster):
    """A cluster whose dead brokers can lose what they had not fsynced (`Powered`)."""

    _topic_settings: tuple[Mapping[str, str], ...] = ()

    def bring_up(self, topics: Mapping[str, TopicSpec], tool: storage.Format) -> None:
        self._topic_settings = tuple(spec.settings for spec in topics.values())
        super().bring_up(topics, tool)

    def lose_unsynced(self, node: str) -> dict[str, tuple[int, int]]:
        pid = self.pid(self._checked_server(node))
        if pid is not None:
            raise ClusterError(f"{node} (pid {pid}) is alive; it must be killed before it can lose what it had not fsynced")
        try:
            return self._run_on_data(node, unsynced_data.lose_unsynced)
        except (OSError, ValueError, struct.error) as e:
            raise ClusterError(f"what {node} had not fsynced could not be thrown away: {e}") from e

    def _missing_power_failure(self, capability: type) -> str | None:
        """The reason why a power failure cannot be imitated, or None; None for every other capability."""
        flush = unsynced_data.flush_setting([self._settings, *self._topic_settings]) if capability is Powered else ""
        return f"with {flush} Kafka syncs more than it notes in its checkpoints" if flush else None
