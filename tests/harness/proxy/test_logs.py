"""What clients write through the proxy lies in the logs byte for byte as what they write without it, and readers get the same."""

from __future__ import annotations

import base64
import os
import random
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support import external_kafka
from support.segments import batches

from fencepost.harness.drivers import families
from fencepost.harness.drivers.process import DriverProcess
from fencepost.harness.fetching import maven
from fencepost.harness.fetching.java import java
from fencepost.harness.proxy import jars
from fencepost.harness.proxy.process import Broker, ProxyProcess, Settings

pytestmark = [pytest.mark.cluster, pytest.mark.nightly]  # clients are fetched and built
PARTITIONS, PATIENCE_S = 3, 120
TRANSACTIONS = int(os.environ.get("FENCEPOST_TEST_TRANSACTIONS", "24"))  # 700 kB each; with 500 a client writes for minutes
STAMP_MS = time.time_ns() // 1_000_000  # one for both sides: records of a batch have the time since its first
SIZES = (
    0,
    1,
    17,
    300,
    5_000,
    70_000,
    900_000,
)  # values of all kinds of frames: those that are read at once, and those that are not
DRIVERS = ("java@4.3.0", "franz-go@1.22.2", "aiokafka@0.14.0")
LOG_SIDES = ("direct", "proxied")


def transactions():
    """The input: for each transaction its records as (partition, key, value, headers), and whether it is committed."""
    draw = random.Random(34)
    for number in range(TRANSACTIONS):
        sizes = [SIZES[(number + one) % len(SIZES)] for one in range(5)]
        records = [
            (draw.randrange(PARTITIONS), f"k{number}".encode(), draw.randbytes(size), [("h", b"\0" * (number % 3))])
            for size in sizes
        ]
        yield records, number % 4 != 3


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A cluster: where its logs lie, and its address without and through a proxy that records."""
    place = tmp_path_factory.mktemp("kafka")
    with external_kafka.started(place) as made:
        direct = made.inside["bootstrap.servers"]
        settings = Settings(brokers=[Broker(upstream=direct)], rewrite=True, record=tmp_path_factory.mktemp("wire"))
        with ProxyProcess(settings, jars.classpath()) as proxy:
            yield place / "data", {"direct": direct, "proxied": proxy.address}
            status = proxy.control.status()
    assert [status[name] for name in ("failures", "malformed", "unasked", "streamed")] == [0, 0, 0, 0]


def made_topic(address, name):
    settings = {"segment.bytes": str(1 << 30), "max.message.bytes": str(2 << 20)}
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(name, PARTITIONS, config=settings)])[name].result(60)
    return name


# --------------------------------------------------------------------------------------------------
# Clients
# --------------------------------------------------------------------------------------------------
class Librdkafka:
    """By confluent-kafka: batches of several records, which a flush ends."""

    def __init__(self, address):
        self.address = address

    def write(self, topic):
        own = {"bootstrap.servers": self.address, "linger.ms": 20_000, "message.max.bytes": 2 << 20, "log_level": 0}
        producer = Producer({**own, "transactional.id": topic})
        producer.init_transactions(PATIENCE_S)
        for records, committed in transactions():
            producer.begin_transaction()
            for partition, key, value, headers in records:
                producer.produce(topic, value, key, partition=partition, headers=headers, timestamp=STAMP_MS)
            producer.flush(PATIENCE_S)
            (producer.commit_transaction if committed else producer.abort_transaction)(PATIENCE_S)

    def read(self, topic):
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": topic, "enable.partition.eof": True})
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        found, ends = [], 0
        while ends < PARTITIONS:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            if message.error():
                ends += 1
            else:
                at = (message.partition(), message.offset(), message.timestamp()[1])
                found.append((*at, message.key(), message.value(), message.headers()))
        consumer.close()
        return sorted(found)


class Driven:
    """By a driver: a flush after each record, for each client has its own way to make batches."""

    def __init__(self, kind, address):
        self.kind, self.address = kind, address

    @contextmanager
    def opened(self, topic, **sides):
        process = DriverProcess(families.obtain(self.kind).command)
        process.start()
        common = {"name": topic, "bootstrap": self.address, "group": topic, "recovery": "documented", "timeout_ms": 60_000}
        process.call("open", **common, **{"transactional_id": None, "producer": None, "consumer": None, **sides})
        try:
            yield process
        finally:
            process.end()

    def write(self, topic):
        number = 0
        with self.opened(topic, transactional_id=topic, producer={}) as driver:
            for records, committed in transactions():
                driver.call("begin")
                for partition, key, value, headers in records:
                    number += 1
                    content = {"key": _text(key), "value": _text(value), "headers": [[name, _text(one)] for name, one in headers]}
                    driver.call("send", record=number, topic=topic, partition=partition, **content)
                    driver.call("flush", timeout_ms=60_000)
                driver.call("commit" if committed else "abort", timeout_ms=60_000)

    def read(self, topic):
        found, ends = [], set()
        with self.opened(topic, consumer={"isolation.level": "read_committed"}) as driver:
            driver.call("assign", positions={f"{topic}-{number}": "start" for number in range(PARTITIONS)})
            until = time.monotonic() + PATIENCE_S
            while len(ends) < PARTITIONS and time.monotonic() < until:
                answer = driver.call("poll", timeout_ms=1000, limit=100)
                found += [str(record) for record in answer["records"]]
                ends |= set(answer["ends"])
        assert len(ends) == PARTITIONS
        return sorted(found)


def _text(content):
    return base64.b64encode(content).decode()


def client(kind, address):
    return Librdkafka(address) if kind == "librdkafka" else Driven(kind, address)


# --------------------------------------------------------------------------------------------------
# Tests
# --------------------------------------------------------------------------------------------------
def assert_logs_are_equal(data, topics):
    """Batch by batch. The records of control batches have the coordinator's epoch alone, which is the same."""
    whole = 0
    for partition in range(PARTITIONS):
        first, second = (batches(data, topic, partition) for topic in topics)
        assert first == second
        whole += len(first)
    return whole


@pytest.mark.parametrize("kind", ["librdkafka", *DRIVERS])
def test_logs_are_byte_for_byte_what_they_are_without_the_proxy(places, kind):
    data, addresses = places
    topics = [made_topic(addresses["direct"], f"{kind.partition('@')[0]}-{side}") for side in LOG_SIDES]
    for topic, side in zip(topics, LOG_SIDES, strict=True):
        client(kind, addresses[side]).write(topic)
    assert assert_logs_are_equal(data, topics) > TRANSACTIONS
    assert sum(batch.control for batch in batches(data, topics[1], 0)) > TRANSACTIONS // 2
    committed = sum(len(records) for records, holds in transactions() if holds)
    for topic in topics:
        direct, proxied = (client(kind, addresses[side]).read(topic) for side in LOG_SIDES)
        assert direct == proxied
        assert len(direct) == committed


def test_a_streams_program_writes_the_same_records(places, tmp_path):
    """Its transactions end by the clock, so markers lie elsewhere: what its readers get is compared."""
    _, addresses = places
    wanted = [("org.apache.kafka", "kafka-streams", "4.3.0"), ("org.slf4j", "slf4j-nop", "1.7.36")]
    maven.fetch("kafka-streams", wanted, tmp_path)
    given = made_topic(addresses["direct"], "streams-input")
    producer = Producer({"bootstrap.servers": addresses["direct"], "enable.idempotence": True})
    values = [f"{number} some {'words ' * (number % 300)}" for number in range(20_000)]
    for number, value in enumerate(values):
        producer.produce(given, value, f"k{number}", partition=number % PARTITIONS, timestamp=STAMP_MS + number)
        producer.poll(0)
    producer.flush(PATIENCE_S)
    found = [_streamed(tmp_path, addresses, side, given, len(values)) for side in LOG_SIDES]
    assert found[0] == found[1]
    assert sorted(value for *_, value, _ in found[1]) == sorted(value.upper().encode() for value in values)


def _streamed(jar_dir, addresses, side, given, count):
    """What the program has written, without offsets: several input partitions share one of the output, in any order."""
    topic = made_topic(addresses["direct"], f"streams-{side}")
    program = Path(__file__).parents[3] / "examples" / "applications" / "Streams.java"
    own = {"FENCEPOST_INPUT": given, "FENCEPOST_OUTPUT": topic, "FENCEPOST_GROUP": topic, "FENCEPOST_BOOTSTRAP": addresses[side]}
    with open(jar_dir / f"{side}.log", "wb") as log:
        argv = [java()[0], "-Xmx256m", "-cp", f"{jar_dir}{os.sep}*", str(program)]
        running = subprocess.Popen(argv, env={**os.environ, **own, "FENCEPOST_DIRECTORY": str(jar_dir)}, stdout=log, stderr=log)
        try:
            until, found = time.monotonic() + PATIENCE_S, []
            while len(found) < count and time.monotonic() < until:
                found = Librdkafka(addresses[side]).read(topic)
                assert running.poll() is None, (jar_dir / f"{side}.log").read_text()
        finally:
            running.terminate()
            running.wait(60)
    return sorted((partition, stamp, *rest) for partition, _, stamp, *rest in Librdkafka(addresses[side]).read(topic))
