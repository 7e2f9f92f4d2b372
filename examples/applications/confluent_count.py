"""Counts the inputs of each key with confluent-kafka, exactly once: the loop of confluent_loop.py with a state.

fencepost run -w application --set 'command={python} {examples}/applications/confluent_count.py' --set keys=20 \
    --set 'counts=json /count' --set 'stores=["counts"]' --set 'stored=count regex ^([0-9]+)$' -n kill,target=client

The store is a dictionary for each partition of the input, its changelog a topic with as many partitions. Changelog, outputs and
offsets are committed in one transaction. Whatever is not sure to be committed is forgotten, and restored from the changelog when
it is needed next: after an abort, and after a rebalance.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import confluent_loop as loop
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

CHANGELOG = f"{loop.ENV['FENCEPOST_GROUP']}-counts-changelog"
DIRECTORY = Path(loop.ENV["FENCEPOST_DIRECTORY"])
RESTORE = {"group.id": "nobody", "enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "earliest"}
State = dict[int, dict[bytes, int]]  # partition -> key -> count
state: State = {}


def main() -> int:
    signal.signal(signal.SIGTERM, loop.stop)
    make_changelog()
    consumer = Consumer({**loop.CONNECTION, **loop.CONSUMER})
    consumer.subscribe([loop.INPUT], on_assign=loop.assigned, on_revoke=rebalanced, on_lost=rebalanced)
    producer = loop.new_producer()
    while loop.running:
        before = loop.rebalances
        batch = [message for message in consumer.consume(loop.BATCH, loop.POLL_S) if message.error() is None]
        if loop.rebalances != before:
            loop.seek_back(consumer, batch)
        elif batch and not committed(consumer, producer, batch):
            state.clear()
            producer = producer if loop.aborted(producer) else loop.new_producer()
            loop.seek_back(consumer, batch)
        dump([place.partition for place in consumer.assignment()])
    consumer.close()
    return 0


def make_changelog() -> None:
    """Make the topic, unless another instance has."""
    admin = AdminClient(loop.CONNECTION)
    metadata = admin.list_topics(loop.INPUT, loop.CALL_S)
    partitions, replicas = len(metadata.topics[loop.INPUT].partitions), min(3, len(metadata.brokers))
    topic = NewTopic(CHANGELOG, partitions, replicas, config={"cleanup.policy": "compact"})
    try:
        admin.create_topics([topic], operation_timeout=loop.CALL_S)[CHANGELOG].result(loop.CALL_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def committed(consumer: Consumer, producer: Producer, batch: Sequence[Message]) -> bool:
    """Perform a transaction; return whether it is committed."""
    for partition in {message.partition() for message in batch} - state.keys():
        state[partition] = restored(partition)
    try:
        producer.begin_transaction()
        for message in batch:
            counts = state[message.partition()]
            counts[message.key()] = count = counts.get(message.key(), 0) + 1
            log(producer, message, count)
            produce(producer, loop.OUTPUT, key=message.key(), value=json.dumps({"count": count}), headers=message.headers())
        producer.send_offsets_to_transaction(loop.after(batch), consumer.consumer_group_metadata(), loop.CALL_S)
        loop.commit(producer)
        return True
    except KafkaException as error:
        print(f"not committed: {error}", flush=True)
        return False


def log(producer: Producer, message: Message, count: int) -> None:
    """Write the new count of a key to the changelog."""
    produce(producer, CHANGELOG, key=message.key(), value=str(count), partition=message.partition())


def produce(producer: Producer, topic: str, **record: object) -> None:
    while True:
        try:
            producer.produce(topic, **record)
            return
        except BufferError:
            producer.poll(0.1)


def restored(partition: int) -> dict[bytes, int]:
    """The counts of a partition by its changelog, once every transaction in it is decided."""
    levels = ("read_committed", "read_uncommitted")
    readers = [Consumer({**loop.CONNECTION, **RESTORE, "isolation.level": level}) for level in levels]
    try:
        while loop.running:
            try:
                return _read(*readers, TopicPartition(CHANGELOG, partition, OFFSET_BEGINNING))
            except KafkaException as error:
                print(f"not restored yet: {error}", flush=True)
                time.sleep(0.5)
        sys.exit(0)
    finally:
        for reader in readers:
            reader.close()


def _read(committed: Consumer, uncommitted: Consumer, place: TopicPartition) -> dict[bytes, int]:
    counts: dict[bytes, int] = {}
    _, end = uncommitted.get_watermark_offsets(place, loop.CALL_S)
    committed.assign([place])
    while loop.running:
        message = committed.poll(loop.POLL_S)
        if message is None:
            continue
        if message.error() is None:
            counts[message.key()] = int(message.value())
        elif message.error().code() != KafkaError._PARTITION_EOF:
            raise KafkaException(message.error())
        elif message.offset() >= end:
            break
    return counts


def dump(partitions: Sequence[int]) -> None:
    """Write what the store holds, if fencepost asks for it (docs/your-application.md)."""
    request = DIRECTORY / "dump"
    if not request.exists():
        return
    answer, part = DIRECTORY / request.read_text(), DIRECTORY / "dump.part"
    with part.open("w") as file:
        for partition in partitions:
            place = {"store": "counts", "partition": partition}
            print(json.dumps({**place, "role": "active"}), file=file)
            for key, count in (state[partition] if partition in state else restored(partition)).items():
                print(json.dumps({**place, "key": key.decode(), "value": str(count)}), file=file)
    os.remove(request)
    part.rename(answer)


def rebalanced(*_: object) -> None:
    loop.rebalanced()
    state.clear()


if __name__ == "__main__":
    sys.exit(main())
