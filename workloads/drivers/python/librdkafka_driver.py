"""A driver of librdkafka: usage: librdkafka_driver.py LIBRARY [RELEASE]

LIBRARY: the shared library; RELEASE: the confluent-kafka that brought it. Producer and consumer are used as confluent-kafka
uses them: delivery reports and rebalances are called back from within other calls, in the same thread.
"""

from __future__ import annotations

import ctypes
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Any, Iterable

from driver import Driver, Failure, Request, Results, bytes_of, seconds, text_of, topic_and_number
from librdkafka_library import (
    ASSIGN_PARTITIONS,
    CONSUMER,
    FATAL,
    INVALID_ARG,
    NO_CONSUMER_CLOSE,
    OFFSETS,
    PARTITION_ANY,
    PARTITION_EOF,
    PRODUCER,
    PURGE,
    QUEUE_FULL,
    STATE,
    TIMED_OUT,
    DeliveryReport,
    Library,
    Message,
    Rebalance,
    data,
)

FLUSH_STEP_MS = 100
DESTROY_S = 1.0
FOREVER = -1
KAFKA_NAMES = {"delivery.timeout.ms": "message.timeout.ms", "fetch.max.wait.ms": "fetch.wait.max.ms"}
CONSUMER_SETTINGS = {
    "enable.auto.commit": "false",
    "enable.partition.eof": "true",  # reports the end, which trailing transaction markers otherwise hide
    "isolation.level": "read_uncommitted",
}
CAPABILITIES = {  # by the setting without which there is none
    "static-members": "group.instance.id",
    "consumer-protocol": "group.protocol",
}


class LibrdkafkaDriver(Driver):
    """One producer and one consumer."""

    client = "librdkafka"

    def __init__(self, library: Library, release: str) -> None:
        super().__init__()
        self._library = library
        self.version = library.version_str().decode() + (f" (confluent-kafka {release})" if release else "")
        self.capabilities = _capabilities(library)
        self._callbacks = DeliveryReport(self._report), Rebalance(self._rebalance)  # as long as a client may call them
        self._settings: Request = {}
        self._producer: Any = None
        self._consumer: Any = None
        self._consumer_queue: Any = None
        self._subscribed = False
        self._positions: dict[str, int] = {}
        self._failed: Failure | None = None

    def check(self, request: Request) -> Results:
        refused = []
        for side, kind in (("producer", PRODUCER), ("consumer", CONSUMER)):
            if request.get(side) is not None:
                refused += [[side, key, text] for key, text in self._refused(kind, request[side])]
        return {"refused": refused}

    def open(self, request: Request) -> Results:
        self.close(request)
        self._settings = request
        self._open_producer(seconds(request))
        return None

    def initialise(self, request: Request) -> Results:
        self._close_producer()
        self._open_producer(seconds(request))
        return None

    def begin(self, request: Request) -> Results:
        self._check(self._library.begin_transaction(self._writer()))
        return None

    def send(self, request: Request) -> Results:
        headers = [(name, bytes_of(value)) for name, value in request["headers"]]
        partition = PARTITION_ANY if request["partition"] is None else request["partition"]
        key, value = bytes_of(request["key"]), bytes_of(request["value"])
        producer = self._writer()
        error = self._library.produce(producer, request["topic"], partition, key, value, headers, request["record"])
        if error == QUEUE_FULL:
            raise self._failure(error, retriable=True)
        if error:
            raise self._failure(error, f"Unable to produce message: {self._library.err2str(error).decode()}")
        self._library.poll(producer, 0)
        return None

    def flush(self, request: Request) -> Results:
        producer, deadline = self._writer(), time.monotonic() + seconds(request)
        while (left := self._library.outq_len(producer)) and time.monotonic() < deadline:
            self._library.poll(producer, FLUSH_STEP_MS)
        if left:
            raise Failure("_TIMED_OUT", TIMED_OUT, f"{left} records still in flight", retriable=True)
        return None

    def send_offsets(self, request: Request) -> Results:
        library, buffer, group = self._library, bytes_of(request["group"]["metadata"]) or b"", ctypes.c_void_p()
        self._check(library.consumer_group_metadata_read(group, buffer, len(buffer)))
        places = library.places((*topic_and_number(name), offset) for name, offset in request["offsets"].items())
        try:
            self._check(library.send_offsets_to_transaction(self._writer(), places, group, request["timeout_ms"]))
        finally:
            library.topic_partition_list_destroy(places)
            library.consumer_group_metadata_destroy(group)
        return None

    def commit(self, request: Request) -> Results:
        self._check(self._library.commit_transaction(self._writer(), request["timeout_ms"]))
        return None

    def abort(self, request: Request) -> Results:
        self._check(self._library.abort_transaction(self._writer(), request["timeout_ms"]))
        return None

    def assign(self, request: Request) -> Results:
        """Assigned by the first poll: a consumer that is never polled would fetch the whole log in vain."""
        self._positions = {name: OFFSETS.get(position, position) for name, position in request["positions"].items()}
        return None

    def subscribe(self, request: Request) -> Results:
        library, consumer = self._library, self._reader()
        places = library.places((topic, PARTITION_ANY, 0) for topic in request["topics"])
        error = library.subscribe(consumer, places)
        library.topic_partition_list_destroy(places)
        self._check_number(error)
        self._subscribed = True
        return None

    def seek(self, request: Request) -> Results:
        consumer = self._reader()
        for name, position in request["positions"].items():
            topic, number = topic_and_number(name)
            handle = self._library.topic_new(consumer, topic.encode(), None)
            error = self._library.seek(handle, number, OFFSETS.get(position, position), FOREVER)
            self._library.topic_destroy(handle)
            self._check_number(error)
        return None

    def position(self, request: Request) -> Results:
        consumer = self._reader()
        return {"positions": self._offsets(request, lambda places: self._library.position(consumer, places))}

    def committed(self, request: Request) -> Results:
        consumer, timeout_ms = self._reader(), request["timeout_ms"]
        return {"offsets": self._offsets(request, lambda places: self._library.committed(consumer, places, timeout_ms))}

    def commit_offsets(self, request: Request) -> Results:
        places = self._library.places((*topic_and_number(name), offset) for name, offset in request["offsets"].items())
        try:
            self._check_number(self._library.commit(self._reader(), places, 0))
        finally:
            self._library.topic_partition_list_destroy(places)
        return None

    def group(self, request: Request) -> Results:
        library, buffer, length = self._library, ctypes.c_void_p(), ctypes.c_size_t()
        group = library.consumer_group_metadata(self._reader())
        if not group:
            raise self._failure(STATE)
        try:
            self._check(library.consumer_group_metadata_write(group, buffer, length))
        finally:
            library.consumer_group_metadata_destroy(group)
        metadata = text_of(data(buffer.value, length.value))
        library.mem_free(None, buffer)
        return {"group": {"group_id": self._settings["group"], "metadata": metadata}}

    def poll(self, request: Request) -> Results:
        library, consumer = self._library, self._reader()
        if self._positions:
            self._assign(consumer)
        if (failed := self._failed) is not None:
            self._failed = failed if failed.members["fatal"] else None
            raise failed
        first = library.consumer_poll(consumer, request["timeout_ms"])
        messages = [first, *self._more(request["limit"] - 1)] if first else []
        results: dict[str, Any] = {"records": [], "ends": {}}
        for message in messages:
            self._take(message, results)
            library.message_destroy(message)
        return results

    def leave(self, request: Request) -> Results:
        if self._producer is not None:
            self.flush(request)
            self._close_producer()
        if self._consumer is not None:
            self._library.consumer_close(self._consumer)
            self._close_consumer()
        return None

    def close(self, request: Request) -> Results:
        self._close_producer()
        self._close_consumer()
        return None

    def _open_producer(self, timeout_s: float) -> None:
        settings, transactional_id = self._settings.get("producer"), self._settings.get("transactional_id")
        if settings is None:
            return
        own = {"transactional.id": transactional_id} if transactional_id else {}
        self._producer = self._client(PRODUCER, {**settings, **own})
        if transactional_id:
            self._check(self._library.init_transactions(self._producer, int(timeout_s * 1000)))

    def _client(self, kind: int, settings: dict[str, Any]) -> Any:
        """A new client of the settings."""
        common = {"bootstrap.servers": self._settings["bootstrap"], "client.id": self._settings["name"]}
        conf, refused = self._conf(kind, {**common, **settings})
        if refused:
            self._library.conf_destroy(conf)
            raise Failure("_INVALID_ARG", INVALID_ARG, refused[0][1])
        handle, text = self._library.client(kind, conf)
        if not handle:
            raise Failure("_INVALID_ARG", INVALID_ARG, f"Failed to create a client: {text}")
        return handle

    def _conf(self, kind: int, settings: dict[str, Any]) -> tuple[Any, list[tuple[str, str]]]:
        conf, refused = self._library.conf(_translated(kind, settings))
        report, rebalance = self._callbacks
        if kind == PRODUCER:
            self._library.conf_set_dr_msg_cb(conf, report)
        else:
            self._library.conf_set_rebalance_cb(conf, rebalance)
        return conf, refused

    def _refused(self, kind: int, settings: dict[str, Any]) -> list[tuple[str, str]]:
        """The refusals of single settings by librdkafka, else of all of them together. Without brokers no connection is made."""
        beside = {"log_level": 0}
        if kind == CONSUMER:
            beside["group.id"] = "fencepost-check"
        elif "transaction.timeout.ms" in settings:
            beside["transactional.id"] = "fencepost-check"
        conf, refused = self._conf(kind, {**beside, **settings})
        if refused:
            self._library.conf_destroy(conf)
            names = {KAFKA_NAMES[name]: name for name in settings if name in KAFKA_NAMES}
            return [(names.get(key, key), text) for key, text in refused]
        handle, text = self._library.client(kind, conf)
        if handle:
            self._library.destroy_flags(handle, NO_CONSUMER_CLOSE)
        return [] if handle else [("", text)]

    def _writer(self) -> Any:
        if self._producer is None:
            raise Failure("_STATE", STATE, "this process has no producer")
        return self._producer

    def _reader(self) -> Any:
        """The consumer, made by the first call that needs it."""
        settings = self._settings.get("consumer")
        if settings is None:
            raise Failure("_STATE", STATE, "this process has no consumer")
        if self._consumer is None:
            self._consumer = self._client(CONSUMER, {"group.id": self._settings["group"], **settings})
            self._library.poll_set_consumer(self._consumer)
            self._consumer_queue = self._library.queue_get_consumer(self._consumer)
        return self._consumer

    def _assign(self, consumer: Any) -> None:
        places = self._library.places((*topic_and_number(name), offset) for name, offset in self._positions.items())
        error = self._library.assign(consumer, places)
        self._library.topic_partition_list_destroy(places)
        self._check_number(error)
        self._positions = {}

    def _more(self, limit: int) -> list[Any]:
        """The messages that have been fetched already."""
        if limit < 1:
            return []
        batch = (ctypes.POINTER(Message) * limit)()
        count = self._library.consume_batch_queue(self._consumer_queue, 0, batch, limit)
        if count < 0:  # raised by the next poll: what this one already got must not be lost
            self._failed = self._failure(self._library.last_error())
        return [batch[index] for index in range(count)]

    def _take(self, message: Any, results: dict[str, Any]) -> None:
        """A message is a record, the end of its partition, or an error."""
        content = message.contents
        if content.error == PARTITION_EOF:
            results["ends"][f"{self._topic(content)}-{content.partition}"] = content.offset
        elif content.error == FATAL:
            number, text = self._library.fatal(self._consumer)
            self._failed = self._failure(number, text, fatal=True)
        elif not content.error:  # librdkafka reports others and recovers by itself; what is lost by it, the checker sees
            results["records"].append(self._record(message, content))

    def _record(self, message: Any, content: Any) -> list[Any]:
        kind = ctypes.c_int()
        timestamp = self._library.message_timestamp(message, kind)
        return [
            self._topic(content),
            content.partition,
            content.offset,
            text_of(data(content.key, content.key_length)),
            text_of(data(content.payload, content.length)),
            [[name, text_of(value)] for name, value in self._library.headers(message)],
            timestamp if kind.value else None,
        ]

    def _topic(self, content: Any) -> str:
        return self._library.topic_name(content.topic).decode()

    def _offsets(self, request: Request, call: Any) -> dict[str, int | None]:
        """The offsets that a call writes into a list of partitions; a negative one stands for none."""
        places = self._library.places((*topic_and_number(name), 0) for name in request["partitions"])
        try:
            self._check_number(call(places))
            return {
                name: place.offset if place.offset >= 0 else None
                for name, place in zip(request["partitions"], places.contents.elements)
            }
        finally:
            self._library.topic_partition_list_destroy(places)

    def _report(self, _client: Any, message: Any, _opaque: Any) -> None:
        """A record's fate: called back."""
        content = message.contents
        if content.error:
            self.undelivered(content.opaque, self._failure(content.error))
        else:
            self.delivered(content.opaque, content.partition, content.offset if content.offset >= 0 else None)

    def _rebalance(self, client: Any, error: int, places: Any, _opaque: Any) -> None:
        """Partitions are given or taken: called back. The rebalance goes on at once."""
        library = self._library
        names = [f"{place.topic.decode()}-{place.partition}" for place in places.contents.elements[: places.contents.count]]
        assigned = error == ASSIGN_PARTITIONS
        lost = not assigned and library.assignment_lost is not None and library.assignment_lost(client)
        self.rebalanced("assigned" if assigned else "lost" if lost else "revoked", names)
        if library.rebalance_protocol is not None and library.rebalance_protocol(client) == b"COOPERATIVE":
            change = library.incremental_assign if assigned else library.incremental_unassign
            if wrong := change(client, places):
                library.error_destroy(wrong)
        else:
            library.assign(client, places if assigned else None)

    def _check(self, error: Any) -> None:
        """Raise what an rd_kafka_error_t says, if there is one."""
        if not error:
            return
        library = self._library
        failure = self._failure(
            library.error_code(error),
            library.error_string(error).decode("utf-8", "replace"),
            fatal=bool(library.error_is_fatal(error)),
            retriable=bool(library.error_is_retriable(error)),
            abortable=bool(library.error_txn_requires_abort(error)),
        )
        library.error_destroy(error)
        raise failure

    def _check_number(self, error: int) -> None:
        if error:
            raise self._failure(error)

    def _failure(self, error: int, text: str = "", **flags: bool) -> Failure:
        library = self._library
        return Failure(library.err2name(error).decode(), error, text or library.err2str(error).decode(), **flags)

    def _close_producer(self) -> None:
        if self._producer is not None:
            producer, self._producer = self._producer, None
            self._library.purge(producer, PURGE)
            self._bounded(self._library.destroy, producer)

    def _bounded(self, destroy: Any, *arguments: Any) -> None:
        """Destroy a client; one that does not end (old releases join threads that never do) is left behind."""
        thread = Thread(target=destroy, args=arguments, daemon=True)
        thread.start()
        thread.join(DESTROY_S)
        if thread.is_alive():
            self.write({"event": "log", "level": "warning", "text": f"a client has not ended {DESTROY_S} s after its close"})

    def _close_consumer(self) -> None:
        """Let go of the consumer; a member does not leave its group by this."""
        if self._consumer is not None:
            self._library.queue_destroy(self._consumer_queue)
            self._bounded(self._library.destroy_flags, self._consumer, NO_CONSUMER_CLOSE if self._subscribed else 0)
        self._consumer, self._subscribed, self._positions, self._failed = None, False, {}, None


def _translated(kind: int, settings: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """Settings by librdkafka's names, which win over Kafka's, as texts."""
    named = {KAFKA_NAMES.get(name, name): value for name, value in settings.items()}
    named.update({name: value for name, value in settings.items() if name not in KAFKA_NAMES})
    own = CONSUMER_SETTINGS if kind == CONSUMER else {}
    return [(name, _text(value)) for name, value in {**own, **named}.items()]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _capabilities(library: Library) -> list[str]:
    everywhere = ["transactions", "idempotence", "assign", "ends", "partitioner", "headers", "offsets-in-transactions", "groups"]
    everywhere += ["offset-commits", "seek", "initialise", "leave", "isolation"]
    conf, refused = library.conf((setting, "x") for setting in CAPABILITIES.values())
    library.conf_destroy(conf)
    unknown = {key for key, text in refused if "No such" in text}
    return everywhere + [name for name, setting in CAPABILITIES.items() if setting not in unknown]


if __name__ == "__main__":
    LibrdkafkaDriver(Library(Path(sys.argv[1])), "".join(sys.argv[2:3])).serve()
