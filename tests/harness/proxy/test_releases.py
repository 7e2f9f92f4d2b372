"""The same jar with the messages of other releases of Kafka."""

from __future__ import annotations

import struct

import pytest
from support import frames
from support.raw_producer import record_batch

from fencepost.clusters.kafka.distribution import fetch
from fencepost.harness.proxy import jars
from fencepost.harness.proxy.process import Broker, ProxyProcess, Settings

FENCED = 90


@pytest.mark.nightly
@pytest.mark.parametrize("version", ["3.8.0", "3.9.1", "4.0.0", "4.1.1", "4.3.0", jars.DEFAULT])
def test_what_reads_and_makes_messages_works_with_a_release(version, tmp_path):
    """Needs the network, once for each."""
    works(jars.classpath(version), tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("version", ["3.1.0", "3.5.2"])
def test_it_works_with_the_jars_of_an_old_broker(version, tmp_path):
    """A proxy before a broker of a run has that broker's."""
    works(jars.with_proxy(fetch(version).classpath()), tmp_path)


def works(path, tmp_path):
    rules = [
        {"act": "error", "code": "PRODUCER_FENCED", "transactional_id": "err"},
        {"act": "alter", "transform": "reverse-aborted"},
    ]
    with frames.upstream() as upstream, open(tmp_path / "log", "wb") as log:
        with ProxyProcess(Settings(brokers=[Broker(upstream=upstream.address)], record=tmp_path), path, log) as proxy:
            for rule in rules:
                proxy.control.add(rule)
            client = frames.connected(proxy.address)
            client.send(frames.end_txn(1, "err"))
            assert client.receive() == frames.answer(1, struct.pack(">ih", 0, FENCED))[4:]
            client.send(frames.produce(2, (4000, 5)), frames.fetch(3))
            broker = upstream.accepted()
            assert [frames.correlation_of(broker.receive()) for _ in range(2)] == [2, 3]
            batch = record_batch((4000, 5), b"v")
            broker.send(frames.fetched(3, [(7, 1), (8, 2)], records=batch))
            assert client.receive() == frames.fetched(3, [(8, 2), (7, 1)], records=batch)[4:]
            produced = next(line for line in proxy.control.record() if line.get("api") == "Produce")
            assert produced["partitions"][0]["batches"][0]["producer_id"] == 4000
            assert proxy.control.status()["failures"] == 0
    assert not (tmp_path / "log").read_text()
