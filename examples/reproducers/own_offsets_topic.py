"""A source connector that gets an offsets topic of its own begins again, although exactly-once is on (docs/discoveries.md).

    fencepost example own_offsets_topic --kafka 4.3.0
    fencepost example own_offsets_topic --own connect-offsets    # the control: the worker's own, by name

One Kafka broker and one distributed worker of Connect on loopback, `exactly.once.source.support=enabled`, no fault:

1. A FileStreamSource copies a file of 100 lines into a topic. Its offset, the file's end, is in the worker's offsets topic.
2. Its configuration gets `offsets.storage.topic`. KIP-618: where that topic has no offset, the worker's offsets topic counts.
3. Three lines are appended. How many lines does a read_committed consumer find in the topic?

Exit code: 0 when 103, 1 when more.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError
from confluent_kafka.admin import AdminClient, NewTopic
from swallowed_write import await_port, free_ports

from fencepost.clusters.kafka import broker_config
from fencepost.clusters.kafka.distribution import fetch
from fencepost.clusters.kafka.node_directory import kafka_uuid
from fencepost.harness.connect import jars
from fencepost.harness.fetching.java import java

TOPIC, NAME, LINES, MORE = "copied", "file", 100, 3
WAIT_S = 120.0


@contextmanager
def process(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        started = subprocess.Popen(list(command), stdout=output, stderr=output)
    try:
        yield started
    finally:
        started.kill()
        started.wait()


@contextmanager
def running(version: str, folder: Path) -> Iterator[tuple[str, str]]:
    """The address of a broker, and that of a worker's REST interface."""
    port, controller, rest = free_ports(3)
    bootstrap, url = f"127.0.0.1:{port}", f"http://127.0.0.1:{rest}"
    broker, worker = folder / "server.properties", folder / "worker.properties"
    broker_config.write_properties(folder, broker.name, broker_settings(port, controller, folder / "data"))
    broker_config.write_properties(folder, worker.name, worker_settings(bootstrap, url))
    kafka, connect = fetch(version), jars.fetch(version)
    tool = kafka.command("kafka.tools.StorageTool", ["format", "-t", kafka_uuid(), "-c", str(broker)], heap_mb=128)
    subprocess.run(tool, check=True, capture_output=True)
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    class_path = ":".join(str(connect.directory / name) for name in connect.jars)
    with process(kafka.command("kafka.Kafka", [str(broker)], heap_mb=256), folder / "server.log") as server:
        await_port(port, server, folder / "server.log")
        with process(broker_config.command(java()[0], class_path, main, [str(worker)], heap_mb=192), folder / "worker.log"):
            yield bootstrap, url


def broker_settings(port: int, controller: int, data: Path) -> Mapping[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(data),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }


def worker_settings(bootstrap: str, url: str) -> Mapping[str, str]:
    internal = {
        f"{kind}.storage.{key}": value
        for kind in ("config", "offset", "status")
        for key, value in (("topic", f"connect-{kind}s"), ("replication.factor", "1"))
    }
    return {
        "bootstrap.servers": bootstrap,
        "group.id": "connect",
        "listeners": url,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "plugin.discovery": "service_load",
        "exactly.once.source.support": "enabled",
        **internal,
    }


def ask(url: str, method: str, path: str, body: Any = None) -> Any:
    """An answer of the worker, asked again while it cannot answer yet."""
    content = None if body is None else json.dumps(body).encode()
    deadline = time.monotonic() + WAIT_S
    while True:
        request = urllib.request.Request(url + path, content, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
                return json.load(answer)
        except OSError as error:  # it starts, or its group is rebalanced
            if time.monotonic() > deadline:
                text = error.read().decode(errors="replace") if isinstance(error, urllib.error.HTTPError) else str(error)
                raise RuntimeError(f"{method} {path}: {text}") from error
            time.sleep(0.5)


def committed(bootstrap: str) -> Counter[bytes]:
    """The lines that a read_committed consumer reads, with their counts."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "count",
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.auto.commit": False})
    consumer.subscribe([TOPIC])
    lines: Counter[bytes] = Counter()
    try:
        while (message := consumer.poll(WAIT_S)) is not None:
            if error := message.error():
                if error.code() == KafkaError._PARTITION_EOF:
                    return lines
                raise RuntimeError(str(error))
            lines[message.value() or b""] += 1
        raise RuntimeError(f"no record, and no end of the topic, within {WAIT_S:.0f} s")
    finally:
        consumer.close()


def await_line(bootstrap: str, line: str) -> Counter[bytes]:
    """The lines once `line` is among them."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if line.encode() in (lines := committed(bootstrap)):
            return lines
        time.sleep(1)
    raise RuntimeError(f"{line} was not copied within {WAIT_S:.0f} s")


def attempt(bootstrap: str, url: str, file: Path, own: str) -> Counter[bytes]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result()
    connector = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "file": str(file),
        "topic": TOPIC,
        "tasks.max": "1",
        "exactly.once.support": "required",
    }
    file.write_text("".join(f"line {number}\n" for number in range(LINES)))
    ask(url, "PUT", f"/connectors/{NAME}/config", connector)
    before = await_line(bootstrap, f"line {LINES - 1}")
    print(f"with the worker's offsets topic: {before.total()} records of {len(before)} lines")
    ask(url, "PUT", f"/connectors/{NAME}/config", {**connector, "offsets.storage.topic": own})
    with file.open("a") as more:
        more.writelines(f"line {number}\n" for number in range(LINES, LINES + MORE))
    after = await_line(bootstrap, f"line {LINES + MORE - 1}")
    print(f"with offsets.storage.topic={own}: {after.total()} records of {len(after)} lines")
    return after


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kafka", default="4.3.0", help="the version of the broker and of the worker")
    parser.add_argument(
        "--own", default="own-offsets", help="what offsets.storage.topic becomes; connect-offsets is the worker's"
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    given = arguments(argv)
    with tempfile.TemporaryDirectory() as folder, running(given.kafka, Path(folder)) as (bootstrap, url):
        lines = attempt(bootstrap, url, Path(folder) / "lines.txt", given.own)
    again = lines.total() - len(lines)
    print(f"Kafka {given.kafka}: {again} lines were copied twice")
    return 1 if again else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
