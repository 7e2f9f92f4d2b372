"""A driver of kafka-python: usage: kafka_python_driver.py DIRECTORY (of the installed package)"""

from __future__ import annotations

import logging
import sys
import time
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from typing import Any

sys.path.insert(0, sys.argv[1])

import kafka
from driver import Failure, Request, Results, bytes_of, log_warnings, seconds, topic_and_number
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata
from python_client import CAPABILITIES, PythonClientDriver, names, record_of
from python_settings import arguments, refused

CLOSE_S = 1.0
WAITS = (
    "max_block_ms",
    "bootstrap_timeout_ms",
    "api_version_auto_timeout_ms",
)  # for the cluster: no longer than `open`
ENDS_S = 0.2  # the ends are asked for this seldom, and this long


class KafkaPythonDriver(PythonClientDriver):
    """Calls that may take for ever run in a thread."""

    client, version, capabilities = "kafka-python", kafka.__version__, CAPABILITIES

    def __init__(self) -> None:
        super().__init__()
        if "group_instance_id" in KafkaConsumer.DEFAULT_CONFIG:
            self.capabilities = [*CAPABILITIES, "static-members"]
        self._listener = _Listener(self)
        self._ends_at = 0.0

    def start(self, function: Any, *values: Any) -> Any:
        return started(function, *values)

    def fate(self, future: Any) -> Any:
        return None if not future.is_done else future.value if future.succeeded() else future.exception

    def state(self) -> str:
        manager = getattr(self._producer, "_transaction_manager", None)
        if manager is None or not manager.has_error():
            return ""
        return "fatal" if manager.has_fatal_error() else "abortable" if manager.is_transactional() else ""

    def check(self, request: Request) -> Results:
        producer, consumer = request.get("producer") or {}, request.get("consumer") or {}
        problems = refused("producer", producer, KafkaProducer.DEFAULT_CONFIG)
        return {"refused": problems + refused("consumer", consumer, KafkaConsumer.DEFAULT_CONFIG)}

    def open(self, request: Request) -> Results:
        self.close(request)
        self._settings = request
        return self.initialise(request)

    def initialise(self, request: Request) -> Results:
        self._close_producer()
        if self._settings.get("producer") is not None:
            self._producer = self.limited("open", seconds(request), self._new_producer, request["timeout_ms"])
            if self._settings["transactional_id"]:
                with self.failures():
                    self._producer.init_transactions()
        return None

    def begin(self, request: Request) -> Results:
        self._given_up = None
        with self.failures():
            self.writer().begin_transaction()
        return None

    def send(self, request: Request) -> Results:
        headers = [(name, bytes_of(value) or b"") for name, value in request["headers"]]
        key, value = bytes_of(request["key"]), bytes_of(request["value"])
        with self.failures():
            future = self.writer().send(request["topic"], value, key, headers, request["partition"])
        self._records[request["record"]] = future
        self.report()
        return None

    def flush(self, request: Request) -> Results:
        try:
            with self.failures():
                self.writer().flush(seconds(request))
        finally:
            self.report()
        if self._records:
            raise Failure("KafkaTimeoutError", 0, f"{len(self._records)} records still in flight", retriable=True)
        return None

    def send_offsets(self, request: Request) -> Results:
        offsets = {_partition(name): _offset_and_metadata(offset) for name, offset in request["offsets"].items()}
        group = _group(request["group"])
        self.limited("send_offsets", seconds(request), self.writer().send_offsets_to_transaction, offsets, group)
        return None

    def assign(self, request: Request) -> Results:
        with self.failures():
            self._reader().assign([_partition(name) for name in request["positions"]])
        return self.seek(request)

    def subscribe(self, request: Request) -> Results:
        with self.failures():
            self._reader().subscribe(request["topics"], listener=self._listener)
        return None

    def seek(self, request: Request) -> Results:
        consumer = self._reader()
        with self.failures():
            for name, position in request["positions"].items():
                if position == "start":
                    consumer.seek_to_beginning(_partition(name))
                elif position == "end":
                    consumer.seek_to_end(_partition(name))
                else:
                    consumer.seek(_partition(name), position)
        return None

    def position(self, request: Request) -> Results:
        consumer = self._reader()
        with self.failures():
            return {"positions": {name: consumer.position(_partition(name), 1000) for name in request["partitions"]}}

    def committed(self, request: Request) -> Results:
        consumer, timeout_ms = self._reader(), request["timeout_ms"]
        with self.failures():
            offsets = {name: consumer.committed(_partition(name), timeout_ms=timeout_ms) for name in request["partitions"]}
        return {"offsets": offsets}

    def group(self, request: Request) -> Results:
        consumer = self._reader()
        if not hasattr(consumer, "group_metadata"):
            return {"group": {"group_id": self._settings["group"]}}
        with self.failures():
            metadata = consumer.group_metadata()
        return {"group": {name: value for name, value in metadata._asdict().items() if isinstance(value, (str, int))}}

    def poll(self, request: Request) -> Results:
        consumer = self._reader()
        with self.failures():
            batches = consumer.poll(timeout_ms=request["timeout_ms"], max_records=request["limit"])
        records = [record_of(record) for partition in batches.values() for record in partition]
        return {"records": records, "ends": {} if records else self._ends()}

    def leave(self, request: Request) -> Results:
        if self._producer is not None:
            self.flush(request)
            with self.failures():
                self._producer.close(timeout=seconds(request))
            self._producer = None
        if self._consumer is not None:
            consumer, self._consumer = self._consumer, None
            with self.failures():
                consumer.close(autocommit=False)
        return None

    def close(self, request: Request) -> Results:
        self._close_producer()
        if self._consumer is not None:
            consumer, self._consumer = self._consumer, None
            _bounded(lambda: consumer.close(autocommit=False, timeout_ms=0))
        return None

    def _new_producer(self, timeout_ms: int) -> Any:
        transactional_id = self._settings["transactional_id"]
        own = {"transactional_id": transactional_id} if transactional_id else {}
        settings = arguments(self._settings["producer"], KafkaProducer.DEFAULT_CONFIG)
        beneath = {name: timeout_ms for name in WAITS if name in KafkaProducer.DEFAULT_CONFIG}
        return KafkaProducer(**{**beneath, **settings, **self._common(), **own})

    def _common(self) -> dict[str, Any]:
        return {"bootstrap_servers": self._settings["bootstrap"].split(","), "client_id": self._settings["name"]}

    def _reader(self) -> Any:
        """The consumer, made by the first call that needs it."""
        if self._settings.get("consumer") is None:
            raise Failure("IllegalStateError", 0, "this process has no consumer")
        if self._consumer is None:
            own = {"group_id": self._settings["group"], "enable_auto_commit": False, **self._common()}
            settings = arguments(self._settings["consumer"], KafkaConsumer.DEFAULT_CONFIG)
            with self.failures():
                self._consumer = KafkaConsumer(**{**settings, **own})
        return self._consumer

    def _ends(self) -> dict[str, int]:
        """Partitions whose position has reached the last stable offset, or the high watermark at read_uncommitted."""
        if time.monotonic() < self._ends_at:
            return {}
        self._ends_at = time.monotonic() + ENDS_S
        consumer, ends = self._consumer, {}
        try:
            positions = {partition: _position(consumer, partition) for partition in consumer.assignment()}
            for partition, end in consumer._fetcher.end_offsets(list(positions), int(ENDS_S * 1000)).items():
                position = positions[partition]
                if position is not None and position >= end:
                    ends[f"{partition.topic}-{partition.partition}"] = position
        except Exception as error:  # noqa: BLE001 - no end is known, and the records of the next polls do not depend on it
            logging.getLogger("fencepost").info("no ends: %r", error)
        return ends

    def _close_producer(self) -> None:
        """Let go of the producer: nothing is flushed, and an open transaction stays open."""
        producer, self._producer = self._producer, None
        if (future := self.abandoned()) is not None:
            future.add_done_callback(lambda opened: None if opened.exception() else _let_go(opened.result()))
        if producer is not None:
            _let_go(producer)


class _Listener(ConsumerRebalanceListener):
    """Partitions are given or taken: events."""

    def __init__(self, driver: KafkaPythonDriver) -> None:
        self._driver = driver

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._driver.rebalanced("revoked", names(revoked))

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._driver.rebalanced("assigned", names(assigned))

    def on_partitions_lost(self, lost: Any) -> None:
        self._driver.rebalanced("lost", names(lost))


def started(function: Any, *values: Any) -> Any:
    """A call in a thread of its own, as a future."""
    future: Any = Future()

    def call() -> None:
        try:
            future.set_result(function(*values))
        except Exception as error:  # noqa: BLE001 - raised where the result is asked for
            future.set_exception(error)

    Thread(target=call, daemon=True).start()
    return future


def _let_go(producer: Any) -> None:
    producer._sender.force_close()
    _bounded(lambda: producer.close(timeout=0))


def _bounded(function: Any) -> None:
    """A close that may wait for a broker, waited for a short time."""
    with suppress(Exception):
        started(function).result(CLOSE_S)


def _partition(name: str) -> Any:
    return TopicPartition(*topic_and_number(name))


def _position(consumer: Any, partition: Any) -> int | None:
    """The position without asking any broker for it."""
    state = consumer._subscription.assignment.get(partition)
    return None if state is None or state.position is None else state.position.offset


def _offset_and_metadata(offset: int) -> Any:
    """OffsetAndMetadata has had a leader epoch since 2.1."""
    return OffsetAndMetadata(*(offset, "", -1)[: len(OffsetAndMetadata._fields)])


def _group(group: dict[str, Any]) -> Any:
    """Before 3.0 a transaction's offsets were those of a group, whoever the member was."""
    metadata = getattr(kafka.structs, "ConsumerGroupMetadata", None)
    return group["group_id"] if metadata is None else metadata(**{k: v for k, v in group.items() if k in metadata._fields})


if __name__ == "__main__":
    log_warnings()
    KafkaPythonDriver().serve()
