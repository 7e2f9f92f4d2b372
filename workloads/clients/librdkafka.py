"""The client of the installed confluent-kafka (librdkafka) behind `harness.api.Client`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import confluent_kafka as ck

from fencepost.harness.api import (
    CAPABILITIES,
    CallError,
    ClientSettings,
    Delivered,
    Done,
    GroupMetadata,
    Outgoing,
    Polled,
    Position,
    Rebalance,
)

FLUSH_STEP_S = 0.1
_OFFSETS: Mapping[Position, int] = {"start": ck.OFFSET_BEGINNING, "end": ck.OFFSET_END}

# Beneath the workload's and the test's own settings; each has its reason.
PRODUCER_DEFAULTS: Mapping[str, Any] = {
    "linger.ms": 0,  # a record leaves when it is sent: transactions are short, and waiting would hide interleavings
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 200,  # back soon after a fault, so that time is spent on operations
}
CONSUMER_DEFAULTS: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",  # after a truncation, start over: the checker sees the jump
    "fetch.wait.max.ms": 100,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 200,
    "enable.partition.eof": True,  # reports the end, which trailing transaction markers otherwise hide
}


def call_error(call: str, error: ck.KafkaError) -> CallError:
    """librdkafka's error as a CallError, with its flags; a fatal one of a consumer comes with a message, unmarked."""
    return CallError(
        call,
        error.name(),
        error.code(),
        error.str(),
        fatal=error.fatal() or error.code() == ck.KafkaError._FATAL,
        retriable=error.retriable(),
        abortable=error.txn_requires_abort(),
    )


@contextmanager
def _translated(call: str) -> Iterator[None]:
    """Turn every error of confluent-kafka into a CallError of `call`."""
    try:
        yield
    except ck.KafkaException as error:
        raise call_error(call, error.args[0]) from error
    except BufferError as error:
        raise CallError(call, "_QUEUE_FULL", ck.KafkaError._QUEUE_FULL, str(error), retriable=True) from error


class Librdkafka:
    """One producer and one consumer of confluent-kafka.

    After a failed call (`client.recovery`): what the error's flags say, by rdkafka.h.
    """

    version: ClassVar[str] = str(ck.libversion()[0])
    capabilities: ClassVar[frozenset[str]] = frozenset(CAPABILITIES)
    library = "librdkafka"

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._producer: ck.Producer | None = None
        self._consumer: ck.Consumer | None = None
        self._positions: Mapping[str, Position] = {}
        self._ends: dict[str, int] = {}
        self._failed: CallError | None = None
        self._memberless: GroupMetadata | None = None

    def open(self, timeout_s: float) -> None:
        with _translated("open"):
            if self._settings.producer is not None:
                self._open_producer(self._settings.producer, timeout_s)

    def _open_producer(self, settings: Mapping[str, Any], timeout_s: float) -> None:
        transactional_id = self._settings.transactional_id
        own = {"transactional.id": transactional_id} if transactional_id else {}
        self._producer = ck.Producer({**self._common(), **PRODUCER_DEFAULTS, **settings, **own})
        if transactional_id:
            self._producer.init_transactions(timeout_s)

    def initialise(self, timeout_s: float) -> None:
        self._close_producer()
        self.open(timeout_s)

    def _common(self) -> dict[str, Any]:
        return {"bootstrap.servers": self._settings.bootstrap, "client.id": self._settings.name}

    def _reader(self, call: str) -> ck.Consumer:
        """The consumer, made by the first call that needs it. Raises CallError when this process has none."""
        settings = self._settings
        if settings.consumer is None:
            raise CallError(call, "_STATE", ck.KafkaError._STATE, "this process has no consumer")
        if self._consumer is None:
            group = {"group.id": settings.group}
            self._consumer = ck.Consumer({**self._common(), **group, **CONSUMER_DEFAULTS, **settings.consumer})
        return self._consumer

    def assign(self, positions: Mapping[str, Position]) -> None:
        """Assigned by the first poll: a consumer that is never polled would fetch the whole log in vain."""
        self._positions = dict(positions)

    def subscribe(self, topics: Sequence[str], rebalanced: Callable[[Rebalance], None]) -> None:
        def event(kind: Any) -> Callable[[Any, Any], None]:
            return lambda _, partitions: rebalanced(Rebalance(kind, tuple(map(_name, partitions))))

        with _translated("subscribe"):
            consumer = self._reader("subscribe")
            consumer.subscribe(list(topics), on_assign=event("assigned"), on_revoke=event("revoked"), on_lost=event("lost"))

    def seek(self, positions: Mapping[str, Position]) -> None:
        with _translated("seek"):
            for place in map(_at, positions.items()):
                self._reader("seek").seek(place)

    def position(self, partitions: Sequence[str]) -> Mapping[str, int | None]:
        with _translated("position"):
            return _offsets(self._reader("position").position([_at((name, 0)) for name in partitions]))

    def committed(self, partitions: Sequence[str], timeout_s: float) -> Mapping[str, int | None]:
        with _translated("committed"):
            return _offsets(self._reader("committed").committed([_at((name, 0)) for name in partitions], timeout_s))

    def commit_offsets(self, offsets: Mapping[str, int], timeout_s: float) -> None:
        with _translated("commit_offsets"):
            self._reader("commit_offsets").commit(offsets=[_at(item) for item in offsets.items()], asynchronous=False)

    def group(self) -> GroupMetadata:
        with _translated("group"):
            return self._reader("group").consumer_group_metadata()

    def memberless_group(self) -> GroupMetadata:
        """That of a consumer which never joins: confluent-kafka makes group metadata in no other way."""
        with _translated("memberless_group"):
            if self._memberless is None:
                stranger = ck.Consumer({**self._common(), "group.id": self._settings.group})
                self._memberless = stranger.consumer_group_metadata()
                stranger.close()
            return self._memberless

    def begin(self) -> None:
        with self._writing("begin") as producer:
            producer.begin_transaction()

    def send(self, record: Outgoing, done: Done) -> None:
        def delivered(error: ck.KafkaError | None, message: ck.Message) -> None:
            done(call_error("deliver", error) if error else Delivered(_name(message), message.offset()))

        to = {} if record.partition is None else {"partition": record.partition}
        with self._writing("send") as producer:
            producer.produce(
                record.topic, key=record.key, value=record.value, headers=list(record.headers), on_delivery=delivered, **to
            )
            producer.poll(0)

    def flush(self, timeout_s: float) -> None:
        # not Producer.flush: confluent-kafka 2.16 calls back from it with an exception pending when the producer has failed
        deadline = time.monotonic() + timeout_s
        with self._writing("flush") as producer:
            while (left := len(producer)) and time.monotonic() < deadline:
                producer.poll(FLUSH_STEP_S)
        if left:
            raise CallError("flush", "_TIMED_OUT", ck.KafkaError._TIMED_OUT, f"{left} records still in flight", retriable=True)

    def send_offsets(self, offsets: Mapping[str, int], group: GroupMetadata, timeout_s: float) -> None:
        with self._writing("send_offsets") as producer:
            producer.send_offsets_to_transaction([_at(item) for item in offsets.items()], group, timeout_s)

    def commit(self, timeout_s: float) -> None:
        with self._writing("commit") as producer:
            producer.commit_transaction(timeout_s)

    def abort(self, timeout_s: float) -> None:
        with self._writing("abort") as producer:
            producer.abort_transaction(timeout_s)

    def poll(self, timeout_s: float, limit: int = 1000) -> list[Polled]:
        with _translated("poll"):
            consumer = self._reader("poll")
            if self._positions:
                consumer.assign([_at(item) for item in self._positions.items()])
                self._positions = {}
            if (failed := self._failed) is not None:
                self._failed = failed if failed.fatal else None
                raise failed
            first = consumer.poll(timeout_s)
        messages = [] if first is None else [first]
        try:
            with _translated("poll"):
                messages += consumer.consume(limit - 1, 0) if messages else []
        except CallError as error:
            self._failed = error  # raised by the next poll: what this one already got must not be lost
        return [record for message in messages if (record := self._record(message)) is not None]

    def ends(self) -> Mapping[str, int]:
        return self._ends

    def leave(self, timeout_s: float) -> None:
        if self._producer is not None:
            self.flush(timeout_s)
        self.close()

    def close(self) -> None:
        self._close_producer()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _close_producer(self) -> None:
        if self._producer is not None:
            self._producer.purge(in_queue=True, in_flight=True, blocking=False)
            self._producer = None

    @contextmanager
    def _writing(self, call: str) -> Iterator[ck.Producer]:
        """The producer for one call, whose errors become a CallError of `call`."""
        if self._producer is None:
            raise CallError(call, "_STATE", ck.KafkaError._STATE, "this process has no producer")
        with _translated(call):
            yield self._producer

    def _record(self, message: ck.Message) -> Polled | None:
        error = message.error()
        if error is not None:
            if error.code() == ck.KafkaError._PARTITION_EOF:
                self._ends[_name(message)] = message.offset()
                return None
            failed = call_error("poll", error)
            if failed.fatal and not failed.retriable:
                self._failed = failed
            return None  # from others librdkafka recovers by itself; what is lost by it, the checker sees
        return Polled(
            _name(message),
            message.offset(),
            message.value() or b"",
            message.key(),
            tuple(message.headers() or ()),
            message.timestamp()[1] if message.timestamp()[0] else None,
        )


def _name(place: ck.Message | ck.TopicPartition) -> str:
    """`topic-number` of a message, or of confluent-kafka's name of a partition."""
    if isinstance(place, ck.TopicPartition):
        return f"{place.topic}-{place.partition}"
    return f"{place.topic()}-{place.partition()}"


def _at(item: tuple[str, Position]) -> ck.TopicPartition:
    partition, position = item
    topic, _, number = partition.rpartition("-")
    return ck.TopicPartition(topic, int(number), position if isinstance(position, int) else _OFFSETS[position])


def _offsets(places: Sequence[ck.TopicPartition]) -> dict[str, int | None]:
    """confluent-kafka's offsets; a negative one stands for none."""
    return {_name(place): place.offset if place.offset >= 0 else None for place in places}
