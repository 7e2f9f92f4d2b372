"""Rules that ask for the state of a transactional id: by what was answered before, at this proxy or another."""

from __future__ import annotations

import struct

import pytest
from support import frames
from support.frames import answer, end_txn, init_producer_id, produce, producer_is

from fencepost.clusters.kafka.interception import Interceptor
from fencepost.harness.proxy.process import Broker, ProxyProcess, Settings
from fencepost.nemesis.support.waiting import poll_until

pytestmark = pytest.mark.cluster  # it needs Kafka's jars, as brokers do
REFUSED = struct.pack(">ih", 0, 51)  # CONCURRENT_TRANSACTIONS


class Producer:
    """A connection on which requests of one id are answered at once."""

    def __init__(self, client, broker, name, producer):
        self.client, self.broker, self.name, self.producer = client, broker, name, producer

    def begin(self, client="c", error=0):
        self.ask(init_producer_id(1, self.name, client), producer_is(1, self.producer, error))

    def end(self, committed=True, body=b"\0" * 6):
        self.ask(end_txn(2, self.name, committed, self.producer), answer(2, body))

    def ask(self, request, reply):
        self.client.send(request)
        assert self.broker.receive() == request[4:]
        self.broker.send(reply)
        assert self.client.receive() == reply[4:]


def _states(scene, rule):
    return [catch.get("id_state") for catch in scene.control.catches(rule)]


def test_a_state_is_that_when_the_request_came(scene):
    every = scene.control.add({"act": "record", "api": "EndTxn", "transactional_id": "states"})
    some = scene.control.add({"act": "record", "api": "EndTxn", "state": ["aborted", "fresh"], "on": "answer"})
    producer = Producer(*scene.connection(), "states", (100, 0))
    producer.begin()
    producer.end(True)
    producer.end(False)
    producer.end(False, REFUSED)
    producer.end(True)
    producer.end(True)
    assert _states(scene, every) == ["fresh", "committed", "aborted", "aborted", "committed"]
    assert _states(scene, some) == ["fresh", "aborted", "aborted"]


@pytest.mark.parametrize("taken", [(200, 1), (201, 0)], ids=["next epoch", "another producer id"])
def test_the_producer_that_was_fenced_is_told_from_the_one_that_has_the_id(scene, taken):
    fenced = scene.control.add({"act": "record", "state": "fenced"})
    name = f"taken-{taken[0]}"
    first = Producer(*scene.connection(), name, (200, 0))
    second = Producer(*scene.connection(), name, taken)
    first.begin()
    second.begin("other", error=51)
    first.end()
    assert "EndTxn" not in [catch["api"] for catch in scene.control.catches(fenced)], "what was refused takes nothing"
    second.begin("other")
    second.end()
    first.end()
    first.begin()
    catches = scene.control.catches(fenced)
    by = [(catch["api"], catch["client_id"]) for catch in catches]
    assert by == [("InitProducerId", "other")] * 2 + [("EndTxn", "c"), ("InitProducerId", "c")]


def test_what_nobody_has_seen_is_in_no_state(scene):
    every = scene.control.add({"act": "record", "api": "EndTxn", "transactional_id": "unseen"})
    scene.control.add({"act": "drop", "api": "EndTxn", "state": ["fresh", "committed", "aborted", "fenced"]})
    producer = Producer(*scene.connection(), "unseen", (300, 0))
    producer.end()
    producer.end()
    assert _states(scene, every) == [None, None]


def test_a_proxy_is_told_of_ids_that_have_passed_another(scene, kafka_classpath):
    with frames.upstream() as upstream:
        settings = Settings(brokers=[Broker(upstream=upstream.address, node="n2")], node="n2")
        with ProxyProcess(settings, kafka_classpath) as other:
            Producer(*scene.connection(), "x", (4000, 5)).begin()
            interceptor = Interceptor()
            interceptor.controls = {"n1": scene.control, "n2": other.control}
            rule = interceptor.intercept({"act": "record", "api": "Produce", "state": "committed"}, ["n2"])
            Producer(*scene.connection(), "x", (4000, 5)).end()
            client = frames.connected(other.address)

            def caught():
                client.send(produce(1, (4000, 5)))
                return interceptor.caught(rule)

            assert poll_until(caught, bool, frames.PATIENCE_S)[0].id_state == "committed"
            interceptor.withdraw_all()
