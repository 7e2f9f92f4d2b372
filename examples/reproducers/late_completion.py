"""A transaction whose completion the coordinator could not log ends up to 30 s late (docs/discoveries.md).

    fencepost example late_completion --tries 5

Two Kafka brokers of the cached jars on loopback; topics have two replicas. The second broker is killed before the first try, so
that `min.insync.replicas` decides whether a partition can be written. A try, with one transactional producer of librdkafka:

1. A transaction writes a record. The topic's `min.insync.replicas` becomes 2: no marker can be written. The commit returns ok.
2. That of `__transaction_state` becomes 2, and that of the topic 1: the markers are written, the completion cannot be logged.
3. A second later that of `__transaction_state` becomes 1 again. How long does the next transaction take?

`--request-timeout-ms` is the brokers' `request.timeout.ms`. Exit code: 0 when the next transaction always took less than 3 s,
1 when not.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from swallowed_write import await_port, free_ports

from fencepost.clusters.kafka.distribution import Distribution, fetch
from fencepost.clusters.kafka.node_directory import kafka_uuid

Broker = subprocess.Popen[bytes]
STATE = "__transaction_state"
PROMPT_S = 3.0
ANSWER_S, ALONE_S = 3.0, 60.0  # for an answer of a broker; until the second broker is out of all replicas in sync


@contextmanager
def running_brokers(
    distribution: Distribution, folder: Path, request_timeout_ms: int
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The first broker's address, and the second broker, which may be killed."""
    controller, *ports = free_ports(3)
    cluster, processes = kafka_uuid(), []
    try:
        for number, port in enumerate(ports, 1):
            (folder / f"{number}").mkdir()
            config = folder / f"{number}" / "server.properties"
            config.write_text(settings(number, port, controller, folder, request_timeout_ms))
            tool = distribution.command("kafka.tools.StorageTool", ["format", "-t", cluster, "-c", str(config)], heap_mb=128)
            with (folder / f"{number}" / "server.log").open("wb") as log:
                subprocess.run(tool, check=True, stdout=log, stderr=log)
                command = distribution.command("kafka.Kafka", [str(config)], heap_mb=256)
                processes.append(subprocess.Popen(command, stdout=log, stderr=log))
        for number, port in enumerate(ports, 1):
            await_port(port, processes[number - 1], folder / f"{number}" / "server.log")
        yield f"127.0.0.1:{ports[0]}", processes[1]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def settings(number: int, port: int, controller: int, folder: Path, request_timeout_ms: int) -> str:
    """The first node is the controller too, so that it goes on without the second."""
    own = f",CONTROLLER://127.0.0.1:{controller}" if number == 1 else ""
    lines = {
        "process.roles": "broker,controller" if number == 1 else "broker",
        "node.id": number,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}{own}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": folder / f"{number}" / "data",
        "request.timeout.ms": request_timeout_ms,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 2,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 1,
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def set_least_in_sync(admin: AdminClient, topic: str, replicas: int) -> None:
    entry = ConfigEntry("min.insync.replicas", str(replicas), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result()


def attempt(admin: AdminClient, bootstrap: str, topic: str) -> float:
    """The seconds that the transaction after the late one took, from when everything could be written again."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-{time.time_ns()}", "log_level": 2})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"first", partition=0)
    producer.flush()
    set_least_in_sync(admin, topic, 2)
    producer.commit_transaction()
    set_least_in_sync(admin, STATE, 2)
    set_least_in_sync(admin, topic, 1)
    time.sleep(1)
    set_least_in_sync(admin, STATE, 1)
    begin = time.monotonic()
    producer.begin_transaction()
    producer.produce(topic, b"second", partition=0)
    producer.commit_transaction()
    return time.monotonic() - begin


def prepare(bootstrap: str, second: Broker, topic: str) -> AdminClient:
    """Topics with two replicas, of which the second is gone."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 2)])[topic].result()
    Producer({"bootstrap.servers": bootstrap, "transactional.id": "first"}).init_transactions()  # makes __transaction_state
    second.kill()
    second.wait()
    deadline = time.monotonic() + ALONE_S
    while (seen := most_in_sync(admin, (topic, STATE))) != 1:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the second broker is dead, and {seen} replicas are in sync after {ALONE_S:.0f} s (0: no answer)")
        time.sleep(0.5)
    return admin


def most_in_sync(admin: AdminClient, topics: Sequence[str]) -> int:
    """The largest number of replicas in sync of a partition; 0: no answer, as of the dead broker."""
    try:
        known = [admin.list_topics(name, timeout=ANSWER_S).topics[name] for name in topics]
    except KafkaException:
        return 0
    return max((len(partition.isrs) for topic in known for partition in topic.partitions.values()), default=0)


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--kafka", default="4.3.0", help="the brokers' version")
    parser.add_argument("--request-timeout-ms", type=int, default=30_000, help="of the brokers; 30000 is Kafka's default")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    given = arguments(argv)
    late = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        running_brokers(fetch(given.kafka), Path(folder), given.request_timeout_ms) as (bootstrap, second),
    ):
        admin = prepare(bootstrap, second, "t")
        for _ in range(given.tries):
            seconds = attempt(admin, bootstrap, "t")
            late += seconds >= PROMPT_S
            print(
                f"Kafka {given.kafka}, request.timeout.ms={given.request_timeout_ms}: the next transaction took {seconds:.1f} s"
            )
    print(f"late: {late} of {given.tries}")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
