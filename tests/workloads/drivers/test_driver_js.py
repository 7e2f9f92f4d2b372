"""The code that the drivers in JavaScript share, with a library in memory: one start of Node.js for all."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from fencepost.harness.api import CallError, ClientSettings, Delivered, Outgoing
from fencepost.harness.drivers.client import DriverClient
from fencepost.harness.drivers.process import DriverProcess
from fencepost.workloads.clients.node import SHARED, SOURCES

PRODUCER = {"acks": "all", "transaction.timeout.ms": 15000, "delivery.timeout.ms": 10000, "linger.ms": 0}
PATIENCE_S = 60.0
CONSUMER = {"isolation.level": "read_committed", "auto.offset.reset": "earliest", "fetch.max.wait.ms": 100}


@pytest.fixture(scope="module")
def process():
    node = shutil.which("node")
    if node is None:
        if os.environ.get("CI"):
            pytest.fail("CI must have Node.js")
        pytest.skip("Node.js is not here")
    running = DriverProcess([node, str(Path(__file__).with_name("library.js")), str(SOURCES / SHARED)])
    yield running
    running.end()


@pytest.fixture
def client(process):
    return opened(process, PRODUCER)


def opened(process, producer, transactional_id="id", **more):
    common = {"name": "c", "bootstrap": "b:1", "consumer": CONSUMER}
    settings = ClientSettings(transactional_id=transactional_id, producer=producer, **common, **more)
    client = DriverClient(process, settings)
    client.open(PATIENCE_S)
    return client


def sent(client, *values):
    """Send these values; the list that their fates come into."""
    fates = []
    for value in values:
        client.send(Outgoing(topic="t", partition=0, value=value.encode()), fates.append)
    return fates


def test_sends_are_handed_over_one_by_one_and_each_has_a_fate_of_its_own(client):
    client.begin()
    fates = sent(client, "slow 20", "a", "b")
    client.flush(PATIENCE_S)
    assert [type(fate) for fate in fates] == [Delivered] * 3
    assert [fate.offset - fates[0].offset for fate in fates] == [0, 1, 2]


def test_a_failed_send_is_reported_and_makes_the_commit_abortable(client):
    client.begin()
    fates = sent(client, "a", "fail", "b")
    with pytest.raises(CallError, match="too few") as caught:
        client.commit(PATIENCE_S)
    assert (caught.value.name, caught.value.code) == ("NOT_ENOUGH_REPLICAS", 19)
    assert (caught.value.abortable, caught.value.fatal, caught.value.retriable) == (True, False, False)
    assert [getattr(fate, "name", "ok") for fate in fates] == ["ok", "NOT_ENOUGH_REPLICAS", "NOT_SENT"]
    client.begin()
    sent(client, "c")
    client.commit(PATIENCE_S)


@pytest.mark.parametrize(("value", "name"), [("lost", "NOT_ACKNOWLEDGED"), ("astray", "WRONG_PARTITION")])
def test_a_promise_that_resolves_without_the_record_s_place_is_no_acknowledgement(client, value, name):
    client.begin()
    fates = sent(client, value)
    with pytest.raises(CallError) as caught:
        client.commit(PATIENCE_S)
    assert (caught.value.name, caught.value.abortable) == (name, True)
    assert [fate.name for fate in fates] == [name]


@pytest.mark.parametrize(("recovery", "flags"), [("documented", (False, True)), ("new-producer", (True, False))])
def test_after_a_fatal_send_the_commit_is_refused_and_the_documentation_has_an_abort_follow(process, recovery, flags):
    """Both libraries' examples call `abort` after any error. Whether the producer goes on is for the library to show."""
    client = opened(process, PRODUCER, recovery=recovery)
    client.begin()
    sent(client, "fatal")
    with pytest.raises(CallError, match="fenced") as caught:
        client.commit(PATIENCE_S)
    assert (caught.value.fatal, caught.value.abortable) == flags


def test_a_flush_that_takes_too_long_may_be_called_again(client, tmp_path):
    client.begin()
    fates = sent(client, f"until {tmp_path / 'now'}")
    with pytest.raises(CallError, match="1 sends") as caught:
        client.flush(0.02)
    assert caught.value.retriable
    assert fates == []
    (tmp_path / "now").touch()
    client.flush(PATIENCE_S)
    assert len(fates) == 1


def test_a_commit_that_takes_too_long_goes_on_and_the_next_call_waits_for_it(client, tmp_path):
    client.begin()
    sent(client, f"commit {tmp_path / 'now'}")
    client.flush(PATIENCE_S)
    for _ in range(2):
        with pytest.raises(CallError) as caught:
            client.commit(0.02)
        assert caught.value.retriable
    with pytest.raises(CallError, match="commit is under way"):
        client.abort(1)
    (tmp_path / "now").touch()
    client.commit(PATIENCE_S)


def test_an_error_of_the_library_is_the_answer(client):
    client.begin()
    with pytest.raises(CallError, match="the library failed") as caught:
        client.abort(PATIENCE_S)
    assert caught.value.name == "TypeError"


def test_a_hanging_send_does_not_outlive_a_close(process, client):
    client.begin()
    fates = sent(client, "hang")
    with pytest.raises(CallError):
        client.flush(0.05)
    client.close()
    again = opened(process, PRODUCER)
    again.begin()
    assert fates == []
    assert sent(again, "a") == []
    again.commit(PATIENCE_S)


def test_a_poll_gives_records_and_names_the_end_once_all_was_returned(client):
    client.begin()
    sent(client, "x" * 1_000_000)
    client.commit(PATIENCE_S)
    client.assign({"t-0": 0})
    records = client.poll(PATIENCE_S, limit=1)
    assert [record.offset for record in records] == [0]
    assert client.ends() == {}
    assert client.position(["t-0", "t-9"]) == {"t-0": 1, "t-9": None}
    deadline = time.monotonic() + PATIENCE_S
    while not client.ends() and time.monotonic() < deadline:
        records += client.poll(0.3)
    assert records[-1].value == b"x" * 1_000_000
    assert records[-1].headers == (("a", b"1"),)
    assert [record.offset for record in records] == list(range(len(records)))
    assert client.ends() == {"t-0": len(records) + 1}


def test_settings_are_judged_before_anything_starts(process, client):
    def refused(**sides):
        answer = process.call("check", **{"producer": None, "consumer": None, **sides})
        return {(side, key) for side, key, _ in answer["refused"]}

    assert refused(producer=PRODUCER, consumer=CONSUMER) == set()
    assert refused(producer={"acks": "2", "linger.ms": 5}) == {("producer", "acks"), ("producer", "linger.ms")}
    assert refused(producer={"acks": 1, "enable.idempotence": True}) == {("producer", "acks")}
    assert refused(producer={"batch.size": 1}, consumer={"isolation.level": "none", "toString": 1}) == {
        ("producer", "batch.size"),
        ("consumer", "isolation.level"),
        ("consumer", "toString"),
    }
    with pytest.raises(CallError, match=r"batch\.size"):
        opened(process, {"batch.size": 1})


def test_what_is_not_there_is_unsupported(process, client):
    with pytest.raises(CallError) as caught:
        process.call("fly")
    assert caught.value.name == "UNSUPPORTED"


def test_the_end_of_standard_input_ends_it(client):
    process = client._process
    pid = process.pid
    process._popen.stdin.close()
    assert process._popen.wait(PATIENCE_S) == 0
    assert pid is not None
    process.end()
