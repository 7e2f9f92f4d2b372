"""Clusters of brokers that speak Kafka's protocol and are not Kafka: nothing is known of their logs, quorum or own topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from fencepost.clusters.kafka import protocol
from fencepost.clusters.kafka.admin import KafkaAdmin
from fencepost.clusters.kafka.cluster import KafkaCluster
from fencepost.clusters.kafka.roles import WireRoles, ask_again
from fencepost.harness.api import ClusterError, TopicSpec

READY_S = 90.0


class AnsweredRoles(WireRoles):
    """Coordinators as FindCoordinator names them (their logs may be no topics), the controller as Metadata does."""

    def controller(self) -> str:
        """The controller that most brokers name."""
        views = ask_again(protocol.metadata, self.brokers)
        claims = Counter(view.controller for view in views.values() if view.controller in self.names)
        if not claims:
            raise ClusterError(f"nobody names a controller: {len(views)} of {len(self.brokers)} brokers answered")
        return self.names[claims.most_common(1)[0][0]]

    def transaction_coordinator(self, transactional_id: str) -> str:
        return self._named(protocol.TRANSACTION, transactional_id)

    def group_coordinator(self, group: str) -> str:
        return self._named(protocol.GROUP, group)

    def _named(self, kind: int, key: str) -> str:
        claims = ask_again(lambda address, within_s: protocol.find_coordinator(address, kind, key, within_s), self.brokers)
        known = Counter(node for node in claims.values() if node in self.names)
        if not known:
            raise ClusterError(f"nobody names a coordinator for {key}: {len(claims)} of {len(self.brokers)} brokers answered")
        return self.names[known.most_common(1)[0][0]]


class OtherBrokerCluster(KafkaCluster):
    """`KafkaCluster` whose brokers are asked for all roles, and whose topics are made without Kafka's cluster-wide settings."""

    def _take_roles(self, names: Mapping[int, str]) -> None:
        """Ask from now on the brokers of these ids (node id -> node)."""
        self._roles = AnsweredRoles(names, {name: self.request_address(name) for name in names.values()}, {})
        self._admin = KafkaAdmin(self.bootstrap(), self._roles)

    def _make_topics(self, topics: Mapping[str, TopicSpec]) -> None:
        self._wait(READY_S, "the coordinators", self._setup_problem)
        self._admin.create_topics(topics)
        self._topics = tuple(f"{name}-{i}" for name, spec in topics.items() for i in range(spec.partitions))

    def _setup_problem(self) -> str:
        """Asking for a coordinator makes the broker create what it keeps its state in; what was refused, else empty."""
        first = self.request_address(self.brokers[0])
        try:
            for kind in (protocol.TRANSACTION, protocol.GROUP):
                protocol.find_coordinator(first, kind, "fencepost")
        except OSError as error:
            return str(error)
        return ""
