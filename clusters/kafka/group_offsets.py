"""A consumer group's committed offsets, for every provider (KIP-447: offsets of open transactions are waited for).

They are asked by a consumer that never joins the group, and not by `AdminClient.list_consumer_group_offsets`: librdkafka 2.16.0
ends the whole process with signal 11 when a broker answers that call with NOT_COORDINATOR or COORDINATOR_NOT_AVAILABLE, because
its admin client has no group of its own (confluent-kafka-javascript, issue 374).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from fencepost.harness.api import ClusterError

_TRIES, _PAUSE_S = 20, 0.25
_OWN = {"enable.auto.commit": False, "isolation.level": "read_committed", "log_level": 0}  # read_committed: require-stable


def committed_offsets(
    settings: Mapping[str, Any], group: str, partitions: Iterable[str], request_s: float
) -> dict[str, int | None]:
    """Partition -> committed offset, None where there is none. Asked again while a coordinator moves. Raises ClusterError.

    settings: librdkafka's, with which a client connects.
    """
    places = [TopicPartition(topic, int(number)) for topic, _, number in (name.rpartition("-") for name in partitions)]
    consumer = Consumer({**settings, **_OWN, "group.id": group})
    try:
        offsets = _answer(consumer, group, places, request_s)
    finally:
        consumer.close()
    return {f"{place.topic}-{place.partition}": place.offset if place.offset >= 0 else None for place in offsets}


def _answer(consumer: Consumer, group: str, places: list[TopicPartition], request_s: float) -> list[TopicPartition]:
    for attempt in range(_TRIES):
        try:
            offsets: list[TopicPartition] = consumer.committed(places, timeout=request_s)
            if failed := next((place.error for place in offsets if place.error), None):
                raise KafkaException(failed)
        except KafkaException as error:
            if attempt + 1 == _TRIES:
                raise ClusterError(f"the committed offsets of group {group} cannot be read: {error}") from error
            time.sleep(_PAUSE_S)
        else:
            return offsets
    return []
