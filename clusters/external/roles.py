"""The present roles of nodes on an external cluster, as far as clients can see them."""

from __future__ import annotations

from dataclasses import dataclass

from fencepost.clusters.external.metadata import ClusterMetadata, has_leader, topic_and_number
from fencepost.clusters.kafka.roles import GROUP_LOG, TRANSACTION_LOG, coordinator_partition
from fencepost.harness.api import ClusterError


@dataclass(frozen=True)
class ExternalRoles(ClusterMetadata):
    """`Roles`; coordinators are found only by who may describe Kafka's own topics."""

    def leader(self, topic: str, partition: int) -> str:
        """The leader; `t` may stand for the run's own topic whose name ends so."""
        return self._leader_of(f"{next((own for own in self.topics if own.endswith(f'-{topic}')), topic)}-{partition}")

    def controller(self) -> str:
        raise ClusterError("who the controller is cannot be asked from outside: a KRaft cluster names any broker to its clients")

    def transaction_coordinator(self, transactional_id: str) -> str:
        return self._leader_of(self.transaction_partition(transactional_id))

    def group_coordinator(self, group: str) -> str:
        return self._leader_of(self.group_partition(group))

    def transaction_partition(self, transactional_id: str) -> str:
        return f"{TRANSACTION_LOG}-{coordinator_partition(transactional_id, len(self.partitions(TRANSACTION_LOG)))}"

    def group_partition(self, group: str) -> str:
        return f"{GROUP_LOG}-{coordinator_partition(group, len(self.partitions(GROUP_LOG)))}"

    def _leader_of(self, name: str) -> str:
        topic, number = topic_and_number(name)
        partition = next((p for p in self.partitions(topic) if p.id == number), None)
        if partition is None or not has_leader(partition):
            raise ClusterError(f"{name} {'has no leader' if partition else 'does not exist'}")
        return self.name(partition.leader.id)
