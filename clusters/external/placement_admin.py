"""Placement of partitions on an external cluster, and changes to the run's own topics, and to no others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import confluent_kafka as ck
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource, NewPartitions, NewTopic

from fencepost.clusters.external.connection import REQUEST_S, RequestRefused
from fencepost.clusters.external.metadata import ClusterMetadata, has_leader, topic_and_number
from fencepost.clusters.kafka import protocol
from fencepost.clusters.kafka.guarded import guarded_address
from fencepost.clusters.kafka.protocol import Place
from fencepost.clusters.kafka.roles import ask_all
from fencepost.harness.api import ClusterError, Placement

_OF_THE_TOPIC = ConfigSource.DYNAMIC_TOPIC_CONFIG.value


@dataclass(frozen=True)
class ExternalPlacementAdmin(ClusterMetadata):
    """The part of `Admin` that faults use."""

    def placements(self, partitions: Iterable[str] | None = None) -> dict[str, Placement]:
        """The placement of each of these partitions (None: those of the run's topics), without those that do not exist."""
        names = None if partitions is None else set(partitions)
        topics = self.topics if names is None else dict.fromkeys(topic_and_number(name)[0] for name in names)
        placements = {f"{topic}-{p.id}": self._placement(p) for topic in topics for p in self._partitions_if_any(topic)}
        return {name: placement for name, placement in placements.items() if names is None or name in names}

    def in_service(self) -> tuple[str, ...]:
        return tuple(self.name(number) for number in sorted(self.connection.nodes()))

    def elect(self, partitions: Iterable[str]) -> None:
        wanted = [ck.TopicPartition(*topic_and_number(name)) for name in partitions]
        self._require_ours({partition.topic for partition in wanted})
        errors = self.connection.ask(
            "let the preferred replicas lead",
            # without its documented timeouts: confluent-kafka 2.16 accepts none
            lambda client: client.elect_leaders(ck.ElectionType.PREFERRED, wanted),
        )
        wrong = [error.str() for error in errors.values() if error and error.code() != ck.KafkaError.ELECTION_NOT_NEEDED]
        if wrong:
            raise ClusterError(f"leaders were not elected: {'; '.join(dict.fromkeys(wrong))}")

    def reassign(self, replicas: Mapping[str, Sequence[str]]) -> None:
        raise ClusterError("replicas cannot be moved from here: librdkafka has no request for it")

    def unregister(self, node: str) -> None:
        raise ClusterError(f"{node} is not ours to strike off its cluster's list")

    def features(self) -> dict[str, dict[str, int]]:
        raise ClusterError("features are not told here: librdkafka has no call for it")

    def set_feature(self, name: str, level: int) -> None:
        raise ClusterError(f"{name} is a feature of the whole cluster, and not ours to change")

    def topic_ids(self, topic: str) -> dict[str, str]:
        """The topic's id by broker, read by our own requests, since librdkafka asks a single broker of its choice."""
        nodes, settings = self.connection.nodes(), self.connection.settings()
        places: dict[str, Place] = {self.name(number): guarded_address(address, settings) for number, address in nodes.items()}
        if ids := ask_all(lambda address: protocol.topic_ids(address, [topic]).get(topic, ""), places):
            return ids
        raise ClusterError(f"the id of {topic} is not told: no broker answers")

    def create_placed_topic(self, topic: str, replicas: Sequence[Sequence[str]], settings: Mapping[str, str]) -> None:
        self._require_ours({topic})
        ids = {node: number for number, node in self.names.items()}
        nodes = [[ids[node] for node in some] for some in replicas]
        new = NewTopic(topic, len(nodes), replica_assignment=nodes, config=dict(settings))
        self.connection.ask(
            f"create the topic {topic}", lambda client: client.create_topics([new], request_timeout=REQUEST_S)[topic]
        )

    def add_partitions(self, topic: str, count: int) -> None:
        self._require_ours({topic})
        new = NewPartitions(topic, count)
        self.connection.ask(
            f"give {topic} {count} partitions", lambda client: client.create_partitions([new], request_timeout=REQUEST_S)[topic]
        )

    def topic_settings(self, topic: str) -> dict[str, str]:
        """A topic's own settings, without what it inherits."""
        return {name: entry.value for name, entry in self.described(topic).items() if entry.source == _OF_THE_TOPIC}

    def set_topic_settings(self, topic: str, settings: Mapping[str, str | None]) -> None:
        """Change a topic's own settings; None takes one away. Needs the right AlterConfigs."""
        self._require_ours({topic})
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        self.connection.ask(
            f"change settings of {topic}",
            lambda client: client.incremental_alter_configs([resource], request_timeout=REQUEST_S)[resource],
        )

    def described(self, topic: str) -> dict[str, Any]:
        """Every setting of a topic that is in effect, the brokers' defaults included, as librdkafka describes it."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        topic_settings: dict[str, Any] = self.connection.ask(
            f"read the settings of {topic}",
            lambda client: client.describe_configs([resource], request_timeout=REQUEST_S)[resource],
        )
        return topic_settings

    def _require_ours(self, topics: set[str]) -> None:
        if others := sorted(topics - set(self.topics)):
            raise ClusterError(f"{', '.join(others)}: not a topic of this run, so it is left alone")

    def _partitions_if_any(self, topic: str) -> list[Any]:
        try:
            return self.partitions(topic)
        except RequestRefused as error:
            if error.code == ck.KafkaError.UNKNOWN_TOPIC_OR_PART:
                return []
            raise

    def _placement(self, partition: Any) -> Placement:
        replicas, in_sync = (tuple(self.name(node.id) for node in nodes) for nodes in (partition.replicas, partition.isr))
        return Placement(
            leader=self.name(partition.leader.id) if has_leader(partition) else "", replicas=replicas, in_sync=in_sync
        )
