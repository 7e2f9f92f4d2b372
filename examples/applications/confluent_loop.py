"""Consume, transform, produce with confluent-kafka, exactly once (KIP-98, KIP-447).

fencepost run -w application --set 'command={python} {examples}/applications/confluent_loop.py'

Outputs and the group's offsets are committed in one transaction, with the consumer's group metadata, so that an instance that has
lost its partitions is fenced. After an abort the instance seeks back to what it had read. After a fatal error it makes another
producer, which fences the one before. Where to begin in a partition that it is assigned it asks itself, for librdkafka may begin
at `auto.offset.reset` when it had to wait for the answer (docs/discoveries.md).
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Sequence

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

ENV = os.environ
CONNECTION = {"bootstrap.servers": ENV["FENCEPOST_BOOTSTRAP"], **json.loads(ENV.get("FENCEPOST_CONNECTION", "{}"))}
CONSUMER = {
    "group.id": ENV["FENCEPOST_GROUP"],
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 1500,
}
INPUT, OUTPUT = ENV["FENCEPOST_INPUT"], ENV["FENCEPOST_OUTPUT"]
BATCH, POLL_S, CALL_S = 50, 0.2, 30.0
running = True
rebalances = 0  # of which partitions were taken away


def main() -> int:
    signal.signal(signal.SIGTERM, stop)
    consumer = Consumer({**CONNECTION, **CONSUMER})
    consumer.subscribe([INPUT], on_assign=assigned, on_revoke=rebalanced, on_lost=rebalanced)
    producer = new_producer()
    while running:
        before = rebalances
        batch = [message for message in consumer.consume(BATCH, POLL_S) if message.error() is None]
        if rebalances != before:  # some of it may be another's by now
            seek_back(consumer, batch)
        elif batch and not committed(consumer, producer, batch):
            producer = producer if aborted(producer) else new_producer()
            seek_back(consumer, batch)
    consumer.close()
    return 0


def new_producer(transactional_id: str = ENV["FENCEPOST_TRANSACTIONAL_ID"]) -> Producer:
    """A producer that has fenced the one before with its transactional id. It is tried until that works."""
    while True:
        producer = Producer(
            {
                **CONNECTION,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": 10_000,
                "linger.ms": 0,
            }
        )
        try:
            producer.init_transactions(CALL_S)
            return producer
        except KafkaException as error:
            print(f"no producer yet: {error}", flush=True)
            if not running:
                sys.exit(1)
            time.sleep(0.5)


def committed(consumer: Consumer, producer: Producer, batch: Sequence[Message]) -> bool:
    """Perform a transaction; return whether it is committed."""
    try:
        producer.begin_transaction()
        for message in batch:
            produce(producer, message)
        producer.send_offsets_to_transaction(after(batch), consumer.consumer_group_metadata(), CALL_S)
        commit(producer)
        return True
    except KafkaException as error:
        print(f"not committed: {error}", flush=True)
        return False


def produce(producer: Producer, message: Message) -> None:
    """Produce the output of an input record: the same text in capitals.

    Its headers name the input (`fencepost-input`, copied), and have the SHA-256 of the content of which it was made.
    """
    value = content(message)
    headers = [*(message.headers() or ()), ("content-sha256", hashlib.sha256(value).hexdigest().encode())]
    while True:
        try:
            producer.produce(OUTPUT, key=message.key(), value=value.decode().upper().encode(), headers=headers)
            return
        except BufferError:
            producer.poll(0.1)


def content(message: Message) -> bytes:
    """The content of an input record."""
    value: bytes = message.value()
    return value


def commit(producer: Producer) -> None:
    """Commit; a call that may be repeated is repeated, for its outcome is not known until then."""
    deadline = time.monotonic() + 2 * CALL_S
    while True:
        try:
            producer.commit_transaction(CALL_S)
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise


def aborted(producer: Producer) -> bool:
    """Abort the transaction; return whether the producer can go on, which it cannot after a fatal error."""
    try:
        producer.abort_transaction(CALL_S)
        return True
    except KafkaException as error:
        print(f"not aborted: {error}", flush=True)
        return False


def after(batch: Sequence[Message]) -> list[TopicPartition]:
    """The offsets at which reading goes on."""
    last = {message.partition(): message.offset() for message in batch}
    return [TopicPartition(INPUT, partition, offset + 1) for partition, offset in last.items()]


def seek_back(consumer: Consumer, batch: Sequence[Message]) -> None:
    """Read on where the group stands, in the partitions of the batch that are still ours."""
    first = {message.partition(): message.offset() for message in reversed(batch)}
    wanted = [TopicPartition(INPUT, tp.partition) for tp in consumer.assignment() if tp.partition in first]
    while running and wanted:
        try:
            for partition, offset in group_offsets(consumer, wanted).items():
                seek(consumer, TopicPartition(INPUT, partition, first[partition] if offset is None else offset))
            return
        except KafkaException as error:
            print(f"not back yet: {error}", flush=True)


def assigned(consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
    """Begin where the group stands, once no transaction with an offset of it is open."""
    reset = OFFSET_BEGINNING if CONSUMER["auto.offset.reset"] == "earliest" else OFFSET_END
    while running and partitions:
        try:
            known = group_offsets(consumer, partitions)
            places = [(tp.partition, known[tp.partition]) for tp in partitions]
            consumer.assign([TopicPartition(INPUT, number, reset if at is None else at) for number, at in places])
            return
        except KafkaException as error:
            print(f"not assigned yet: {error}", flush=True)


def group_offsets(consumer: Consumer, partitions: Sequence[TopicPartition]) -> dict[int, int | None]:
    """The group's offset of each partition; None: it has none. Raises KafkaException."""
    places = consumer.committed(list(partitions), CALL_S)
    for place in places:
        if place.error:
            raise KafkaException(place.error)
    return {place.partition: place.offset if place.offset >= 0 else None for place in places}


def seek(consumer: Consumer, place: TopicPartition) -> None:
    try:
        consumer.seek(place)
    except KafkaException as error:
        if error.args[0].code() != KafkaError._STATE:  # it is not read yet, and will be from where the group stands
            raise


def rebalanced(*_: object) -> None:
    global rebalances
    rebalances += 1


def stop(*_: object) -> None:
    global running
    running = False


if __name__ == "__main__":
    sys.exit(main())
