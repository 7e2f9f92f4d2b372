"""Kafka's own console tools through the proxy: what they write, read and say is what they do without it."""

from __future__ import annotations

import os
import subprocess

import pyarrow.compute as pc
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from support import external_kafka

from fencepost.harness.fetching import maven
from fencepost.harness.fetching.java import java
from fencepost.harness.proxy import jars, record
from fencepost.harness.proxy.process import Broker, ProxyProcess, Settings

pytestmark = [pytest.mark.cluster, pytest.mark.nightly]  # needs the network, for the tools
RELEASE = "4.4.0"
PRODUCER, CONSUMER = "ConsoleProducer", "consumer.ConsoleConsumer"
TRANSACTIONS, GROUPS = "TransactionsCommand", "consumer.group.ConsumerGroupCommand"
LINES = [f"{number} {'ä€😀' * (number % 50)}" for number in range(20_000)]
SHOWN = ("print.offset=true", "print.partition=true", "print.timestamp=true", "print.key=true", "print.headers=true")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with external_kafka.started(tmp_path_factory.mktemp("kafka")) as made:
        yield made.inside["bootstrap.servers"]


@pytest.fixture(scope="module")
def tool(tmp_path_factory):
    """Runs a tool to its end; its output."""
    place = tmp_path_factory.mktemp("tools")
    maven.fetch("kafka-tools", [("org.apache.kafka", "kafka-tools", RELEASE), ("org.slf4j", "slf4j-nop", "1.7.36")], place)

    def run(name, *arguments, given=""):
        argv = [java()[0], "-Xmx256m", "-cp", f"{place}{os.sep}*", f"org.apache.kafka.tools.{name}", *arguments]
        done = subprocess.run(argv, input=given.encode(), capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    return run


@pytest.mark.parametrize("release", ["3.8.0", jars.DEFAULT])
def test_tools_do_through_the_proxy_what_they_do_without_it(cluster, tool, release, tmp_path):
    """Also through one that is older than they are, and reads no version that they like best."""
    topic, group = f"tools-{release}", f"group-{release}"
    admin = AdminClient({"bootstrap.servers": cluster})
    admin.create_topics([NewTopic(topic, 3)])[topic].result(30)
    with open(tmp_path / "log", "wb") as log:
        settings = Settings(brokers=[Broker(upstream=cluster)], rewrite=True, record=tmp_path)
        with ProxyProcess(settings, jars.classpath(release), log) as proxy:

            def shown(address, *more):
                formatted = [word for one in SHOWN for word in ("--formatter-property", one)]
                reading = ("--topic", topic, "--from-beginning", "--max-messages", str(len(LINES)), *formatted, *more)
                return sorted(tool(CONSUMER, "--bootstrap-server", address, *reading).splitlines())

            to = ("--bootstrap-server", proxy.address, "--topic", topic, "--compression-codec", "zstd")
            tool(PRODUCER, *to, given="\n".join(LINES) + "\n")
            direct = shown(cluster)
            assert sorted(line.rpartition("\t")[2] for line in direct) == sorted(LINES)
            assert shown(proxy.address, "--group", group) == direct
            committed(proxy.address, topic)
            for name, words in ((GROUPS, ["--describe", "--group", group]), (GROUPS, ["--list"]), (TRANSACTIONS, ["list"])):
                said = [tool(name, "--bootstrap-server", address, *words) for address in (proxy.address, cluster)]
                assert said[0] == said[1]
                assert group in said[0] or name == TRANSACTIONS
            status = proxy.control.status()
    assert [status[name] for name in ("failures", "malformed", "unasked", "streamed")] == [0, 0, 0, 0]
    assert {broker["upstream"] for broker in status["brokers"]} == {cluster}
    assert not (tmp_path / "log").read_text()
    recorded = record.read(tmp_path)
    assert {"Produce", "Fetch", "JoinGroup", "EndTxn"} <= set(recorded["api"].to_pylist())
    if release == RELEASE:
        assert status["unknown"] == []
    assert not any(recorded.filter(pc.field("api") == "Produce")["lost"].to_pylist())


def committed(address, transactional_id):
    """A transaction of one record, in another topic."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": transactional_id})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(external_kafka.FOREIGN, b"v")
    producer.commit_transaction(60)
