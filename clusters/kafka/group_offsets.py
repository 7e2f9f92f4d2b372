"""A consumer group's committed offsets, for every provider (KIP-447: offsets of open transactions are waited for)."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import TimeoutError as FutureTimeout

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from harness.api import ClusterError

_TRIES, _PAUSE_S = 20, 0.25


def committed_offsets(client: AdminClient, group: str, partitions: Iterable[str], request_s: float) -> dict[str, int]:
    """Partition -> committed offset, where there is one. Asked again while a coordinator moves. Raises ClusterError."""
    places = [TopicPartition(topic, int(number)) for topic, _, number in (name.rpartition("-") for name in partitions)]
    wanted = [ConsumerGroupTopicPartitions(group, places)]
    for attempt in range(_TRIES):
        try:
            future = client.list_consumer_group_offsets(wanted, require_stable=True, request_timeout=request_s)[group]
            found = future.result(timeout=2 * request_s).topic_partitions
            if failed := next((place.error for place in found if place.error), None):
                raise KafkaException(failed)
        except (KafkaException, FutureTimeout) as error:
            if attempt + 1 == _TRIES:
                raise ClusterError(f"the committed offsets of group {group} cannot be read: {error}") from error
            time.sleep(_PAUSE_S)
        else:
            return {f"{place.topic}-{place.partition}": place.offset for place in found if place.offset >= 0}
    return {}
