"""Addresses of brokers in answers become listeners, one for each broker."""

from __future__ import annotations

import struct
from contextlib import ExitStack

import pytest
from support import frames
from support.frames import API_VERSIONS, END_TXN, METADATA, PRODUCE, answer, request, text

from fencepost.harness.proxy.process import Broker, ProxyProcess, Settings

pytestmark = pytest.mark.cluster  # it needs Kafka's jars, as brokers do
FIND_COORDINATOR = 10
NOBODY = b"\xff\xff"  # a text that is null


@pytest.fixture(scope="module")
def scene(kafka_classpath):
    """Two brokers, of which the proxy is given the first."""
    with ExitStack() as steps:
        first, second = (steps.enter_context(frames.upstream()) for _ in range(2))
        settings = Settings(brokers=[Broker(upstream=first.address)], rewrite=True, advertise="127.0.0.1")
        yield steps.enter_context(ProxyProcess(settings, kafka_classpath)), first, second


def place(address):
    """A host and a port in an answer."""
    host, _, port = address.rpartition(":")
    return text(host) + struct.pack(">i", int(port))


def listeners(proxy):
    return {broker["upstream"]: broker["listen"] for broker in proxy.control.status()["brokers"]}


def exchanged(proxy, upstream, asked, given):
    """The answer of the first broker, as the client gets it."""
    client = frames.connected(proxy.address)
    broker = upstream.accepted()
    client.send(asked)
    assert broker.receive() == asked[4:]
    broker.send(given)
    return client.receive()


def metadata(*addresses):
    """An answer to Metadata of version 1; each broker with its number as its id."""
    rows = b"".join(struct.pack(">i", number) + place(address) + NOBODY for number, address in enumerate(addresses, 1))
    return answer(1, struct.pack(">i", len(addresses)) + rows + struct.pack(">ii", 1, 0))


def test_each_broker_of_an_answer_gets_a_listener_that_leads_to_it(scene):
    proxy, first, second = scene
    got = exchanged(proxy, first, request(METADATA, 1, 1, struct.pack(">i", -1)), metadata(first.address, second.address))
    led = listeners(proxy)
    assert led.keys() == {first.address, second.address}
    assert led[first.address] == proxy.address
    assert got == metadata(led[first.address], led[second.address])[4:]
    client = frames.connected(led[second.address])
    client.send(frames.end_txn(5))
    assert frames.correlation_of(second.accepted().receive()) == 5
    nodes = [line["node"] for line in proxy.control.record() if line.get("api") == "EndTxn"]
    assert nodes == ["n2"]


def offered(*ranges):
    """An answer to ApiVersions of version 0; ranges: API, lowest and highest version."""
    return answer(4, struct.pack(">hi", 0, len(ranges)) + b"".join(struct.pack(">hhh", *one) for one in ranges))


def test_no_version_is_agreed_on_in_which_an_address_could_not_be_read(scene):
    """A newer broker offers it; the versions of other APIs stay, as those of an API that is not known."""
    proxy, first, _ = scene
    asked = request(API_VERSIONS, 0, 4, b"")
    newest = struct.unpack_from(">h", exchanged(proxy, first, asked, offered((METADATA, 0, 99))), 4 + 6 + 4)[0]
    assert 12 < newest < 99
    got = exchanged(proxy, first, asked, offered((END_TXN, 0, 99), (METADATA, 1, 99), (999, 0, 7)))
    assert got == offered((END_TXN, 0, 99), (METADATA, 1, newest), (999, 0, 7))[4:]
    for _ in range(2):
        known = offered((METADATA, 1, newest - 1), (END_TXN, 0, 3))
        assert exchanged(proxy, first, asked, known) == known[4:]


def test_a_client_that_asks_in_a_newer_way_asks_again_in_one_that_is_known(scene):
    """KIP-511: the answer has version 0, an error, and the versions in which it can be asked."""
    proxy, first, _ = scene
    client = frames.connected(proxy.address)
    broker = first.accepted()
    client.send(request(API_VERSIONS, 99, 7, b"of the future"))
    correlation, error, count, key, lowest, highest = struct.unpack(">ihihhh", client.receive())
    assert (correlation, error, count, key, lowest) == (7, 35, 1, API_VERSIONS, 0)
    assert 3 < highest < 99
    client.send(request(API_VERSIONS, 0, 8, b""))
    assert frames.correlation_of(broker.receive()) == 8


def test_a_coordinator_is_found_through_the_proxy_and_none_stays_none(scene):
    proxy, first, second = scene

    def coordinator(where):
        return answer(2, struct.pack(">ih", 0, 0) + NOBODY + struct.pack(">i", 2) + where)

    asked = request(FIND_COORDINATOR, 1, 2, text("x") + b"\x01")
    got = exchanged(proxy, first, asked, coordinator(place(second.address)))
    assert got == coordinator(place(listeners(proxy)[second.address]))[4:]
    nobody = coordinator(text("") + struct.pack(">i", -1))
    assert exchanged(proxy, first, asked, nobody) == nobody[4:]


def test_a_leader_that_comes_with_an_error_is_reached_through_the_proxy(scene):
    """KIP-951: Produce of version 10 has the address of the new leader in a tagged field."""
    proxy, first, second = scene

    def leader(address):
        host, _, port = address.rpartition(":")
        row = struct.pack(">i", 2) + bytes([len(host) + 1]) + host.encode() + struct.pack(">i", int(port)) + b"\0\0"
        tagged = b"\x02" + row
        return answer(3, b"\0" + b"\x01" + struct.pack(">i", 0) + b"\x01\x00" + bytes([len(tagged)]) + tagged)

    asked = request(PRODUCE, 10, 3, b"\0" + b"\0" + struct.pack(">hi", -1, 5000) + b"\x01" + b"\0")
    got = exchanged(proxy, first, asked, leader(second.address))
    assert got == leader(listeners(proxy)[second.address])[4:]
