"""The proxy before a real broker, with librdkafka as the client."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from support import external_kafka

from fencepost.harness.proxy import record
from fencepost.harness.proxy.process import Broker, ProxyProcess, Settings
from fencepost.harness.proxy.rules import Rule

pytestmark = pytest.mark.cluster
TOPIC = external_kafka.FOREIGN


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with external_kafka.started(tmp_path_factory.mktemp("kafka")) as made:
        yield made


@pytest.fixture
def proxy(cluster, kafka_classpath, tmp_path):
    """A proxy that puts itself into answers, and its record."""
    upstream = cluster.inside["bootstrap.servers"]
    with open(tmp_path / "log", "wb") as log:
        settings = Settings(brokers=[Broker(upstream=upstream)], rewrite=True, record=tmp_path, node="n7")
        with ProxyProcess(settings, kafka_classpath, log) as made:
            yield made
    assert not (tmp_path / "log").read_text()


def committed(address, transactional_id, value, **settings):
    """A transaction of one record."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": transactional_id, "log_level": 0, **settings})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(TOPIC, value)
    producer.commit_transaction(30)


def values(bootstrap):
    """All records that a reader of committed ones sees."""
    settings = {"group.id": "reader", "auto.offset.reset": "earliest", "isolation.level": "read_committed", "log_level": 0}
    reader = Consumer({"bootstrap.servers": bootstrap, "enable.partition.eof": True, **settings})
    reader.subscribe([TOPIC])
    seen = []
    while (message := reader.poll(30)) is not None and not message.error():
        seen.append(message.value())
    assert message is not None, "no end of the partition was reached"
    reader.close()
    return seen


def test_a_commit_whose_answer_is_lost_is_applied_once(cluster, proxy, tmp_path):
    rule = proxy.control.add(Rule(act="lose", name="lose end", api="EndTxn", transactional_id="fencepost-lost", nth=1))
    committed(proxy.address, "fencepost-lost", b"once")
    (caught,) = proxy.control.wait(rule)
    assert (caught["api"], caught["transactional_id"], caught["state"]) == ("EndTxn", "fencepost-lost", "lost")
    assert values(proxy.address).count(b"once") == 1
    status = proxy.control.status()
    assert {broker["upstream"] for broker in status["brokers"]} == {cluster.inside["bootstrap.servers"]}
    assert (status["failures"], status["malformed"], status["unasked"], status["unknown"]) == (0, 0, 0, [])
    rows = record.read(tmp_path).to_pylist()
    ends = [row for row in rows if row["api"] == "EndTxn"]
    assert [row["lost"] for row in ends if row["lost"]] == ["cut by rule lose end"]
    assert (ends[0]["error"], ends[0]["returned_ns"]) == ("NONE", None)
    assert (ends[-1]["error"], ends[-1]["returned_ns"] is None) == ("NONE", False)  # between them the coordinator may be at work
    assert ends[0]["rules"] == ["lose end"]
    (sent,) = [row for row in rows if row["api"] == "Produce"]
    (partition,) = json.loads(sent["partitions"])
    (batch,) = partition["batches"]
    assert (partition["topic"], partition["partition"], batch["records"], batch["transactional"]) == (TOPIC, 0, 1, True)
    assert batch["producer_id"] == sent["producer_id"] == ends[0]["producer_id"]
    fetched = [part for row in rows if row["api"] == "Fetch" for part in json.loads(row["answer_partitions"])]
    assert "COMMIT" in {batch.get("control") for part in fetched for batch in part["batches"]}


@pytest.mark.nightly
def test_tls_ends_at_the_proxy_and_sasl_passes_through_it(cluster, kafka_classpath, tmp_path):
    """The commit is held until librdkafka has given its connection up, and comes to the broker then."""
    secure = cluster.options(**{"sasl.password": external_kafka.PASSWORD})["settings"]
    listener = {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(cluster.place / "broker.p12"),
        "ssl.keystore.password": "keystore-password",
    }
    broker = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(cluster.place / "ca.pem")}
    rules = [Rule(act="hold", name="hold end", api="EndTxn", until="closed", nth=1)]
    settings = Settings(
        brokers=[Broker(upstream=cluster.bootstrap)],
        rewrite=True,
        record=tmp_path,
        rules=rules,
        tls={"client": listener, "broker": broker},
    )
    with open(tmp_path / "log", "wb") as log, ProxyProcess(settings, kafka_classpath, log) as proxy:
        committed(proxy.address, "fencepost-tls", b"by TLS", **{**secure, "socket.timeout.ms": 1500})
        (caught,) = proxy.control.wait(1)
        assert (caught["state"], caught["by"]) == ("released", "closed")
        assert proxy.control.status()["failures"] == 0
    rows = record.read(tmp_path).to_pylist()
    ends = [row for row in rows if row["api"] == "EndTxn"]
    first, *between, last = ends
    assert (first["lost"], first["error"], last["lost"], last["error"]) == ("client closed", "NONE", None, "NONE")
    assert {row["error"] for row in between} <= {"CONCURRENT_TRANSACTIONS"}  # the coordinator may still be at work on the first
    assert ends[0]["forwarded_ns"] > ends[0]["arrived_ns"]


@pytest.mark.nightly
def test_the_example_in_python_does_what_its_page_says(proxy):
    program = Path(__file__).parents[3] / "examples" / "proxy" / "lost_commit.py"
    argv = [sys.executable, str(program), proxy.address, proxy.control.address, TOPIC]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "was lost, and the record is there once" in done.stdout
    assert proxy.control.rules() == []
