"""A sink to Kafka by a commit in two phases, as Flink's: its transactions belong to checkpoints outside of Kafka.

fencepost run -w application --set 'command={python} {examples}/sinks/two_phase.py' --set instances=1 --set group= \
    --set quiet_s=15 -n kill,target=instance

A checkpoint prepares the transaction (every record is acknowledged), and then stores the offsets of the input with the
producer's id and epoch. Only after that it is committed. Whoever finds a checkpoint with a prepared transaction after a death
commits it first: by EndTxn with the stored producer id and epoch, since a new producer would abort it. That may be repeated: a
coordinator that has committed says yes again (KIP-98). The checkpoint forgets the transaction before the next one begins, which
has the same id and epoch. transaction.timeout.ms is how long the sink may be dead.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition

ENV = os.environ
CONNECTION = {"bootstrap.servers": ENV["FENCEPOST_BOOTSTRAP"], **json.loads(ENV.get("FENCEPOST_CONNECTION", "{}"))}
CONSUMER = {"group.id": ENV["FENCEPOST_GROUP"], "isolation.level": "read_committed", "enable.auto.commit": False}
INPUT, OUTPUT = ENV["FENCEPOST_INPUT"], ENV["FENCEPOST_OUTPUT"]
TRANSACTIONAL_ID = ENV["FENCEPOST_TRANSACTIONAL_ID"]
CHECKPOINT = Path(ENV["FENCEPOST_DIRECTORY"], "checkpoint.json")
CHECKPOINT_EVERY_S, COMPLETED_S = 0.5, 0.5  # the second: until every part of a job has said that its checkpoint is complete
BATCH, POLL_S, CALL_S, RETRY_S = 100, 0.1, 30.0, 0.3
FIND_COORDINATOR, END_TXN = 10, 26  # keys of Kafka's protocol
RETRIABLE = (3, 14, 15, 16, 51)  # coordinators that load, move or are busy
running = True
identity: dict[str, int] = {}  # of the producer, by its statistics


def main() -> int:
    signal.signal(signal.SIGTERM, stop)
    checkpoint = read_checkpoint()
    finish(checkpoint)
    write_checkpoint({"offsets": checkpoint.get("offsets", {})})
    producer = new_producer()
    consumer = Consumer({**CONNECTION, **CONSUMER})
    offsets = {int(part): offset for part, offset in checkpoint.get("offsets", {}).items()}
    parts = consumer.list_topics(INPUT, CALL_S).topics[INPUT].partitions
    consumer.assign([TopicPartition(INPUT, part, offsets.get(part, OFFSET_BEGINNING)) for part in parts])
    while running:
        transaction(consumer, producer, offsets)
    consumer.close()
    return 0


def transaction(consumer: Consumer, producer: Producer, offsets: dict[int, int]) -> None:
    """Copy what comes until the next checkpoint, and commit it in two phases. A failure ends the program."""
    producer.begin_transaction()
    due, count = time.monotonic() + CHECKPOINT_EVERY_S, 0
    while time.monotonic() < due:
        for message in consumer.consume(BATCH, POLL_S):
            if message.error() is None:
                produce(producer, message)
                offsets[message.partition()] = message.offset() + 1
                count += 1
    if not count:
        producer.abort_transaction(CALL_S)
        return
    if producer.flush(CALL_S):
        raise SystemExit("not prepared: records are not acknowledged")
    write_checkpoint({"offsets": offsets, "prepared": dict(identity)})
    time.sleep(COMPLETED_S)
    commit(producer)
    write_checkpoint({"offsets": offsets})


def produce(producer: Producer, message: Message) -> None:
    while True:
        try:
            producer.produce(OUTPUT, key=message.key(), value=message.value(), headers=message.headers(), on_delivery=delivered)
            return
        except BufferError:
            producer.poll(0.1)


def delivered(error: Any, _: Message) -> None:
    if error is not None:
        raise SystemExit(f"not prepared: {error}")


def commit(producer: Producer) -> None:
    """Commit; a call that may be repeated is repeated. The checkpoint stands in any case."""
    while True:
        try:
            producer.commit_transaction(CALL_S)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise SystemExit(f"not committed yet: {error}") from error


def new_producer() -> Producer:
    """A producer, whose id and epoch are known."""
    identity.clear()
    settings = {
        "transactional.id": TRANSACTIONAL_ID,
        "transaction.timeout.ms": 60_000,
        "statistics.interval.ms": 50,
        "linger.ms": 5,
    }
    producer = Producer({**CONNECTION, **settings, "stats_cb": learn})
    producer.init_transactions(CALL_S)
    identity.clear()
    while not identity:
        producer.poll(POLL_S)
    return producer


def learn(statistics: str) -> None:
    eos = json.loads(statistics).get("eos", {})
    if eos.get("producer_id", -1) >= 0 and eos.get("txn_state") != "WaitPID":
        identity.update(producer_id=eos["producer_id"], epoch=eos["producer_epoch"])


# -- checkpoints -----------------------------------------------------------------------------------
def read_checkpoint() -> dict[str, Any]:
    return json.loads(CHECKPOINT.read_text()) if CHECKPOINT.exists() else {}


def write_checkpoint(checkpoint: dict[str, Any]) -> None:
    """Replace the checkpoint; it is on disk when this returns."""
    part = CHECKPOINT.with_suffix(".part")
    with part.open("w") as file:
        json.dump(checkpoint, file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(CHECKPOINT)


def finish(checkpoint: dict[str, Any]) -> None:
    """Commit the transaction that a checkpoint has prepared, by its producer id and epoch."""
    prepared = checkpoint.get("prepared")
    while prepared:
        try:
            error = end_transaction(prepared["producer_id"], prepared["epoch"])
        except OSError as problem:
            print(f"no coordinator yet: {problem}", flush=True)
        else:
            if error not in RETRIABLE:
                print(f"prepared transaction committed: error {error}", flush=True)
                return
        time.sleep(RETRY_S)


# -- two requests of Kafka's protocol, which clients do not offer ------------------------------------
def end_transaction(producer_id: int, epoch: int) -> int:
    """EndTxn (version 1) with commit; returns the error."""
    host, port = coordinator()
    body = text(TRANSACTIONAL_ID) + struct.pack(">qhb", producer_id, epoch, 1)
    return struct.unpack(">ih", ask(host, port, END_TXN, 1, body)[:6])[1]


def coordinator() -> tuple[str, int]:
    """FindCoordinator (version 1) for the transactional id. Raises OSError."""
    for address in CONNECTION["bootstrap.servers"].split(","):
        host, _, port = address.rpartition(":")
        try:
            answer = ask(host, int(port), FIND_COORDINATOR, 1, text(TRANSACTIONAL_ID) + b"\1")
        except OSError:
            continue
        error, length = struct.unpack(">hh", answer[4:8])
        at = 8 + max(0, length) + 4
        size = struct.unpack(">h", answer[at : at + 2])[0]
        if not error:
            return answer[at + 2 : at + 2 + size].decode(), struct.unpack(">i", answer[at + 2 + size : at + 6 + size])[0]
    raise OSError("no broker names the coordinator")


def ask(host: str, port: int, key: int, version: int, body: bytes) -> bytes:
    """The answer to a request, without its header. Raises OSError."""
    request = struct.pack(">hhi", key, version, 1) + text("two-phase") + body
    with socket.create_connection((host, port), 5.0) as connection:
        connection.settimeout(CALL_S)
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", whole(connection.recv, 4))
        return whole(connection.recv, size)[4:]


def whole(receive: Callable[[int], bytes], size: int) -> bytes:
    held = b""
    while len(held) < size:
        part = receive(size - len(held))
        if not part:
            raise OSError("the connection ended")
        held += part
    return held


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def stop(*_: object) -> None:
    global running
    running = False


if __name__ == "__main__":
    sys.exit(main())
