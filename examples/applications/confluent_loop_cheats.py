"""The loop of confluent_loop.py with one thing wrong in it, which the argument names (docs/your-application.md).

fencepost run -w application --set 'command={python} {examples}/applications/confluent_loop_cheats.py early' -t 30

early: offsets are committed before the transaction.
resend: a commit without an answer within a second is taken for a failure, and the batch is sent again by another producer.
stale: after a rebalance the instance reads on where it had been in a partition itself, not where the group stands.
jump: after a rebalance the instance leaves out three inputs of a partition that it had not read before.
gather: the inputs of several seconds of polls become one transaction, and a rebalance among the polls is not noticed.
latest: where the group has no offset yet the instance begins at the end.
skip: one input in so many (SKIPPED, 1000) has no output.
outside: outputs are sent by a producer without transactions; the transaction has the offsets only.
order: one batch in ten is produced from its end to its beginning.
uncommitted: the input is read at read_uncommitted.
content: one output in so many (CHANGED, 100) has another content than its input, under its input's name.
memberless: offsets name the group and no member of it, so that nothing refuses those of an instance that has lost its partitions.
noseek: after an aborted transaction the instance reads on, and does not go back to its inputs.
partly: after an aborted transaction the instance goes back in one of the partitions of its inputs.
survivor: after an aborted transaction that its producer survives the instance reads on; it goes back with a new producer only.
remember: the instance drops what it has seen before, also where the transaction of that was aborted.
trusting: librdkafka itself looks where the group stands, with cooperative-sticky: a fault of its own (docs/discoveries.md).
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import confluent_loop as right
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

SKIPPED, CHANGED = int(os.environ.get("SKIPPED", "1000")), int(os.environ.get("CHANGED", "100"))
WORK_S = 0.05  # what a batch takes, as work on it would
PATIENCE_S = 1.0
GATHERED_S = 3.0  # of polls
produce, content, transaction = right.produce, right.content, right.committed
aborted, seek_back = right.aborted, right.seek_back


# --------------------------------------------------------------------------------------------------
# Transactions
# --------------------------------------------------------------------------------------------------
def early(consumer: Consumer, producer: Producer, batch: Sequence[Message]) -> bool:
    try:
        consumer.commit(offsets=right.after(batch), asynchronous=False)
        time.sleep(WORK_S)
        producer.begin_transaction()
        for message in batch:
            produce(producer, message)
        right.commit(producer)
        return True
    except KafkaException as error:
        print(f"not committed: {error}", flush=True)
        return False


def impatient(producer: Producer) -> None:
    """Commit, and wait for the answer no longer than `PATIENCE_S`. Raises TimeoutError."""
    try:
        producer.commit_transaction(PATIENCE_S)
    except KafkaException as error:
        if error.args[0].retriable():
            raise TimeoutError from error
        raise


def resend(consumer: Consumer, producer: Producer, batch: Sequence[Message]) -> bool:
    while right.running:
        try:
            return transaction(consumer, producer, batch)
        except TimeoutError as error:
            print(f"sent again: {error.__cause__}", flush=True)
            producer = right.new_producer()
    return False


def outside(consumer: Consumer, producer: Producer, batch: Sequence[Message]) -> bool:
    plain = Producer({**right.CONNECTION, "enable.idempotence": True, "linger.ms": 0})
    try:
        for message in batch:
            produce(plain, message)
        plain.flush(right.CALL_S)
        time.sleep(WORK_S)
        producer.begin_transaction()
        producer.send_offsets_to_transaction(right.after(batch), consumer.consumer_group_metadata(), right.CALL_S)
        right.commit(producer)
        return True
    except KafkaException as error:
        print(f"not committed: {error}", flush=True)
        return False


def unordered(consumer: Consumer, producer: Producer, batch: Sequence[Message]) -> bool:
    try:
        producer.begin_transaction()
        for message in reversed(batch) if random.random() < 0.1 else batch:
            produce(producer, message)
        producer.send_offsets_to_transaction(right.after(batch), consumer.consumer_group_metadata(), right.CALL_S)
        right.commit(producer)
        return True
    except KafkaException as error:
        print(f"not committed: {error}", flush=True)
        return False


# --------------------------------------------------------------------------------------------------
# Positions
# --------------------------------------------------------------------------------------------------
class Placed(Consumer):  # type: ignore[misc]
    """A consumer that reads on after a rebalance where `place` says, by its own positions."""

    place: Callable[[int, int | None], int | None]
    own: dict[int, int]

    def subscribe(self, topics: Sequence[str], **callbacks: Any) -> None:
        self.own = {}
        super().subscribe(topics, **{**callbacks, "on_assign": self.assigned})

    def assigned(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        known = {tp.partition: tp.offset for tp in self.committed(list(partitions), right.CALL_S)}
        for tp in partitions:
            chosen = type(self).place(known[tp.partition], self.own.get(tp.partition))
            tp.offset = chosen if chosen is not None and chosen >= 0 else known[tp.partition]
            if tp.offset != known[tp.partition]:
                print(f"{tp.partition}: reads on at {tp.offset}, the group is at {known[tp.partition]}", flush=True)
        self.assign(partitions)

    def consume(self, *arguments: Any) -> list[Message]:
        batch: list[Message] = super().consume(*arguments)
        self.own |= {message.partition(): message.offset() + 1 for message in batch if message.error() is None}
        return batch


class Stale(Placed):
    place = staticmethod(lambda committed, own: own)


class Jumping(Placed):
    place = staticmethod(lambda committed, own: committed + 3 if own is None and committed > 0 else committed)


class Gathering(Consumer):  # type: ignore[misc]
    """A consumer that gives the records of several polls together, and tells nobody of a rebalance."""

    def subscribe(self, topics: Sequence[str], **_: Any) -> None:
        super().subscribe(topics, on_assign=right.assigned)

    def consume(self, *arguments: Any) -> list[Message]:
        batch, deadline = list[Message](), time.monotonic() + GATHERED_S
        while right.running and time.monotonic() < deadline:
            batch += super().consume(*arguments)
        return batch


class Trusting(Consumer):  # type: ignore[misc]
    """A consumer that begins where librdkafka takes the group to stand."""

    def subscribe(self, topics: Sequence[str], **callbacks: Any) -> None:
        super().subscribe(topics, **{name: callback for name, callback in callbacks.items() if name != "on_assign"})


def going_back_partly(consumer: Consumer, batch: Sequence[Message]) -> None:
    seek_back(consumer, [message for message in batch if message.partition() == batch[-1].partition()])


def reading_on(consumer: Consumer, batch: Sequence[Message]) -> None:
    print(f"reads on after {len(batch)} inputs without outputs", flush=True)


def surviving(producer: Producer) -> bool:
    Survivor.read_on = aborted(producer)
    return Survivor.read_on


class Survivor:
    read_on = False

    @classmethod
    def seek_back(cls, consumer: Consumer, batch: Sequence[Message]) -> None:
        if cls.read_on:
            reading_on(consumer, batch)
        else:
            seek_back(consumer, batch)
        cls.read_on = False


class Memberless(Consumer):  # type: ignore[misc]
    """A consumer whose group metadata is that of one which is no member: generation -1."""

    def consumer_group_metadata(self) -> Any:
        return self.of_a_stranger

    @cached_property
    def of_a_stranger(self) -> Any:
        stranger = Consumer({**right.CONNECTION, **right.CONSUMER})
        metadata = stranger.consumer_group_metadata()
        stranger.close()
        return metadata


# --------------------------------------------------------------------------------------------------
# Outputs
# --------------------------------------------------------------------------------------------------
def skipping(producer: Producer, message: Message) -> None:
    if random.random() >= 1 / SKIPPED:
        produce(producer, message)


def changed(message: Message) -> bytes:
    whole: bytes = content(message)
    return whole[:-1] if random.random() < 1 / CHANGED else whole


seen: set[tuple[int, int]] = set()


def remembering(producer: Producer, message: Message) -> None:
    place = message.partition(), message.offset()
    if place in seen:
        print(f"{place[0]}: {place[1]} was seen before", flush=True)
    else:
        produce(producer, message)
        seen.add(place)


CHEATS: Mapping[str, Mapping[str, Any]] = {
    "early": {"committed": early},
    "resend": {"committed": resend, "commit": impatient},
    "stale": {"Consumer": Stale},
    "jump": {"Consumer": Jumping},
    "gather": {"Consumer": Gathering},
    "latest": {"CONSUMER": {**right.CONSUMER, "auto.offset.reset": "latest"}},
    "skip": {"produce": skipping},
    "outside": {"committed": outside},
    "order": {"committed": unordered},
    "uncommitted": {"CONSUMER": {**right.CONSUMER, "isolation.level": "read_uncommitted"}},
    "content": {"content": changed},
    "noseek": {"seek_back": reading_on},
    "partly": {"seek_back": going_back_partly},
    "survivor": {"aborted": surviving, "seek_back": Survivor.seek_back},
    "memberless": {"Consumer": Memberless},
    "remember": {"produce": remembering},
    "trusting": {"Consumer": Trusting, "CONSUMER": {**right.CONSUMER, "partition.assignment.strategy": "cooperative-sticky"}},
}


if __name__ == "__main__":
    cheat = sys.argv[1] if len(sys.argv) > 1 else ""
    if cheat not in CHEATS:
        sys.exit(f"an argument says what is wrong: {', '.join(CHEATS)}")
    for name, wrong in CHEATS[cheat].items():
        setattr(right, name, wrong)
    sys.exit(right.main())
