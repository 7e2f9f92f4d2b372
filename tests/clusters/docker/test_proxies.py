"""A proxy before a broker in a container: what passes it, its end by a kill, and what stays of it."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest
from confluent_kafka import Producer

from fencepost.clusters.docker import leftovers
from fencepost.clusters.docker.options import DockerOptions
from fencepost.clusters.docker.provider import Docker
from fencepost.harness.api import Interceptable, TopicSpec
from fencepost.harness.api.run import RunFile
from fencepost.harness.proxy import record
from fencepost.nemesis.support.waiting import poll_until


def test_without_the_option_nothing_can_be_done_to_messages():
    assert "proxy = true" in DockerOptions().missing()[Interceptable]
    assert Interceptable not in DockerOptions(proxy=True).missing()


def committed(cluster, name):
    """Commit a transaction of one record."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap(), "transactional.id": name})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("t", b"v")
    producer.commit_transaction(60)


@pytest.mark.cluster
@pytest.mark.nightly
def test_a_brokers_messages_are_caught_and_another_proxy_takes_the_place_of_a_killed_one(kafka_image, tmp_path):
    provider = Docker(brokers=1, heap_mb=256, image=kafka_image, proxy=True)
    with provider.up(tmp_path, {"t": TopicSpec(partitions=1)}) as cluster:
        assert cluster.unavailable(Interceptable) is None
        number = cluster.intercept({"act": "lose", "api": "EndTxn", "on": "answer", "nth": 1})
        committed(cluster, "before")
        (catch,) = cluster.withdraw(number)
        assert (catch.node, catch.state, catch.transactional_id) == ("n1", "lost", "before")
        assert cluster.proxied() == {"n1": True}
        number = cluster.intercept({"act": "lose", "api": "EndTxn", "on": "answer", "transactional_id": "after", "times": 1})
        cluster._proxies._placed["n1"].running._container.signal("SIGKILL")
        poll_until(lambda: cluster._proxies._placed["n1"].started, lambda times: times == 2, 60.0)
        poll_until(lambda: cluster.replaced(number), lambda places: places == {"n1": True}, 20.0)
        committed(cluster, "after")
        (catch,) = cluster.withdraw(number)
        assert (catch.state, catch.transactional_id) == ("lost", "after"), "the rule in force was put at the new one"
        assert cluster.proxied() == {"n1": False}, "its record has a gap"
        cluster.heal()
    ends = record.read(tmp_path / RunFile.WIRE_LINES).filter(pc.field("api") == "EndTxn").to_pylist()
    assert {row["transactional_id"] for row in ends} == {"before", "after"}
    files = [f"{proxy}.{kind}" for proxy in ("n1-2", "n1") for kind in ("journal-0", "journal-1", "jsonl")]
    assert sorted(path.name for path in (tmp_path / RunFile.WIRE_LINES).iterdir()) == files, "both were killed"
    assert [str(left) for left in leftovers.find() if left.run == tmp_path.name] == []
