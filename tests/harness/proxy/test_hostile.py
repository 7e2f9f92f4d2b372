"""Clients, brokers and disks that mean it badly: the proxy serves the others, and its record says no more than it knows."""

from __future__ import annotations

import ssl
import struct
from contextlib import contextmanager

import pytest
from support.external_kafka import make_keystore
from support.frames import METADATA, PATIENCE_S, answer, connected, correlation_of, end_txn, request, text, upstream

from fencepost.harness.api import CampaignError
from fencepost.harness.proxy import record
from fencepost.harness.proxy.process import Broker, ProxyProcess, Settings
from fencepost.nemesis.support.waiting import poll_until

pytestmark = pytest.mark.cluster  # it needs Kafka's jars, as brokers do


@contextmanager
def limited(kafka_classpath, tmp_path, limit, **settings):
    """A proxy under a limit of the shell's, its upstream, and what it said on standard error."""
    shell = ("bash", "-c", f'ulimit {limit}; exec "$@"', "limited")
    with upstream() as brokers, open(tmp_path / "log", "wb") as log:
        one = Settings(brokers=[Broker(upstream=brokers.address, node="n1")], node="n1", **settings)
        with ProxyProcess(one, kafka_classpath, log, prefix=shell) as proxy:
            yield proxy, brokers, tmp_path / "log"


def exchanged(client, broker, number):
    client.send(end_txn(number))
    assert correlation_of(broker.receive()) == number
    broker.send(answer(number))
    assert client.receive() == answer(number)[4:]


def test_a_record_that_cannot_be_written_ends_with_a_whole_line_and_messages_pass_on(kafka_classpath, tmp_path):
    """What follows a hole would say what never happened: there is no line behind one that was not written, room or not."""
    place = tmp_path / "record"
    with limited(kafka_classpath, tmp_path, "-f 20", record=place) as (proxy, brokers, log):
        client = connected(proxy.address)
        broker = brokers.accepted()
        for number in range(100):
            exchanged(client, broker, number)
        status = proxy.control.status()
        whole = (place / "n1.jsonl").read_bytes()
        (place / "n1.jsonl").write_bytes(whole[:5000])  # room again
        exchanged(client, broker, 100)
        assert (place / "n1.jsonl").read_bytes() == whole[:5000]
        (place / "n1.jsonl").write_bytes(whole)
    assert status["record_error"]
    assert 5000 < len(whole) <= 20 << 10
    assert whole.endswith(b"\n")
    assert status["lines"] == whole.count(b"\n")
    requests = record.read(place)
    assert requests["correlation"].to_pylist() == [*range(len(requests))]
    assert log.read_text() == (
        f"{place / 'n1.jsonl'} could not be written ({status['record_error']}): the record ends there, and messages pass on\n"
    )


def test_after_too_many_connections_it_serves_again(kafka_classpath, tmp_path):
    with limited(kafka_classpath, tmp_path, "-n 96") as (proxy, brokers, log):
        many = [connected(proxy.address) for _ in range(150)]
        others = [brokers.accepted()]  # of the first one at least
        for client in many:
            client.close()
        while not brokers.connections.empty():
            others.append(brokers.connections.get())
        for other in others:
            other.close()
        assert poll_until(lambda: answering(proxy), bool, PATIENCE_S)
        assert poll_until(lambda: serving(proxy, brokers), bool, PATIENCE_S)
    assert "Exception" not in log.read_text()


def serving(proxy, brokers):
    """True if the broker gets what another client sends. Those that still wait to be accepted may leave no descriptor for it."""
    client = connected(proxy.address)
    client.send(end_txn(7))
    return poll_until(lambda: served(brokers), bool, 1.0)


def answering(proxy):
    try:
        return proxy.control.status()["connections"] == 0
    except Exception:  # noqa: BLE001 - it has no descriptor for an answer yet
        return False


def served(brokers):
    """True if the broker gets what a client sent; connections that were still waiting come before it."""
    while not brokers.connections.empty():
        if (frame := brokers.accepted().receive()) is not None:
            return correlation_of(frame) == 7
    return False


def metadata(correlation, brokers):
    """An answer to Metadata of version 0."""
    rows = b"".join(
        struct.pack(">i", number) + text(host) + struct.pack(">i", port) for number, (host, port) in enumerate(brokers)
    )
    return answer(correlation, struct.pack(">i", len(brokers)) + rows + struct.pack(">i", 0))


def asked(proxy, brokers, places):
    client = connected(proxy.address)
    client.send(request(METADATA, 0, 3, struct.pack(">i", 0)))
    broker = brokers.accepted()
    broker.receive()
    broker.send(metadata(3, places))
    return client.receive()


def test_a_broker_that_names_thousands_of_others_is_cut_off(kafka_classpath, tmp_path):
    with limited(kafka_classpath, tmp_path, "-c 0", rewrite=True) as (proxy, brokers, log):
        assert asked(proxy, brokers, [("somewhere", 1 + number) for number in range(2000)]) is None
        status = proxy.control.status()
        assert len(status["brokers"]) == 1000
        assert status["last_unreached"].startswith("answers have named more than 1000 brokers, which no cluster has")
        assert asked(proxy, brokers, [("somewhere", 5)]) is not None, "who is known is served"
    assert not log.read_text()


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("no such host", 9092), ("\x1b[2J<b>", 1), ("a" * 300, 1)])
def test_a_broker_whose_address_is_none_is_not_reached(kafka_classpath, tmp_path, host, port):
    with limited(kafka_classpath, tmp_path, "-c 0", rewrite=True) as (proxy, brokers, log):
        assert asked(proxy, brokers, [(host, port)]) is not None
        listener = proxy.control.status()["brokers"][-1]["listen"]
        assert connected(listener).receive() is None
        assert proxy.control.status()["unreached"] == 1
    assert not log.read_text()


def test_who_does_not_speak_tls_is_named(kafka_classpath, tmp_path):
    make_keystore(tmp_path)
    store = {"location": str(tmp_path / "broker.p12"), "type": "PKCS12", "password": "keystore-password"}
    trust = {"ssl.truststore.location": str(tmp_path / "ca.pem"), "ssl.truststore.type": "PEM"}
    tls = {"client": {f"ssl.keystore.{key}": value for key, value in store.items()}, "broker": trust}
    with limited(kafka_classpath, tmp_path, "-c 0", tls=tls) as (proxy, brokers, _):
        client = connected(proxy.address)
        client.send(end_txn(1))
        assert client.receive() is None
        unreached = poll_until(lambda: proxy.control.status()["last_unreached"], bool, PATIENCE_S)
        assert unreached.startswith("client 127.0.0.1:")
        secure = ssl.create_default_context(cafile=str(tmp_path / "ca.pem")).wrap_socket(
            connected(proxy.address).socket, server_hostname="127.0.0.1"
        )
        brokers.accepted().send(answer(1))
        unreached = poll_until(lambda: proxy.control.status(), lambda now: now["unreached"] == 2, PATIENCE_S)["last_unreached"]
        assert unreached.startswith(f"{brokers.address}: ")
        secure.close()


@pytest.mark.parametrize(
    "rule",
    [
        {"act": "delay", "delay_ms": 10**30},
        {"act": "delay", "delay_ms": 1 << 62},
        {"act": "hold", "until": "closed", "at_most_ms": 1 << 63},
        {"act": "repeat", "count": 2_000_000_000},
        {"act": "record", "nth": 1 << 64},
        {"act": "record", "name": 5},
    ],
    ids=str,
)
def test_numbers_that_no_test_means_are_refused(scene, rule):
    with pytest.raises(CampaignError, match=f"^{list(rule)[-1]}: must be"):
        scene.control.add(rule)


def test_a_rule_of_megabytes_is_refused(scene):
    with pytest.raises(CampaignError, match="the body has more than 1048576 bytes"):
        scene.control.add({"act": "record", "name": "a" * (1 << 20)})
