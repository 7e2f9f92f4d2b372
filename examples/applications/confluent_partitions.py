"""Consume, transform, produce with a transactional id for each input partition, exactly once (KIP-98, before KIP-447).

fencepost run -w application --set 'command={python} {examples}/applications/confluent_partitions.py'

Whoever is assigned a partition makes the producer of its transactional id, which fences that of the former owner and ends its
transaction, and only then reads where the group stands. So offsets need name no member of the group. Partitions move one by one
(`cooperative-sticky`). After a fatal error the instance leaves the group and joins it again, for the partition may be another's.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import confluent_loop as loop
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

GROUP = loop.CONSUMER["group.id"]
SETTINGS = {**loop.CONNECTION, **loop.CONSUMER, "partition.assignment.strategy": "cooperative-sticky"}
producers: dict[int, Producer] = {}


def main() -> int:
    signal.signal(signal.SIGTERM, loop.stop)
    group = memberless_group()
    while loop.running:
        consumer = Consumer(SETTINGS)
        consumer.subscribe([loop.INPUT], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
        work(consumer, group)
        consumer.close()
        producers.clear()
    return 0


def memberless_group() -> Any:
    """The metadata of a consumer that has joined no group."""
    consumer = Consumer(SETTINGS)
    metadata = consumer.consumer_group_metadata()
    consumer.close()
    return metadata


def work(consumer: Consumer, group: Any) -> None:
    """Process what is read, until the end or a fatal error."""
    while loop.running:
        before = loop.rebalances
        batch = [message for message in consumer.consume(loop.BATCH, loop.POLL_S) if message.error() is None]
        if loop.rebalances != before:  # some of it may be another's by now, or will be read again
            loop.seek_back(consumer, batch)
            continue
        for partition, messages in groupby(sorted(batch, key=place), Message.partition):
            if not processed(consumer, producers[partition], list(messages), group):
                return


def place(message: Message) -> tuple[int, int]:
    return message.partition(), message.offset()


def processed(consumer: Consumer, producer: Producer, messages: Sequence[Message], group: Any) -> bool:
    """Perform the transaction of a partition; return whether the instance can go on."""
    try:
        producer.begin_transaction()
        for message in messages:
            loop.produce(producer, message)
        producer.send_offsets_to_transaction(loop.after(messages), group, loop.CALL_S)
        loop.commit(producer)
        return True
    except KafkaException as error:
        print(f"not committed: {error}", flush=True)
    if not loop.aborted(producer):
        return False
    loop.seek_back(consumer, messages)
    return True


def assigned(_: Consumer, partitions: Sequence[TopicPartition]) -> None:
    """Fence former owners; the client reads the group's offsets after this."""
    loop.rebalanced()
    for tp in partitions:
        producers[tp.partition] = loop.new_producer(f"{GROUP}-{tp.topic}-{tp.partition}")


def revoked(_: Consumer, partitions: Sequence[TopicPartition]) -> None:
    loop.rebalanced()
    for tp in partitions:
        producers.pop(tp.partition, None)


if __name__ == "__main__":
    sys.exit(main())
