"""A driver of aiokafka: usage: aiokafka_driver.py DIRECTORY (of the installed package)"""

from __future__ import annotations

import asyncio
import inspect
import ssl
import sys
from concurrent.futures import TimeoutError
from contextlib import suppress
from threading import Thread
from typing import Any

sys.path.insert(0, sys.argv[1])

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from driver import Failure, Request, Results, bytes_of, log_warnings, seconds, topic_and_number
from python_client import CAPABILITIES, PythonClientDriver, names, record_of
from python_settings import REQUEST_MS, arguments, refused

CLOSE_S = 1.0
REFRESH_S = 0.5
LOCAL_S = 30.0  # calls without a time limit of their own, which wait for metadata at most
NO_LIMIT = ("delivery.timeout.ms",)  # idempotent records are retried until their transaction ends
FILES = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_password")


class AiokafkaDriver(PythonClientDriver):
    """All clients live in one event loop, in a thread of its own: it runs between the calls too."""

    client, version, capabilities = "aiokafka", aiokafka.__version__, CAPABILITIES

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        Thread(target=self._loop.run_forever, daemon=True).start()
        if "group_instance_id" in _defaults(AIOKafkaConsumer):
            self.capabilities = [*CAPABILITIES, "static-members"]

    def start(self, function: Any, *values: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(function(*values), self._loop)

    def fate(self, future: Any) -> Any:
        if not future.done():
            return None
        return asyncio.CancelledError("cancelled") if future.cancelled() else future.exception() or future.result()

    def state(self) -> str:
        manager = getattr(self._producer, "_txn_manager", None)
        name = manager.state.name if manager is not None else ""
        return {"FATAL_ERROR": "fatal", "ABORTABLE_ERROR": "abortable"}.get(name, "")

    def check(self, request: Request) -> Results:
        problems = []
        for side, client in (("producer", AIOKafkaProducer), ("consumer", AIOKafkaConsumer)):
            settings = {name: value for name, value in (request.get(side) or {}).items() if name not in NO_LIMIT}
            problems += refused(side, settings, _defaults(client))
        return {"refused": problems}

    def open(self, request: Request) -> Results:
        self.close(request)
        self._settings = request
        return self.initialise(request)

    def initialise(self, request: Request) -> Results:
        self._close_producer()
        if self._settings.get("producer") is not None:
            self._producer = self.limited("open", seconds(request), self._new_producer)
        return None

    def begin(self, request: Request) -> Results:
        self._given_up = None
        self._soon(self.writer().begin_transaction)
        return None

    def send(self, request: Request) -> Results:
        headers = [(name, bytes_of(value) or b"") for name, value in request["headers"]]
        key, value = bytes_of(request["key"]), bytes_of(request["value"])
        topic, partition = request["topic"], request["partition"]
        self._records[request["record"]] = self._soon(self.writer().send, topic, value, key, partition, None, headers)
        self.report()
        return None

    def flush(self, request: Request) -> Results:
        with suppress(TimeoutError):
            self._soon(self.writer().flush, limit_s=seconds(request))
        self.report()
        if self._records:
            raise Failure("KafkaTimeoutError", 0, f"{len(self._records)} records still in flight", retriable=True)
        return None

    def send_offsets(self, request: Request) -> Results:
        offsets = {_partition(name): offset for name, offset in request["offsets"].items()}
        call = self.writer().send_offsets_to_transaction
        self.limited("send_offsets", seconds(request), call, offsets, request["group"]["group_id"])
        return None

    def assign(self, request: Request) -> Results:
        partitions = [_partition(name) for name in request["positions"]]
        self._soon(_async(self._reader().assign), partitions)
        return self.seek(request)

    def subscribe(self, request: Request) -> Results:
        consumer, listener = self._reader(), _Listener(self)
        self._soon(_async(lambda: consumer.subscribe(request["topics"], listener=listener)))
        return None

    def seek(self, request: Request) -> Results:
        consumer = self._reader()
        for name, position in request["positions"].items():
            if position in ("start", "end"):
                call = consumer.seek_to_beginning if position == "start" else consumer.seek_to_end
                self.start(_reset, consumer, call, _partition(name))  # polls wait for it
            else:
                self._soon(_async(consumer.seek), _partition(name), position)
        return None

    def position(self, request: Request) -> Results:
        consumer = self._reader()
        return {"positions": {name: self._soon(consumer.position, _partition(name)) for name in request["partitions"]}}

    def committed(self, request: Request) -> Results:
        consumer, limit_s = self._reader(), seconds(request)
        offsets = {name: self._soon(consumer.committed, _partition(name), limit_s=limit_s) for name in request["partitions"]}
        return {"offsets": offsets}

    def group(self, request: Request) -> Results:
        """aiokafka adds offsets for a group, whoever the member is."""
        self._reader()
        return {"group": {"group_id": self._settings["group"]}}

    def poll(self, request: Request) -> Results:
        return self._soon(self._poll, self._reader(), request["timeout_ms"], request["limit"])

    def leave(self, request: Request) -> Results:
        if self._producer is not None:
            self.flush(request)
            self._soon(self._producer.stop, limit_s=seconds(request))
            self._producer = None
        if self._consumer is not None:
            self._soon(self._consumer.stop, limit_s=seconds(request))
            self._consumer = None
        return None

    def close(self, request: Request) -> Results:
        """A hard end takes the tasks of both clients away, and closes their connections."""
        self._close_producer()
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            self._let_go(consumer, consumer._client)
            with suppress(Exception, TimeoutError):
                self.start(_cancel_all).result(CLOSE_S)
        return None

    async def _new_producer(self) -> Any:
        transactional_id, settings = self._settings["transactional_id"], self._settings["producer"]
        own = {"transactional_id": transactional_id} if transactional_id else {}
        return await _started(AIOKafkaProducer, {**self._arguments(settings, AIOKafkaProducer), **own})

    async def _new_consumer(self) -> Any:
        own = {"group_id": self._settings["group"], "enable_auto_commit": False}
        return await _started(AIOKafkaConsumer, {**self._arguments(self._settings["consumer"], AIOKafkaConsumer), **own})

    def _arguments(self, settings: Any, client: Any) -> dict[str, Any]:
        known = {name: value for name, value in settings.items() if name not in NO_LIMIT}
        made = arguments(known, {**_defaults(client), "request_timeout_ms": REQUEST_MS})
        files = {name: made.pop(name) for name in FILES if name in made}
        if files:
            made["ssl_context"] = _context(files)
        return {**made, "bootstrap_servers": self._settings["bootstrap"].split(","), "client_id": self._settings["name"]}

    def _reader(self) -> Any:
        """The consumer, made by the first call that needs it."""
        if self._settings.get("consumer") is None:
            raise Failure("IllegalStateError", 0, "this process has no consumer")
        if self._consumer is None:
            self._consumer = self._soon(self._new_consumer)
        return self._consumer

    async def _poll(self, consumer: Any, timeout_ms: int, limit: int) -> dict[str, Any]:
        batches = await consumer.getmany(timeout_ms=timeout_ms, max_records=limit)
        records = [record_of(record) for partition in batches.values() for record in partition]
        return {"records": records, "ends": _ends(consumer)}

    def _soon(self, function: Any, *values: Any, limit_s: float = LOCAL_S) -> Any:
        """A coroutine's result; it is cancelled after its time."""

        async def call() -> Any:
            return await asyncio.wait_for(function(*values), limit_s)

        with self.failures():
            try:
                return self.start(call).result()
            except (asyncio.TimeoutError, TimeoutError) as error:
                text = f"no end after {limit_s} s"
                raise Failure("TimeoutError", 0, text, retriable=True) from error

    def _close_producer(self) -> None:
        """Let go of the producer: nothing is flushed, and an open transaction stays open."""
        producer, self._producer = self._producer, None
        if (future := self.abandoned()) is not None:
            future.cancel()
        if producer is not None:
            self._let_go(producer, producer.client, producer._sender)

    def _let_go(self, client: Any, *parts: Any) -> None:
        client._closed = True

        async def close() -> None:
            for part in reversed(parts):
                await part.close()

        with suppress(Exception, TimeoutError):
            self.start(close).result(CLOSE_S)


class _Listener(ConsumerRebalanceListener):
    """Partitions are given or taken: events."""

    def __init__(self, driver: AiokafkaDriver) -> None:
        self._driver = driver

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._driver.rebalanced("revoked", names(revoked))

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._driver.rebalanced("assigned", names(assigned))


async def _started(client: Any, settings: dict[str, Any]) -> Any:
    """A new client, connected; without connections left behind when that fails or is cancelled."""
    made = client(**settings)
    try:
        await made.start()
    except BaseException:
        made._closed = True
        await (made.client if client is AIOKafkaProducer else made._client).close()
        raise
    return made


async def _cancel_all() -> None:
    for task in asyncio.all_tasks():
        if task is not asyncio.current_task():
            task.cancel()


def _async(function: Any) -> Any:
    """A function to be called in the loop."""

    async def call(*values: Any) -> Any:
        return function(*values)

    return call


def _ends(consumer: Any) -> dict[str, int]:
    """Partitions whose position has reached the last stable offset (at read_uncommitted the high watermark) of the last fetch."""
    assignment, ends = getattr(consumer._subscription.subscription, "assignment", None), {}
    for partition in assignment.tps if assignment is not None else ():
        state = assignment.state_value(partition)
        end = state.highwater if state.lso in (None, -1) else state.lso
        if state.has_valid_position and end is not None and state.position >= end:
            ends[f"{partition.topic}-{partition.partition}"] = state.position
    return ends


async def _reset(consumer: Any, call: Any, partition: Any) -> None:
    """Seek to the start or the end, and look for new leaders meanwhile: aiokafka does not, until `metadata.max.age.ms`."""
    assignment = consumer._subscription.subscription.assignment
    seeking = asyncio.ensure_future(call(partition))
    await asyncio.sleep(REFRESH_S)
    while assignment.active and not assignment.state_value(partition).has_valid_position:
        consumer._client.force_metadata_update()
        await asyncio.sleep(REFRESH_S)
    await seeking


def _defaults(client: Any) -> dict[str, Any]:
    """The arguments of a client with their defaults, and the files that become an SSL context."""
    parameters = inspect.signature(client.__init__).parameters.values()
    own = {parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty}
    return {**own, **dict.fromkeys(FILES)}


def _context(files: dict[str, str]) -> Any:
    context = ssl.create_default_context(cafile=files.get("ssl_cafile"))
    if "ssl_certfile" in files:
        context.load_cert_chain(files["ssl_certfile"], files.get("ssl_keyfile"), files.get("ssl_password"))
    return context


def _partition(name: str) -> Any:
    return TopicPartition(*topic_and_number(name))


if __name__ == "__main__":
    log_warnings()
    AiokafkaDriver().serve()
