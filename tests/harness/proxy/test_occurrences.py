"""What a held message waits for: requests and answers at its own proxy, and at others, by what these tell."""

from __future__ import annotations

import struct

import pytest
from support import frames
from support.frames import answer, end_txn

from fencepost.clusters.kafka.interception import Interceptor
from fencepost.harness.api import CampaignError
from fencepost.harness.proxy.process import Broker, ProxyProcess, Settings

pytestmark = pytest.mark.cluster  # it needs Kafka's jars, as brokers do
ANSWERED = {"act": "hold", "api": "EndTxn", "transactional_id": "held", "until": "answered:EndTxn", "at_most_ms": 600_000}
FENCED = 90


def test_what_waits_for_an_answer_goes_on_when_it_was_given(scene):
    """A request of the same API and the same transactional id; another's answer changes nothing."""
    rule = scene.control.add({**ANSWERED, "nth": 1})
    held, broker = scene.connection()
    held.send(end_txn(1, "held"))
    scene.control.wait(rule)
    other, others_broker = scene.connection()
    for number, name in ((2, "another"), (3, "held")):
        other.send(end_txn(number, name))
        others_broker.receive()
        assert scene.control.catches(rule)[0]["state"] == "held"
        others_broker.send(answer(number))
        other.receive()
    assert broker.receive() == end_txn(1, "held")[4:]
    assert scene.control.catches(rule)[0]["by"] == "answered:EndTxn"


def test_an_answer_that_the_proxy_makes_is_given_too(scene):
    rule = scene.control.add({**ANSWERED, "client_id": "c", "nth": 1})
    scene.control.add({"act": "error", "api": "EndTxn", "code": "PRODUCER_FENCED", "transactional_id": "held", "nth": 2})
    held, broker = scene.connection()
    held.send(end_txn(1, "held"))
    scene.control.wait(rule)
    other, _ = scene.connection()
    other.send(end_txn(2, "held"))
    assert other.receive() == answer(2, struct.pack(">ih", 0, FENCED))[4:]
    assert broker.receive() == end_txn(1, "held")[4:]


def test_an_answer_that_is_lost_was_not_given(scene):
    rule = scene.control.add({**ANSWERED, "nth": 1, "at_most_ms": 300})
    scene.control.add({"act": "lose", "api": "EndTxn", "transactional_id": "held", "nth": 2})
    held, broker = scene.connection()
    held.send(end_txn(1, "held"))
    scene.control.wait(rule)
    other, others_broker = scene.connection()
    other.send(end_txn(2, "held"))
    others_broker.receive()
    others_broker.send(answer(2))
    assert other.receive() is None
    assert broker.receive() == end_txn(1, "held")[4:]
    assert scene.control.catches(rule)[0]["by"] == "time"


def test_a_watch_tells_what_has_occurred_and_ends(scene):
    watch = scene.control.watch("next:EndTxn")
    client, broker = scene.connection()
    client.send(end_txn(1, "a"), end_txn(2, "b"))
    for _ in range(2):
        broker.receive()
    count, seen = scene.control.seen(watch, 1)
    assert (count, [one["transactional_ids"] for one in seen]) == (2, [["b"]])
    assert scene.control.seen(watch, 2, timeout_s=0.01) == (2, [])
    scene.control.unwatch(watch)
    for ended in (lambda: scene.control.seen(watch), lambda: scene.control.unwatch(watch)):
        with pytest.raises(CampaignError, match=f"there is no watch {watch}"):
            ended()
    with pytest.raises(CampaignError, match="until: must be next:API or answered:API"):
        scene.control.watch("next:EndTxm")


def test_what_occurred_before_a_message_was_held_does_not_release_it(scene):
    """However late the news is."""
    rule = scene.control.add({**ANSWERED, "until": "next:Produce"})
    held, broker = scene.connection()
    held.send(end_txn(1, "held"))
    (caught,) = scene.control.wait(rule)
    seen = {"until": "next:Produce", "transactional_ids": ["held"]}
    assert scene.control.occurred([{**seen, "time_ns": caught["time_ns"] - 1}]) == 0
    assert scene.control.occurred([{**seen, "transactional_ids": ["other"]}, {**seen, "until": "next:Fetch"}]) == 0
    assert scene.control.occurred([seen]) == 1
    assert broker.receive() == end_txn(1, "held")[4:]


@pytest.fixture
def two(scene, kafka_classpath, tmp_path):
    """The interceptor of a cluster with two proxies, and the second one with its broker."""
    with frames.upstream() as upstream, open(tmp_path / "log", "wb") as log:
        settings = Settings(brokers=[Broker(upstream=upstream.address, node="n2")], record=tmp_path, node="n2")
        with ProxyProcess(settings, kafka_classpath, log) as proxy:
            interceptor = Interceptor()
            interceptor.controls = {"n1": scene.control, "n2": proxy.control}
            yield interceptor, proxy, upstream
            interceptor.withdraw_all()


@pytest.mark.parametrize(("until", "answered"), [("next:EndTxn", False), ("answered:EndTxn", True)])
def test_what_passes_one_proxy_releases_what_another_holds(scene, two, until, answered):
    interceptor, proxy, upstream = two
    rule = interceptor.intercept({**ANSWERED, "until": until, "nth": 1}, ["n1"])
    held, broker = scene.connection()
    held.send(end_txn(1, "held"))
    scene.control.wait(scene.control.rules()[-1]["number"])
    other = frames.connected(proxy.address)
    other.send(end_txn(2, "held"))
    others_broker = upstream.accepted()
    others_broker.receive()
    if answered:
        assert interceptor.caught(rule)[0].state == "held"
        others_broker.send(answer(2))
    assert broker.receive() == end_txn(1, "held")[4:]
    (catch,) = interceptor.withdraw(rule)
    assert catch.state == "released"


def test_a_killed_proxy_ends_what_it_held_and_the_others_go_on(scene, two):
    """What it held is named; rules are withdrawn, and new ones hold at the others."""
    interceptor, proxy, upstream = two
    rule = interceptor.intercept({**ANSWERED, "until": "event:x"})
    kept = [scene.connection(), (frames.connected(proxy.address), upstream.accepted())]
    for client, _ in kept:
        client.send(end_txn(1, "held"))
    for node in ("n1", "n2"):
        control = interceptor.controls[node]
        control.wait(control.rules()[-1]["number"])
    assert [catch.state for catch in interceptor.caught(rule)] == ["held", "held"]
    proxy._process.kill()
    proxy.wait()
    assert sorted(catch.state for catch in interceptor.caught(rule)) == ["ended", "held"]
    assert sorted((catch.node, catch.state) for catch in interceptor.withdraw(rule)) == [("n1", "released"), ("n2", "ended")]
    assert interceptor.proxied() == {"n1": True, "n2": False}
    assert interceptor.withdraw(interceptor.intercept({**ANSWERED, "until": "next:Produce"})) == []
