"""The stranger's way: a broker, the proxy before it, any client through it, and its record judged."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from support import external_kafka
from support.histories import answer, violated

from fencepost.checkers.verdict.judge import judge
from fencepost.clusters.kafka.distribution import fetch
from fencepost.harness.api.wire import FETCHES
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.interop.adopt import adopt
from fencepost.harness.proxy.jars import with_proxy
from fencepost.harness.proxy.process import Broker, ProxyProcess, Settings
from fencepost.harness.proxy.rules import Rule

pytestmark = [pytest.mark.cluster, pytest.mark.nightly]
TOPIC = external_kafka.FOREIGN
FAITHLESS = Rule(api="EndTxn", act="alter", set={"committed": False}, nth=3)
"""What makes a broker that aborts a transaction which it says that it has committed."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with external_kafka.started(tmp_path_factory.mktemp("kafka")) as made:
        yield made


@pytest.fixture
def judged(cluster, tmp_path):
    """Lets a client work through a recording proxy, before a broker with these rules of its own; the verdict."""

    def made(work, *rules):
        path = with_proxy(fetch("4.4.0").classpath())
        behind = Settings(brokers=[Broker(upstream=cluster.inside["bootstrap.servers"])], rewrite=True, rules=rules)
        with ProxyProcess(behind, path) as broker:
            before = Settings(
                brokers=[Broker(upstream=broker.address)], rewrite=True, record=tmp_path / "wire", rules=[Rule(**FETCHES)]
            )
            with ProxyProcess(before, path) as proxy:
                work(proxy.address)
        run = tmp_path / "run"
        run.mkdir()
        adopt(tmp_path / "wire", run)
        return judge(open_run(run), here=True)

    return made


def end_of(bootstrap):
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    end = reader.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=30)[1]
    reader.close()
    return end


def work(bootstrap):
    """Transactions, every third of which is aborted, and a reader of committed records from where they begin."""
    start = end_of(bootstrap)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "a", "log_level": 0})
    producer.init_transactions(60)
    for number in range(6):
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(TOPIC, b"v", partition=0)
            producer.flush(30)
        (producer.abort_transaction if number % 3 == 1 else producer.commit_transaction)(60)
    settings = {"group.id": "none", "isolation.level": "read_committed", "enable.partition.eof": True}
    reader = Consumer({"bootstrap.servers": bootstrap, "log_level": 0, **settings})
    reader.assign([TopicPartition(TOPIC, 0, start)])
    for _ in range(2):  # the second end says that it went on behind the first
        while (message := reader.poll(30)) is not None and not message.error():
            pass
        reader.poll(2)
    reader.close()


def test_a_sound_broker_is_valid(judged):
    verdict = judged(work)
    assert (verdict["verdict"], violated(verdict)) == ("valid", [])
    assert answer(verdict, "aborted-read")["compared"] > 0
    assert answer(verdict, "lost-write")["compared"] > 0


def test_a_broker_that_aborts_what_it_says_it_has_committed_is_found(judged):
    verdict = judged(work, FAITHLESS)
    assert "lost-write" in violated(verdict)
    assert "phantom" not in violated(verdict)
