"""Metadata of topics and brokers on an external cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import confluent_kafka as ck

from fencepost.clusters.external.connection import REQUEST_S, Connection


@dataclass(frozen=True)
class ClusterMetadata:
    """The base class of admin and roles.

    connection: to the cluster.
    names: Kafka's node id -> our name of the broker.
    topics: those that the run made.
    """

    connection: Connection
    names: Mapping[int, str]
    topics: tuple[str, ...] = ()

    def partitions(self, topic: str) -> list[Any]:
        """The partitions of a topic, as librdkafka describes them. Raises ClusterError."""
        described = self.connection.ask(
            f"describe the topic {topic}",
            lambda client: client.describe_topics(ck.TopicCollection([topic]), request_timeout=REQUEST_S)[topic],
        )
        return list(described.partitions)

    def name(self, number: int) -> str:
        return self.names.get(number, f"broker {number} (new since the start)")


def has_leader(partition: Any) -> bool:
    """Return whether a described partition has a leader."""
    return partition.leader is not None and partition.leader.id >= 0


def topic_and_number(partition: str) -> tuple[str, int]:
    """`orders-0` -> (`orders`, 0)."""
    topic, _, number = partition.rpartition("-")
    return topic, int(number)
