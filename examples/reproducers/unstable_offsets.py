"""A member of a group begins at `auto.offset.reset`, although its group has an offset (docs/discoveries.md).

    fencepost example unstable_offsets
    fencepost example unstable_offsets --how assign
    fencepost example unstable_offsets --how stay

One Kafka broker of the cached jars on loopback, producers and consumers of librdkafka, no fault:

1. A topic of two partitions has 100 records in each, and a transaction has committed the group's offsets, which are 100.
2. Another transaction of the same producer has the same offsets, and stays open. To a read_committed consumer the coordinator
   answers UNSTABLE_OFFSET_COMMIT then (KIP-447), and librdkafka asks again and again.
3. A consumer of the group is assigned both partitions, and waits for their offsets.
4. Each partition gets ten more records, and the consumer's assignment changes: another member joins (`--how join`, with
   cooperative-sticky), or it assigns the same partitions itself once more (`--how assign`). With `--how stay` it does not.
5. The transaction is committed, and each partition gets ten more records. At which offset did reading begin? With
   `--reset latest` it begins behind those of step 4.

Exit code: 0 when each partition was read from the group's offset on, 1 when one was not, 2 when nobody read one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition, libversion
from refused_marker import CALL_S, TOPIC, Broker, new_producer

from fencepost.clusters.kafka.distribution import fetch

GROUP, RECORDS, MORE = "g", 100, 10
PARTITIONS = (0, 1)
CHANGES = ("join", "assign", "stay")
WAITING_S, CHANGED_S, READING_S = 2.0, 5.0, 60.0


def fill(bootstrap: str, count: int) -> None:
    """Send so many records to each partition."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for partition in PARTITIONS:
        for number in range(count):
            producer.produce(TOPIC, str(number).encode(), partition=partition)
    producer.flush(CALL_S)


def add_offsets(producer: Producer, bootstrap: str) -> None:
    """Begin a transaction that commits the group's offsets: all records are processed."""
    nobody = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0})
    producer.begin_transaction()
    offsets = [TopicPartition(TOPIC, partition, RECORDS) for partition in PARTITIONS]
    producer.send_offsets_to_transaction(offsets, nobody.consumer_group_metadata(), CALL_S)
    nobody.close()


class Member:
    """A consumer of the group. first: the offset of the first record that it got of each partition."""

    def __init__(self, bootstrap: str, reset: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": GROUP, "auto.offset.reset": reset, "enable.auto.commit": False}
        settings |= {"isolation.level": "read_committed", "partition.assignment.strategy": "cooperative-sticky", "log_level": 0}
        self.consumer = Consumer(settings)
        self.first: dict[int, int] = {}

    def poll(self) -> None:
        message = self.consumer.poll(0.05)
        if message is not None and message.error() is None:
            self.first.setdefault(message.partition(), message.offset())


def poll_until(members: Sequence[Member], deadline_s: float, over: Callable[[], bool] = lambda: False) -> None:
    """Poll each of them until something is over, at most so long."""
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline and not over():
        for member in members:
            member.poll()


def first_offsets(bootstrap: str, how: str, reset: str) -> dict[int, int]:
    """The offset at which each partition was first read."""
    producer = new_producer(bootstrap)
    add_offsets(producer, bootstrap)
    producer.commit_transaction(CALL_S)
    add_offsets(producer, bootstrap)
    members = [Member(bootstrap, reset)]
    places = [TopicPartition(TOPIC, partition) for partition in PARTITIONS]
    if how == "join":
        members[0].consumer.subscribe([TOPIC])
        poll_until(members, CALL_S, lambda: len(members[0].consumer.assignment()) == len(PARTITIONS))
    else:
        members[0].consumer.assign(places)
    poll_until(members, WAITING_S)
    fill(bootstrap, MORE)
    if how == "join":
        members.append(Member(bootstrap, reset))
        members[1].consumer.subscribe([TOPIC])
    elif how == "assign":
        members[0].consumer.assign(places)
    poll_until(members, CHANGED_S)
    producer.commit_transaction(CALL_S)
    poll_until(members, WAITING_S)
    fill(bootstrap, MORE)
    poll_until(members, READING_S, lambda: {partition for member in members for partition in member.first} == {*PARTITIONS})
    for member in members:
        member.consumer.close()
    return {partition: offset for member in members for partition, offset in member.first.items()}


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kafka", default="4.4.0", help="the broker's version")
    parser.add_argument("--how", choices=CHANGES, default="join", help="what changes the assignment")
    parser.add_argument("--reset", choices=("earliest", "latest"), default="earliest", help="the consumers' auto.offset.reset")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    given = arguments(argv)
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(fetch(given.kafka), Path(folder))
        try:
            broker.start_with({TOPIC: len(PARTITIONS)})
            fill(broker.bootstrap, RECORDS)
            first = first_offsets(broker.bootstrap, given.how, given.reset)
        finally:
            broker.kill()
    began = ", ".join(f"{TOPIC}-{partition} at {first.get(partition, 'no record')}" for partition in PARTITIONS)
    versions = f"librdkafka {libversion()[0]}, Kafka {given.kafka}"
    print(f"{versions}, {given.how}: the group's offsets are {RECORDS}; reading began: {began}")
    if len(first) < len(PARTITIONS):
        return 2
    return int(any(offset != RECORDS for offset in first.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
