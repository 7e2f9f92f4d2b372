"""What is no message, or none that is known, passes as bytes and is counted; matches by fields of known ones."""

from __future__ import annotations

import struct
from contextlib import contextmanager

import pytest
from support.frames import (
    API_VERSIONS,
    END_TXN,
    FETCH,
    PATIENCE_S,
    PRODUCE,
    add_partitions,
    answer,
    connected,
    correlation_of,
    end_txn,
    fetch,
    fetched,
    produce,
    request,
    text,
    upstream,
)
from support.raw_producer import record_batch

from fencepost.harness.proxy.process import Broker, ProxyProcess, Settings

pytestmark = pytest.mark.cluster  # it needs Kafka's jars, as brokers do
METADATA = 3
SASL_HANDSHAKE = 17
HUGE = 100_000_000
FENCED = 90  # PRODUCER_FENCED


@contextmanager
def counted(scene, **more):
    """What the block adds to the proxy's counts, without those of every message."""
    names = ("malformed", "streamed", "unasked", "failures")
    before = scene.control.status()
    yield
    after = scene.control.status()
    assert {name: after[name] - before[name] for name in names if after[name] != before[name]} == more


def test_many_requests_at_once_keep_their_order(scene):
    client, broker = scene.connection()
    client.send(*(end_txn(number) for number in range(200)))
    assert [correlation_of(broker.receive()) for _ in range(200)] == [*range(200)]
    broker.send(*(answer(number) for number in range(200)))
    assert [client.receive() for _ in range(200)] == [answer(number)[4:] for number in range(200)]
    assert [line["at"] for line in scene.lines()].count("answer") == 200


@pytest.mark.parametrize(
    ("api", "version", "body", "name"),
    [(999, 0, b"what", "key 999"), (END_TXN, 99, b"newer", "EndTxn"), (END_TXN, 1, b"no such fields", "EndTxn")],
    ids=["api", "version", "body"],
)
def test_a_message_that_is_not_known_passes_with_its_answer(scene, api, version, body, name):
    scene.control.add({"act": "record"})
    client, broker = scene.connection()
    with counted(scene):
        client.send(request(api, version, 5, body))
        assert broker.receive() == request(api, version, 5, body)[4:]
        broker.send(answer(5, b"and its answer"))
        assert client.receive() == answer(5, b"and its answer")[4:]
    assert {"api": name, "version": version, "count": 1} in [
        {**row, "count": min(row["count"], 1)} for row in scene.control.status()["unknown"]
    ]
    assert (name, version) in [(line["api"], line["version"]) for line in scene.lines() if line["at"] == "unknown"]


@pytest.mark.parametrize("nonsense", [b"\xff\xff\xff\xff and more", b"\0\0\0\x02ab"], ids=["negative size", "too short"])
def test_what_is_no_frame_passes_as_it_is(scene, nonsense):
    client, broker = scene.connection()
    with counted(scene, malformed=1):
        client.send(nonsense)
        assert broker.exactly(len(nonsense)) == nonsense
        client.send(b"and on")
        assert broker.exactly(6) == b"and on"


def test_half_a_frame_ends_with_its_connection(scene):
    client, broker = scene.connection()
    with counted(scene, malformed=1):
        client.send(end_txn(1)[:-3])
        assert broker.is_silent()
        client.close()
        assert broker.receive() is None


def test_a_frame_of_any_size_passes_in_pieces(scene):
    rule = scene.control.add({"act": "repeat", "times": 1, "name": "repeat big"})
    client, broker = scene.connection()
    frame, reply = request(PRODUCE, 3, 8, bytes(HUGE)), answer(8, bytes(3 << 20))
    with counted(scene, streamed=2):
        client.send_meanwhile(frame)
        got = broker.receive()
        assert (len(got), got[:20]) == (len(frame) - 4, frame[4:24])
        broker.send_meanwhile(reply)
        assert client.receive() == reply[4:]
        client.send(end_txn(9))
        assert correlation_of(broker.receive()) == 9
    assert "most_frame_bytes" in scene.control.rule(rule)["last"]["why"], "what is not kept cannot be repeated"


def test_half_an_answer_reaches_nobody(scene):
    """A broker that is killed while it answers: the request may have been applied."""
    client, broker = scene.connection()
    with counted(scene):
        client.send(end_txn(1), end_txn(2))
        broker.receive()
        broker.receive()
        broker.send(answer(1)[:-3])
        assert client.is_silent()
        broker.close()
        assert client.receive() is None
    lost = [(line["n"], line["why"]) for line in scene.lines() if line["at"] == "lost"]
    asked = [line["n"] for line in scene.lines() if line["at"] == "request"]
    assert lost == [(number, "broker closed") for number in asked]


def test_half_of_an_answer_that_passes_in_pieces_ends_with_its_connection(scene):
    client, broker = scene.connection()
    reply = answer(1, bytes(3 << 20))
    with counted(scene, streamed=1):
        client.send(end_txn(1))
        broker.receive()
        broker.send_meanwhile(reply[: 2 << 20])
        assert client.exactly(2 << 20) == reply[: 2 << 20]
        broker.close()
        assert client.receive() is None
    (lost,) = (line["why"] for line in scene.lines() if line["at"] == "lost")
    assert lost == "broker closed"


def test_rules_that_contradict_each_other_act_in_their_order(scene):
    """They match a message as it came, whatever another has altered in it; after an answer nothing is left to act on."""
    numbers = [
        scene.control.add(rule)
        for rule in (
            {"act": "alter", "api": "EndTxn", "where": {"committed": True}, "set": {"committed": False}, "transactional_id": "x"},
            {"act": "drop", "api": "EndTxn", "where": {"committed": False}},
            {"act": "error", "api": "EndTxn", "code": "PRODUCER_FENCED", "transactional_id": "second"},
            {"act": "cut", "api": "EndTxn", "transactional_id": "second"},
        )
    ]
    client, broker = scene.connection()
    client.send(end_txn(1), end_txn(2, "second"))
    assert broker.receive() == end_txn(1, committed=False)[4:]
    broker.send(answer(1))
    assert client.receive() == answer(1)[4:]
    assert client.receive() == answer(2, struct.pack(">ih", 0, FENCED))[4:]
    states = [[catch["state"] for catch in scene.control.catches(number)] for number in numbers]
    assert states == [["altered"], [], ["answered"], []]


def test_frames_for_which_there_is_no_memory_pass_in_pieces(kafka_classpath, tmp_path):
    """Unread, so that they cannot be held; what others send is read and held as before."""
    frame = request(PRODUCE, 3, 8, bytes(20 << 20))
    with upstream() as brokers, open(tmp_path / "log", "wb") as log:
        settings = Settings(brokers=[Broker(upstream=brokers.address)])
        with ProxyProcess(settings, kafka_classpath, log, heap_mb=48) as proxy:
            rule = proxy.control.add({"act": "hold", "until": "event:go", "api": ["Produce", "EndTxn"]})
            clients = [connected(proxy.address) for _ in range(4)]
            for client in clients:
                client.send_meanwhile(frame)
            arrived = [brokers.accepted() for _ in clients]
            other = connected(proxy.address)
            other.send(end_txn(9))
            proxy.control.wait(rule, len(clients) + 1, PATIENCE_S)
            proxy.control.event("go")
            assert [broker.receive() == frame[4:] for broker in arrived] == [True] * len(clients)
            assert correlation_of(brokers.accepted().receive()) == 9
            status = proxy.control.status()
    assert (status["failures"], status["malformed"]) == (0, 0)
    assert 1 <= status["streamed"] <= len(clients)
    assert not (tmp_path / "log").read_text()


def test_half_of_a_frame_that_passes_in_pieces_ends_with_its_connection(scene):
    """Nobody answers it, so that nobody waits for an answer."""
    client, broker = scene.connection()
    with counted(scene, streamed=1, malformed=1):
        client.send_meanwhile(end_txn(1)[:20].replace(end_txn(1)[:4], struct.pack(">i", HUGE)) + bytes(2 << 20))
        assert len(broker.exactly(20 + (2 << 20))) == 20 + (2 << 20)
        client.close()
        assert broker.receive() is None
    assert [line["why"] for line in scene.lines() if line["at"] == "lost"] == ["client closed"]


def test_a_frame_of_any_size_can_be_dropped(scene):
    scene.control.add({"act": "drop", "api": "Produce", "then": "stall"})
    client, broker = scene.connection()
    client.send(request(PRODUCE, 3, 8, bytes(3 << 20)), end_txn(9))
    assert broker.is_silent()
    assert client.is_silent()


def test_a_request_without_an_answer_is_none_that_is_awaited(scene):
    """Produce with acks = 0."""
    client, broker = scene.connection()
    with counted(scene):
        client.send(request(PRODUCE, 3, 1, struct.pack(">hhii", -1, 0, 5000, 0)), end_txn(2))
        assert [correlation_of(broker.receive()) for _ in range(2)] == [1, 2]
        broker.send(answer(2))
        assert client.receive() == answer(2)[4:]


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize(
    ("version", "before"),
    [(3, b"\xff\xff"), (3, text("x")), (9, b"\0\0"), (9, b"\0\x02x"), (9, b"\0\x82\x01" + b"x" * 129)],
    ids=["no id", "id", "flexible, no id", "flexible, id", "flexible, long id"],
)
def test_only_a_produce_that_wants_an_answer_can_lack_it(scene, version, before, acks):
    client, broker = scene.connection()
    nothing = b"\x01\0" if version == 9 else bytes(4)
    client.send(request(PRODUCE, version, 1, before + struct.pack(">hi", acks, 5000) + nothing))
    assert broker.receive()
    broker.close()
    assert client.receive() is None
    mine = [line["n"] for line in scene.lines() if line["at"] == "request"][-1]
    assert any((line["at"], line.get("n")) == ("lost", mine) for line in scene.lines()) == (acks != 0)


def test_an_answer_to_nothing_passes_and_is_counted(scene):
    client, broker = scene.connection()
    with counted(scene, unasked=1):
        broker.send(answer(77))
        assert client.receive() == answer(77)[4:]


def test_a_login_of_the_oldest_kind_is_bytes_from_its_handshake_on(scene):
    client, broker = scene.connection()
    client.send(request(SASL_HANDSHAKE, 0, 1, text("PLAIN")))
    broker.receive()
    broker.send(answer(1, struct.pack(">hi", 0, 0)))
    client.receive()
    with counted(scene):
        client.send(b"\0\0\0\x03abc")
        assert broker.exactly(7) == b"\0\0\0\x03abc"
        broker.send(b"\0\0\0\0")
        assert client.exactly(4) == b"\0\0\0\0"


def test_what_the_broker_did_not_answer_is_lost_with_its_connection(scene):
    client, broker = scene.connection()
    client.send(end_txn(1))
    broker.receive()
    broker.close()
    assert client.receive() is None
    assert [line.get("why", line.get("by")) for line in scene.lines() if line["at"] in ("lost", "closed")] == [
        "broker",
        "broker closed",
    ]


def test_lists_of_aborted_transactions_are_reversed(scene):
    rule = scene.control.add({"act": "alter", "transform": "reverse-aborted"})
    client, broker = scene.connection()
    client.send(fetch(1))
    broker.receive()
    broker.send(fetched(1, [(7, 1), (8, 2), (9, 3)]))
    assert client.receive() == fetched(1, [(9, 3), (8, 2), (7, 1)])[4:]
    client.send(fetch(2))
    broker.receive()
    broker.send(fetched(2, [(7, 1)]))
    assert client.receive() == fetched(2, [(7, 1)])[4:]
    assert [caught["state"] for caught in scene.control.catches(rule)] == ["altered", "failed"]


def test_an_answer_that_has_no_place_for_an_error_is_left_to_the_broker(scene):
    """Metadata of version 1 has errors of topics alone, and this request asks for none."""
    rule = scene.control.add({"act": "error", "api": "Metadata", "code": "REQUEST_TIMED_OUT"})
    client, broker = scene.connection()
    client.send(request(METADATA, 1, 1, bytes(4)))
    assert broker.receive() == request(METADATA, 1, 1, bytes(4))[4:]
    last = scene.control.rule(rule)["last"]
    assert (last["state"], last["why"]) == ("failed", "no answer to this Metadata of version 1 can have an error")


def test_versions_of_requests_are_lowered(scene):
    rule = scene.control.add({"act": "alter", "transform": "lower-api-versions", "lower": {"EndTxn": 4}})
    client, broker = scene.connection()

    def versions(number, *highest):
        rows = b"".join(struct.pack(">hhh", *row) for row in highest)
        return answer(number, struct.pack(">hi", 0, len(highest)) + rows)

    client.send(request(API_VERSIONS, 0, 1, b""))
    broker.receive()
    broker.send(versions(1, (END_TXN, 0, 5), (FETCH, 4, 18)))
    assert client.receive() == versions(1, (END_TXN, 0, 4), (FETCH, 4, 18))[4:]
    for number, rows, why in (
        (2, [(END_TXN, 0, 4)], "lower: the broker takes EndTxn of versions 0 to 4"),
        (3, [(END_TXN, 5, 5)], "lower: the broker takes EndTxn of versions 5 to 5"),
        (4, [(FETCH, 4, 18)], "lower: the broker takes no EndTxn"),
    ):
        client.send(request(API_VERSIONS, 0, number, b""))
        broker.receive()
        broker.send(versions(number, *rows))
        assert client.receive() == versions(number, *rows)[4:], "it passes as it is"
        assert scene.control.rule(rule)["last"]["why"] == why


def test_a_fetch_is_recorded_for_its_records_or_errors_only(scene):
    client, broker = scene.connection()
    for number, error in ((1, 0), (2, 3)):
        client.send(fetch(number))
        broker.receive()
        broker.send(fetched(number, [], error))
        client.receive()
    request_line, answered = scene.lines()
    assert (request_line["correlation"], request_line["partitions"]) == (2, [{"topic": "t", "partition": 0, "offset": 0}])
    assert answered["error"] == "UNKNOWN_TOPIC_OR_PARTITION"


def test_heads_of_batches_are_recorded_with_produce_and_fetch(scene):
    client, broker = scene.connection()
    client.send(produce(1, (4000, 5)), fetch(2))
    broker.receive()
    broker.receive()
    broker.send(answer(2, fetched(2, [(7, 1)], records=record_batch((4000, 5), b"v"))[8:]))
    assert client.receive() is not None
    sent, _, answered = scene.lines()
    (partition,) = sent["partitions"]
    (batch,) = partition.pop("batches")
    assert partition == {"topic": "t", "partition": 0}
    assert isinstance(batch.pop("crc"), int)
    head = {"producer_id": 4000, "epoch": 5, "first_sequence": 0, "records": 1}
    head |= {"base_offset": 0, "last_offset": 0, "transactional": True}
    settings = {"transactionalId": "x", "acks": -1, "timeoutMs": 5000}
    assert (batch, sent["producer_id"], sent["producer_epoch"], sent["body"]) == (head, 4000, 5, settings)
    (part,) = answered["partitions"]
    assert "producer_id" not in answered
    assert (part["aborted"], part["last_stable_offset"], part["batches"][0]["producer_id"]) == ([[7, 1]], 9, 4000)


MATCHES = [
    ({"topic": "t", "partition": 0}, True),
    ({"topic": ["a", "t?", "?"], "partition": [0, 1]}, True),
    ({"topic": "t", "partition": 1}, False),
    ({"client_id": "c", "node": "n1"}, True),
    ({"client_id": "d", "node": "n*"}, False),
    ({"connection_of": "client"}, True),
    ({"connection_of": "broker"}, False),
    ({"where": {"topics.*.topic": "t", "maxBytes": 1048576, "isolationLevel": [0, 1]}}, True),
    ({"where": {"topics.1.topic": "t"}}, False),
    ({"transactional_id": "*"}, False),
    ({"producer_id": 7}, False),
    ({"api": "F*", "group": "g"}, False),
]


@pytest.mark.parametrize(("match", "expected"), MATCHES, ids=[str(match) for match, _ in MATCHES])
def test_a_message_matches_if_everything_that_is_given_holds(scene, match, expected):
    rule = scene.control.add({"act": "record", **match})
    client, broker = scene.connection()
    client.send(fetch(1))
    broker.receive()
    assert scene.control.rule(rule)["matched"] == expected


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("pay-\U0001f4b6*", "pay-\U0001f4b6-1", True),
        ("pay-\U0001f4b6*", "pay-\U0001f4b5-1", False),
        ("pay-?-1", "pay-\U0001f4b6-1", True),
        ("pay-\U0001f4b6", "pay-\U0001f4b6", True),
        ("*b", "aab-ab", True),
        ("a*b?", "a-b-bc", True),
        ("a*b?", "a-b", False),
        ("**", "", True),
        ("?", "", False),
        ("[a-z]\\*", "[a-z]\\x", True),
        ("*a*a*a*a*a*a*a*a*b", "a" * 200, False),
        ("*a*a*a*a*a*a*a*a*b", "a" * 200 + "b", True),
    ],
)
def test_what_a_text_with_stars_stands_for(scene, pattern, name, expected):
    """Letters of any kind; and no pattern takes the time that would stop a connection."""
    rule = scene.control.add({"act": "record", "transactional_id": pattern})
    client, broker = scene.connection()
    client.send(end_txn(1, name))
    broker.receive()
    assert scene.control.rule(rule)["matched"] == expected


def test_a_replica_is_known_by_its_fetches(scene):
    rule = scene.control.add({"act": "record", "connection_of": "broker", "api": "End*"})
    client, broker = scene.connection()
    client.send(end_txn(1), fetch(2, replica=5), end_txn(3))
    for _ in range(3):
        broker.receive()
    assert [caught["correlation"] for caught in scene.control.catches(rule)] == [3]


@pytest.mark.parametrize(("client_id", "expected"), [("AddPartitionsManager-client-1", [3]), ("some-client", [])])
def test_a_leader_that_verifies_is_known_by_its_client_id(scene, client_id, expected):
    """Clients may send the same version of AddPartitionsToTxn."""
    rule = scene.control.add({"act": "record", "connection_of": "broker", "api": "End*"})
    client, broker = scene.connection()
    client.send(end_txn(1), add_partitions(2, client_id), end_txn(3))
    for _ in range(3):
        broker.receive()
    assert [caught["correlation"] for caught in scene.control.catches(rule)] == expected
    asked = [line for line in scene.lines() if line.get("api") == "AddPartitionsToTxn"]
    assert [line["body"]["transactions"][0]["transactionalId"] for line in asked] == ["x"]


def test_an_answer_matches_by_its_error_and_by_its_request(scene):
    rule = scene.control.add({"act": "record", "on": "answer", "error": "PRODUCER_*", "transactional_id": "x", "producer_id": 7})
    client, broker = scene.connection()
    for number, code in ((1, 90), (2, 48)):
        client.send(end_txn(number))
        broker.receive()
        broker.send(answer(number, struct.pack(">ih", 0, code)))
        client.receive()
    assert [caught["correlation"] for caught in scene.control.catches(rule)] == [1]
