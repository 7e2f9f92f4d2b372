"""A committed transaction whose record was never written: what librdkafka's abort does to sequence numbers (docs/discoveries.md).

    fencepost example swallowed_write --tries 5

One Kafka broker of the cached jars on loopback, one transactional producer of librdkafka with default settings, and between the
two a proxy that loses one answer. Each try uses a topic, a transactional id and a producer of its own:

1. A transaction writes A0, then A. The broker appends A; its answer is lost with the connection. librdkafka queues A again.
2. The application aborts before the retry is due (100 ms and more). The abort purges A.
3. The next transaction writes B, and commits. B carries A's sequence number: the broker takes it for the retry of A, and answers
   with A's offset.

`--fault freeze` freezes the broker instead (SIGSTOP, with socket.timeout.ms=1000). `--instead` applies a work-around.
`--librdkafka PATH` is another build of the library: the shared object inside any confluent-kafka wheel from 1.5 on. What lies in
the log is read from the broker's segment files. Exit code: 0 when no write was swallowed, 1 when one was, 2 when a try could not
be judged.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from fencepost.clusters.kafka import log_segments
from fencepost.clusters.kafka.distribution import Distribution, fetch
from fencepost.clusters.kafka.node_directory import kafka_uuid

PRODUCE = 0  # the api key of the request whose answer is lost
BEFORE_RESET_S, BEFORE_ABORT_S = 0.3, 0.35  # the connection ends 0.3 s after the request; the abort follows before the retry
FROZEN_S, THAWED_S, BACKED_OFF_S = 2.5, 1.0, 5.0
CALL_MS = 20_000
READY_S = 60.0
WORK_AROUNDS = {
    "nothing": "abort at once, go on with the same producer",
    "flush": "flush before the abort",
    "wait": f"wait {BACKED_OFF_S:.0f} s before the abort, beyond every back-off",
    "new-producer": "close the producer after the abort, and make a new one",
    "gapless": "enable.gapless.guarantee=true",
}
QUICK_TIMEOUT = {"socket.timeout.ms": "1000", "reconnect.backoff.ms": "10", "reconnect.backoff.max.ms": "100"}


# --------------------------------------------------------------------------------------------------
# librdkafka, through its C interface
# --------------------------------------------------------------------------------------------------
class Message(ctypes.Structure):
    """`rd_kafka_message_t`."""

    _fields_ = (
        ("err", ctypes.c_int),
        ("topic", ctypes.c_void_p),
        ("partition", ctypes.c_int32),
        ("payload", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("key", ctypes.c_void_p),
        ("key_length", ctypes.c_size_t),
        ("offset", ctypes.c_int64),
    )


REPORT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Message), ctypes.c_void_p)
POINTERS: tuple[str, ...] = (
    "rd_kafka_conf_new",
    "rd_kafka_new",
    "rd_kafka_topic_new",
    "rd_kafka_init_transactions",
    "rd_kafka_begin_transaction",
)
POINTERS += ("rd_kafka_commit_transaction", "rd_kafka_abort_transaction")
TEXTS = ("rd_kafka_version_str", "rd_kafka_error_string", "rd_kafka_err2name")


class CallFailed(Exception):
    """A call of librdkafka returned an error."""


def installed_library() -> Path:
    """The shared object inside the installed confluent-kafka."""
    import confluent_kafka

    return next(Path(confluent_kafka.__file__).parents[1].glob("confluent_kafka*.libs/librdkafka*"))


def load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    for name, kind in ((POINTERS, ctypes.c_void_p), (TEXTS, ctypes.c_char_p)):
        for function in name:
            getattr(library, function).restype = kind
    return library


@dataclass
class Producer:
    """A transactional producer.

    acknowledged: payload -> the offset of its delivery report, or the error's name.
    """

    library: ctypes.CDLL
    settings: dict[str, str]
    acknowledged: dict[str, int | str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        text = ctypes.create_string_buffer(512)
        self._topics: dict[str, ctypes.c_void_p] = {}
        conf = ctypes.c_void_p(self.library.rd_kafka_conf_new())
        for name, value in self.settings.items():
            if self.library.rd_kafka_conf_set(conf, name.encode(), value.encode(), text, len(text)):
                raise CallFailed(f"{name}={value}: {text.value.decode()}")
        self._report = REPORT(self._reported)  # kept: librdkafka calls it
        self.library.rd_kafka_conf_set_dr_msg_cb(conf, self._report)
        self._handle = ctypes.c_void_p(self.library.rd_kafka_new(0, conf, text, len(text)))
        if not self._handle:
            raise CallFailed(text.value.decode())
        self._call("init_transactions", CALL_MS)

    def _reported(self, _handle: int, message: ctypes._Pointer[Message], _opaque: int) -> None:
        report = message.contents
        payload = ctypes.string_at(report.payload, report.length).decode()
        error = self.library.rd_kafka_err2name(report.err).decode() if report.err else ""
        self.acknowledged[payload] = error or report.offset

    def _call(self, name: str, *arguments: int) -> None:
        error = ctypes.c_void_p(getattr(self.library, f"rd_kafka_{name}")(self._handle, *arguments))
        if error:
            text = self.library.rd_kafka_error_string(error).decode()
            self.library.rd_kafka_error_destroy(error)
            raise CallFailed(f"{name}: {text}")

    def begin(self) -> None:
        self._call("begin_transaction")

    def commit(self) -> None:
        self._call("commit_transaction", CALL_MS)

    def abort(self) -> None:
        self._call("abort_transaction", CALL_MS)

    def send(self, topic: str, payload: str) -> None:
        """Hand over a record for partition 0 (flag 2: librdkafka copies it)."""
        if topic not in self._topics:
            self._topics[topic] = ctypes.c_void_p(self.library.rd_kafka_topic_new(self._handle, topic.encode(), None))
        data = payload.encode()
        size, no_key = ctypes.c_size_t(len(data)), ctypes.c_size_t(0)
        if self.library.rd_kafka_produce(self._topics[topic], 0, 2, data, size, None, no_key, None):
            raise CallFailed(f"{payload} was refused")

    def flush(self) -> None:
        self.library.rd_kafka_flush(self._handle, CALL_MS)

    def poll_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.library.rd_kafka_poll(self._handle, 10)

    def close(self) -> None:
        for handle in self._topics.values():
            self.library.rd_kafka_topic_destroy(handle)
        self._topics.clear()
        if self._handle:
            self.library.rd_kafka_destroy(self._handle)
        self._handle = ctypes.c_void_p()


# --------------------------------------------------------------------------------------------------
# The broker, and the proxy before it
# --------------------------------------------------------------------------------------------------
class LosingProxy:
    """Passes everything on; once armed, the next Produce reaches the broker, and the connection ends before its answer.

    port: 0 for any that is free.
    """

    def __init__(self, port: int, broker: int) -> None:
        self.armed = threading.Event()
        self.port, self._broker = port, broker
        self._ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True).start()
        self._ready.wait()

    async def _serve(self) -> None:
        async with await asyncio.start_server(self._connection, "127.0.0.1", self.port) as server:
            self.port = server.sockets[0].getsockname()[1]
            self._ready.set()
            await server.serve_forever()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            from_broker, to_broker = await asyncio.open_connection("127.0.0.1", self._broker)
            answers = asyncio.create_task(self._answers(from_broker, writer))
            try:
                await self._requests(reader, to_broker, answers)
            finally:
                answers.cancel()
                to_broker.close()
                writer.transport.abort()

    async def _requests(self, reader: asyncio.StreamReader, broker: asyncio.StreamWriter, answers: asyncio.Task[None]) -> None:
        """Pass requests on, one by one; returns when the connection is to be lost."""
        while True:
            head = await reader.readexactly(4)
            body = await reader.readexactly(struct.unpack(">i", head)[0])
            lost = self.armed.is_set() and struct.unpack(">h", body[:2])[0] == PRODUCE
            if lost:
                self.armed.clear()
                answers.cancel()
            broker.write(head + body)
            await broker.drain()
            if lost:
                await asyncio.sleep(BEFORE_RESET_S)
                return

    async def _answers(self, broker: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await broker.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()


@dataclass(frozen=True)
class Broker:
    """A running broker: its process, its data, and where clients reach it."""

    pid: int
    data: Path
    proxy: LosingProxy
    bootstrap: str

    def frozen_for(self, seconds: float) -> threading.Timer:
        """SIGSTOP now, SIGCONT after some seconds."""
        os.kill(self.pid, signal.SIGSTOP)
        timer = threading.Timer(seconds, os.kill, (self.pid, signal.SIGCONT))
        timer.start()
        return timer

    def stored(self, topic: str) -> dict[int, str]:
        """Offset -> the record or marker that the topic's log holds there."""
        rows, reason = log_segments.stored_records(self.data)
        if reason:
            raise RuntimeError(reason)
        return {row[1]: row[8] if row[7] == "record" else row[7] for row in rows if row[0] == f"{topic}-0"}


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [open_socket.getsockname()[1] for open_socket in sockets]
    for open_socket in sockets:
        open_socket.close()
    return ports


@contextmanager
def running_broker(distribution: Distribution, folder: Path) -> Iterator[Broker]:
    """One combined broker and controller whose advertised address is the proxy's."""
    port, controller, proxy_port = free_ports(3)
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy_port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": folder / "data",
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 1,
    }
    config = folder / "server.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    tool = distribution.command("kafka.tools.StorageTool", ["format", "-t", kafka_uuid(), "-c", str(config)], heap_mb=128)
    with (folder / "server.log").open("wb") as log:
        subprocess.run(tool, check=True, stdout=log, stderr=log)
        process = subprocess.Popen(distribution.command("kafka.Kafka", [str(config)], heap_mb=256), stdout=log, stderr=log)
    try:
        await_port(port, process, folder / "server.log")
        yield Broker(process.pid, folder / "data", LosingProxy(proxy_port, port), f"127.0.0.1:{proxy_port}")
    finally:
        process.kill()
        process.wait()


def await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"the broker did not start within {READY_S:.0f} s: {log.read_text(errors='replace')[-2000:]}")


# --------------------------------------------------------------------------------------------------
# One try
# --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Try:
    """The result of a try.

    outcome: `swallowed`, `written`, `error` or `unclear`.
    text: the outcome in words.
    """

    outcome: str
    text: str


def attempt(library: ctypes.CDLL, broker: Broker, topic: str, fault: str, instead: str) -> Try:
    """Perform the three steps, and look where the records lie."""
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": topic, "log_level": "2"}
    settings |= QUICK_TIMEOUT if fault == "freeze" else {}
    settings |= {"enable.gapless.guarantee": "true"} if instead == "gapless" else {}
    producers: list[Producer] = []
    try:
        producers.append(Producer(library, settings))
        one_transaction(producers[-1], topic, "warm")
        aborted_transaction(producers[-1], broker, topic, fault, instead)
        if instead == "new-producer":
            producers[-1].close()
            producers.append(Producer(library, settings))
        one_transaction(producers[-1], topic, "B")
    except CallFailed as error:
        return Try("error", f"{error}; reports {[producer.acknowledged for producer in producers]}")
    finally:
        for producer in producers:
            producer.close()
    return judged(producers[-1].acknowledged.get("B"), broker.stored(topic))


def one_transaction(producer: Producer, topic: str, payload: str) -> None:
    producer.begin()
    producer.send(topic, payload)
    producer.flush()
    producer.commit()


def aborted_transaction(producer: Producer, broker: Broker, topic: str, fault: str, instead: str) -> None:
    """A0 is acknowledged; the answer about A is lost; the application aborts."""
    producer.begin()
    producer.send(topic, "A0")
    producer.flush()
    if fault == "freeze":
        thaw = broker.frozen_for(FROZEN_S + THAWED_S)
        producer.send(topic, "A")
        producer.poll_for(FROZEN_S)
    else:
        thaw = None
        broker.proxy.armed.set()
        producer.send(topic, "A")
        producer.poll_for(BEFORE_ABORT_S)
    if instead == "flush":
        producer.flush()
    if instead == "wait":
        producer.poll_for(BACKED_OFF_S)
    producer.abort()
    if thaw:
        thaw.join()


def judged(acknowledged: int | str | None, stored: dict[int, str]) -> Try:
    text = f"B acknowledged at {acknowledged}; the log holds {stored}"
    if "B" in stored.values():
        return Try("written", text)
    if isinstance(acknowledged, int) and stored.get(acknowledged) == "A":
        return Try("swallowed", f"commit ok, {text}")
    return Try("unclear", text)


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--fault", choices=("reset", "freeze"), nargs="+", default=["reset"])
    parser.add_argument("--instead", choices=tuple(WORK_AROUNDS), nargs="+", default=["nothing"], help=f"{WORK_AROUNDS}")
    parser.add_argument(
        "--librdkafka", type=Path, nargs="+", help="shared objects; default: that of the installed confluent-kafka"
    )
    parser.add_argument("--kafka", default="4.3.0", help="the broker's version; librdkafka before 1.9 needs 3.9 or older")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    given = arguments(argv)
    seen: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, running_broker(fetch(given.kafka), Path(folder)) as broker:
        for path in given.librdkafka or [installed_library()]:
            for fault, instead in product(given.fault, given.instead):
                seen += tries(load(path), broker, fault, instead, given)
    return 1 if seen["swallowed"] else 2 if seen["error"] + seen["unclear"] else 0


def tries(library: ctypes.CDLL, broker: Broker, fault: str, instead: str, given: argparse.Namespace) -> Counter[str]:
    """The outcomes of some tries in one way with one build of the library."""
    version, outcomes = library.rd_kafka_version_str().decode(), Counter[str]()
    how = f"librdkafka {version}, Kafka {given.kafka}, {fault}, {instead}"
    for number in range(given.tries):
        result = attempt(library, broker, f"t-{version}-{fault}-{instead}-{number}", fault, instead)
        outcomes[result.outcome] += 1
        print(f"{how}: {result.outcome}: {result.text}", flush=True)
    print(f"{how}: swallowed {outcomes['swallowed']} of {given.tries} {dict(outcomes)}", flush=True)
    return outcomes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
