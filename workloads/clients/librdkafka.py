"""The client of the installed confluent-kafka (librdkafka) behind `harness.api.Client`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import confluent_kafka as ck

from harness.api import CallError, ClientSettings, Polled

FLUSH_STEP_S = 0.1
Done = Callable[["int | None", "CallError | None"], None]

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
    """librdkafka's error as a CallError, with its three flags."""
    return CallError(
        call,
        error.name(),
        error.code(),
        error.str(),
        fatal=error.fatal(),
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
    """One producer and one consumer of confluent-kafka."""

    version: ClassVar[str] = str(ck.libversion()[0])

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._producer: ck.Producer | None = None
        self._consumer: ck.Consumer | None = None
        self._ends: dict[str, int] = {}
        self._failed: CallError | None = None

    def open(self, timeout_s: float) -> None:
        """Create the producer and, if it is transactional, initialise its transactions; without a producer, the consumer.

        Beside a producer the consumer is made by the first poll: one that is never polled would fetch the whole log in vain.
        """
        settings = self._settings
        with _translated("open"):
            if settings.producer is None:
                self._consumer = self._new_consumer()
                return
            own = {"transactional.id": settings.transactional_id} if settings.transactional_id else {}
            self._producer = ck.Producer({**self._common(), **PRODUCER_DEFAULTS, **settings.producer, **own})
            if settings.transactional_id:
                self._producer.init_transactions(timeout_s)

    def _common(self) -> dict[str, Any]:
        return {"bootstrap.servers": self._settings.bootstrap, "client.id": self._settings.name}

    def _new_consumer(self) -> ck.Consumer | None:
        settings = self._settings
        if settings.consumer is None:
            return None
        group = {"group.id": settings.group}  # demanded by librdkafka; positions are never committed
        consumer = ck.Consumer({**self._common(), **group, **CONSUMER_DEFAULTS, **settings.consumer})
        consumer.assign([_at_start(partition) for partition in settings.partitions])
        return consumer

    def begin(self) -> None:
        with self._writing("begin") as producer:
            producer.begin_transaction()

    def send(self, partition: str, key: bytes, value: bytes, done: Done) -> None:
        def delivered(error: ck.KafkaError | None, message: ck.Message) -> None:
            done(None if error else message.offset(), call_error("deliver", error) if error else None)

        topic, _, number = partition.rpartition("-")
        with self._writing("send") as producer:
            producer.produce(topic, key=key, value=value, partition=int(number), on_delivery=delivered)
            producer.poll(0)

    def flush(self, timeout_s: float) -> None:
        # not Producer.flush: confluent-kafka 2.16 calls back from it with an exception pending when the producer has failed
        deadline = time.monotonic() + timeout_s
        with self._writing("flush") as producer:
            while (left := len(producer)) and time.monotonic() < deadline:
                producer.poll(FLUSH_STEP_S)
        if left:
            raise CallError("flush", "_TIMED_OUT", ck.KafkaError._TIMED_OUT, f"{left} records still in flight", retriable=True)

    def commit(self, timeout_s: float) -> None:
        with self._writing("commit") as producer:
            producer.commit_transaction(timeout_s)

    def abort(self, timeout_s: float) -> None:
        with self._writing("abort") as producer:
            producer.abort_transaction(timeout_s)

    def poll(self, timeout_s: float, limit: int = 1000) -> list[Polled]:
        with _translated("poll"):
            if self._consumer is None:
                self._consumer = self._new_consumer()
            consumer = self._consumer
            if consumer is None:
                raise CallError("poll", "_STATE", ck.KafkaError._STATE, "this process has no consumer")
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

    def close(self) -> None:
        if self._producer is not None:
            self._producer.purge(in_queue=True, in_flight=True, blocking=False)
            self._producer = None
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

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
                self._ends[f"{message.topic()}-{message.partition()}"] = message.offset()
                return None
            if error.retriable() or not error.fatal():
                return None  # librdkafka reports and recovers by itself; what is lost by it, the checker sees
            self._failed = call_error("poll", error)
            return None
        return Polled(f"{message.topic()}-{message.partition()}", message.offset(), message.value() or b"")


def _at_start(partition: str) -> ck.TopicPartition:
    topic, _, number = partition.rpartition("-")
    return ck.TopicPartition(topic, int(number), ck.OFFSET_BEGINNING)
