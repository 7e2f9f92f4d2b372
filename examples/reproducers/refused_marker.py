"""A transaction whose marker was refused as too large never ends, also when it would be taken (docs/discoveries.md).

    fencepost example refused_marker
    fencepost example refused_marker --bytes 78
    fencepost example refused_marker --beside 20

One Kafka broker of the cached jars on loopback, one transactional producer of librdkafka. A try:

1. A transaction writes a record. The topic's `max.message.bytes` becomes 77, a byte less than a marker takes. The commit
   returns ok.
2. Two seconds later the topic has its former `max.message.bytes` again.
3. Does a read_committed reader get the record? Can the producer begin and commit another transaction?
4. The broker is started again, so that the coordinator loads its transactions. And now?

`--beside N` has N more producers commit transactions to another topic all the while, whose markers are sent together with the
refused one: how many of them can commit no more, before and after the restart?

Exit code: 0 when the record was read and the next transaction committed before the restart, 1 when not.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from swallowed_write import await_port, free_ports

from fencepost.clusters.kafka.distribution import Distribution, fetch
from fencepost.clusters.kafka.node_directory import kafka_uuid

TOPIC, OTHER_TOPIC, SETTING = "t", "u", "max.message.bytes"
REFUSED_S, CALL_S = 2.0, 20.0


@dataclass
class Broker:
    """A combined broker and controller in a folder, which may be started again."""

    distribution: Distribution
    folder: Path
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        config, log = self.folder / "server.properties", self.folder / "server.log"
        with log.open("ab") as out:
            if not self.port:
                self.port, controller = free_ports(2)
                config.write_text(settings(self.port, controller, self.folder / "data"))
                tool = self.distribution.command(
                    "kafka.tools.StorageTool", ["format", "-t", kafka_uuid(), "-c", str(config)], heap_mb=128
                )
                subprocess.run(tool, check=True, stdout=out, stderr=out)
            command = self.distribution.command("kafka.Kafka", [str(config)], heap_mb=256)
            self.process = subprocess.Popen(command, stdout=out, stderr=out)
        await_port(self.port, self.process, log)

    def start_with(self, topics: Mapping[str, int]) -> AdminClient:
        """Start it, and create topics, by name with their partitions."""
        self.start()
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        for made in admin.create_topics([NewTopic(name, partitions, 1) for name, partitions in topics.items()]).values():
            made.result()
        return admin

    def kill(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def refusals(self) -> list[str]:
        """What the coordinator has logged about markers."""
        lines = (self.folder / "server.log").read_text(errors="replace").splitlines()
        return [line for line in lines if "while sending txn marker" in line]


def settings(port: int, controller: int, data: Path) -> str:
    lines = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": data,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 1,
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def set_size(admin: AdminClient, size: int | None) -> None:
    """Set the topic's `max.message.bytes`; None: it has none of its own."""
    operation = AlterConfigOpType.DELETE if size is None else AlterConfigOpType.SET
    entry = ConfigEntry(SETTING, str(size or ""), incremental_operation=operation)
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result()


def new_producer(bootstrap: str, transactional_id: str = "orders") -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0})
    producer.init_transactions(CALL_S)
    return producer


def transaction(producer: Producer, value: bytes, topic: str = TOPIC) -> str:
    """Write a record in a transaction and commit it: `committed`, or the error."""
    try:
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(CALL_S)
        producer.commit_transaction(CALL_S)
    except KafkaException as error:
        return str(error.args[0].name())
    return "committed"


class Beside(threading.Thread):
    """A producer that commits transactions to the other topic until one fails or `ended` is set."""

    def __init__(self, bootstrap: str, number: int, ended: threading.Event) -> None:
        super().__init__(daemon=True)
        self.producer, self.ended = new_producer(bootstrap, f"beside-{number}"), ended
        self.committed, self.error = 0, ""
        self.start()

    def run(self) -> None:
        while not self.ended.is_set():
            outcome = transaction(self.producer, b"beside", OTHER_TOPIC)
            if outcome != "committed":
                self.error = outcome
                return
            self.committed += 1


def visible(bootstrap: str) -> list[str]:
    """What a read_committed reader gets until nothing has come for five seconds."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": f"g{time.time_ns()}", "auto.offset.reset": "earliest"})
    reader.subscribe([TOPIC])
    values, deadline = list[str](), time.monotonic() + CALL_S
    while time.monotonic() < deadline:
        message = reader.poll(0.5)
        if message is not None and message.error() is None:
            values.append(bytes(message.value() or b"").decode())
            deadline = time.monotonic() + 5.0
    reader.close()
    return values


def attempt(broker: Broker, admin: AdminClient, size: int) -> tuple[list[str], str]:
    """What is visible after the refusal, and the outcome of the producer's next transaction."""
    producer = new_producer(broker.bootstrap)
    producer.begin_transaction()
    producer.produce(TOPIC, b"first")
    producer.flush(CALL_S)
    set_size(admin, size)
    producer.commit_transaction(CALL_S)
    print(f"{SETTING}={size}: the commit returned ok")
    time.sleep(REFUSED_S)
    set_size(admin, None)
    return visible(broker.bootstrap), transaction(producer, b"second")


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kafka", default="4.3.0", help="the broker's version")
    parser.add_argument("--beside", type=int, default=0, help="producers that write to another topic meanwhile")
    parser.add_argument("--bytes", type=int, default=77, help=f"the topic's {SETTING} when the transaction is committed")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    given = arguments(argv)
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(fetch(given.kafka), Path(folder))
        try:
            admin = broker.start_with({TOPIC: 1, OTHER_TOPIC: 1})
            ended = threading.Event()
            beside = [Beside(broker.bootstrap, number, ended) for number in range(given.beside)]
            seen, outcome = attempt(broker, admin, given.bytes)
            ended.set()
            for one in beside:
                one.join()
            print(f"Kafka {given.kafka}, a broker that takes it again: visible {seen}, the next transaction: {outcome}")
            stuck = [one.error for one in beside if one.error]
            if beside:
                total = sum(one.committed for one in beside)
                print(f"beside it: {total} transactions committed, stuck: {len(stuck)} of {len(beside)} {sorted(set(stuck))}")
            print("\n".join(broker.refusals))
            broker.kill()
            broker.start()
            later = transaction(new_producer(broker.bootstrap), b"third")
            print(f"started again: the next transaction: {later}, visible {visible(broker.bootstrap)}")
        finally:
            broker.kill()
    return 0 if seen == ["first"] and outcome == "committed" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
