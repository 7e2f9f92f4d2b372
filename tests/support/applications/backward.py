"""The loop of confluent_loop.py. After one transaction in five it commits older offsets of the group, and then the right ones.

As long as no partition moves in between, its outputs are right: whoever takes a partition over then processes inputs once more.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "applications"))

import confluent_loop as right
from confluent_kafka import Consumer, Message, Producer, TopicPartition

committed, transactions = right.committed, count(1)


def backward(consumer: Consumer, producer: Producer, batch: Sequence[Message]) -> bool:
    if not committed(consumer, producer, batch):
        return False
    if next(transactions) % 5 == 0:
        for offsets in (before(batch), right.after(batch)):
            producer.begin_transaction()
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), right.CALL_S)
            right.commit(producer)
    return True


def before(batch: Sequence[Message]) -> list[TopicPartition]:
    """The offsets at which a batch begins."""
    first = {message.partition(): message.offset() for message in reversed(batch)}
    return [TopicPartition(right.INPUT, partition, offset) for partition, offset in first.items()]


if __name__ == "__main__":
    right.committed = backward
    sys.exit(right.main())
