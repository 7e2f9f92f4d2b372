"""What the acts of rules do, byte by byte, on an upstream that is no broker."""

from __future__ import annotations

import struct

import pytest
from support.frames import PATIENCE_S, answer, correlation_of, end_txn

from fencepost.nemesis.support.waiting import poll_until

pytestmark = pytest.mark.cluster  # it needs Kafka's jars, as brokers do
FENCED = 90  # PRODUCER_FENCED


def exchanged(client, broker, number):
    """One EndTxn and its answer."""
    client.send(end_txn(number))
    assert broker.receive() == end_txn(number)[4:]
    broker.send(answer(number))
    assert client.receive() == answer(number)[4:]


def states(scene, number):
    return [caught["state"] for caught in scene.control.catches(number)]


def test_without_rules_every_byte_passes_and_is_recorded(scene):
    client, broker = scene.connection()
    exchanged(client, broker, 1)
    request, answered = scene.lines()
    assert (request["at"], request["api"], request["version"], request["transactional_id"]) == ("request", "EndTxn", 0, "x")
    assert (request["producer_id"], request["producer_epoch"], request["committed"], request["node"]) == (7, 3, True, "n1")
    assert request["body"] == {"transactionalId": "x", "producerId": 7, "producerEpoch": 3, "committed": True}
    assert (answered["error"], answered["n"]) == ("NONE", request["n"])
    assert request["arrived_ns"] <= answered["answered_ns"] <= answered["returned_ns"]


def test_record_only_counts(scene):
    rule = scene.control.add({"act": "record", "api": "EndTxn", "transactional_id": "x*", "where": {"committed": True}})
    client, broker = scene.connection()
    exchanged(client, broker, 1)
    client.send(end_txn(2, "other"), end_txn(3, committed=False))
    assert correlation_of(broker.receive()) == 2
    assert correlation_of(broker.receive()) == 3
    (caught,) = scene.control.wait(rule)
    assert (caught["correlation"], caught["transactional_id"], caught["state"]) == (1, "x", "recorded")
    assert (scene.control.rule(rule)["matched"], scene.control.rule(rule)["acted"]) == (1, 1)


def test_a_lost_answer_was_given_and_the_connection_is_cut(scene):
    rule = scene.control.add({"act": "lose", "api": "EndTxn", "name": "lose end"})
    client, broker = scene.connection()
    client.send(end_txn(1))
    broker.receive()
    broker.send(answer(1))
    assert client.receive() is None
    assert broker.receive() is None, "the broker's side follows"
    assert states(scene, rule) == ["lost"]
    by_kind = {line["at"]: line for line in scene.lines()}
    assert by_kind["answer"]["returned_ns"] is None
    assert by_kind["answer"]["answered_ns"] > by_kind["request"]["arrived_ns"]
    assert by_kind["lost"]["why"] == "cut by rule lose end"
    assert by_kind["closed"]["by"] == "rule"


def test_a_lost_answer_may_leave_the_connection_silent(scene):
    scene.control.add({"act": "lose", "on": "answer", "then": "stall", "times": 1})
    client, broker = scene.connection()
    client.send(end_txn(1), end_txn(2))
    broker.receive()
    broker.send(answer(1))
    assert correlation_of(broker.receive()) == 2, "requests go on"
    broker.send(answer(2))
    assert client.is_silent()


@pytest.mark.parametrize("then", ["cut", "stall"])
def test_a_dropped_request_never_arrives(scene, then):
    rule = scene.control.add({"act": "drop", "api": "EndTxn", "then": then, "name": f"drop {then}"})
    client, broker = scene.connection()
    client.send(end_txn(1))
    (caught,) = scene.control.wait(rule)
    assert caught["state"] == "dropped"
    if then == "cut":
        assert client.receive() is None
        assert broker.receive() is None
    else:
        client.send(end_txn(2))
        assert client.is_silent()
        assert broker.is_silent()

    def lost():
        return [line["why"] for line in scene.lines() if line["at"] == "lost"]

    count = 1 if then == "cut" else 2
    assert poll_until(lost, lambda seen: len(seen) >= count, PATIENCE_S) == [f"rule drop {then}"] * count


def test_an_error_is_answered_in_its_turn(scene):
    """The request before it is still at the broker: answers keep the order of requests."""
    scene.control.add({"act": "error", "code": "PRODUCER_FENCED", "nth": 2})
    client, broker = scene.connection()
    client.send(end_txn(1), end_txn(2), end_txn(3))
    assert [correlation_of(broker.receive()), correlation_of(broker.receive())] == [1, 3]
    assert client.is_silent()
    broker.send(answer(1), answer(3))
    assert [client.receive() for _ in range(3)] == [
        answer(1)[4:],
        answer(2, struct.pack(">ih", 0, FENCED))[4:],
        answer(3)[4:],
    ]
    made = [line for line in scene.lines() if line["at"] == "answer" and line["made_by_proxy"]]
    assert [line["error"] for line in made] == ["PRODUCER_FENCED"]


def test_an_error_in_place_of_an_answer(scene):
    scene.control.add({"act": "error", "on": "answer", "code": "PRODUCER_FENCED"})
    client, broker = scene.connection()
    client.send(end_txn(1))
    broker.receive()
    broker.send(answer(1))
    assert client.receive() == answer(1, struct.pack(">ih", 0, FENCED))[4:]
    assert [line["error"] for line in scene.lines() if line["at"] == "answer"] == ["NONE"], "the broker's answer is recorded"


def test_a_held_request_goes_on_with_its_event_and_so_does_what_is_behind_it(scene):
    rule = scene.control.add({"act": "hold", "until": "event:go", "nth": 1})
    client, broker = scene.connection()
    client.send(end_txn(1), end_txn(2))
    assert scene.control.wait(rule)[0]["state"] == "held"
    assert broker.is_silent()
    assert scene.control.event("other") == 0
    assert scene.control.event("go") == 1
    assert [correlation_of(broker.receive()), correlation_of(broker.receive())] == [1, 2]
    assert (states(scene, rule), scene.control.rule(rule)["last"]["by"]) == (["released"], "event:go")
    assert [line["at"] for line in scene.lines()][:2] == ["request", "forwarded"]


def test_a_held_answer_comes_when_the_rule_is_removed(scene):
    rule = scene.control.add({"act": "hold", "on": "answer", "until": "event:go"})
    client, broker = scene.connection()
    client.send(end_txn(1))
    broker.receive()
    broker.send(answer(1))
    scene.control.wait(rule)
    assert client.is_silent()
    assert scene.control.remove(rule)["acted"] == 1
    assert client.receive() == answer(1)[4:]
    assert [line["at"] for line in scene.lines()] == ["request", "answer", "returned"]


def test_a_message_that_another_rule_holds_is_not_held_by_a_rule_that_was_removed_meanwhile(scene):
    first = scene.control.add({"act": "hold", "until": "event:go"})
    second = scene.control.add({"act": "hold", "until": "event:never"})
    client, broker = scene.connection()
    client.send(end_txn(1))
    scene.control.wait(first)
    assert scene.control.remove(second)["acted"] == 1
    assert scene.control.event("go") == 1
    assert correlation_of(broker.receive()) == 1


def test_a_request_held_until_the_client_has_gone_arrives_then(scene):
    rule = scene.control.add({"act": "hold", "until": "closed"})
    client, broker = scene.connection()
    client.send(end_txn(1))
    scene.control.wait(rule)
    assert broker.is_silent()
    client.close()
    assert correlation_of(broker.receive()) == 1
    broker.send(answer(1))
    assert broker.receive() is None
    by_kind = {line["at"]: line for line in scene.lines()}
    assert by_kind["answer"]["returned_ns"] is None
    assert by_kind["lost"]["why"] == "client closed"


@pytest.mark.parametrize("frames", [3, 30, 200])
def test_a_request_held_until_the_client_has_gone_arrives_however_much_came_behind_it(scene, frames):
    """As of a producer with five requests under way; the end of a connection is seen behind all that came on it."""
    rule = scene.control.add({"act": "hold", "until": "closed", "transactional_id": "x"})
    client, broker = scene.connection()
    client.send(end_txn(1))
    scene.control.wait(rule)
    behind = [end_txn(number, "y" * 30_000) for number in range(2, frames + 2)]
    client.send(*behind)
    client.close()
    assert correlation_of(broker.receive()) == 1
    assert [broker.receive() for _ in behind] == [frame[4:] for frame in behind]
    assert [(caught["state"], caught["by"]) for caught in scene.control.catches(rule)] == [("released", "closed")]


def test_what_comes_behind_held_requests_is_bounded(scene):
    """A client that sends on and on is made to wait, as by a broker that does not read."""
    rule = scene.control.add({"act": "hold", "until": "event:go", "transactional_id": "x"})
    client, broker = scene.connection()
    client.send(end_txn(1))
    scene.control.wait(rule)
    frame, sent, waited = end_txn(2, "y" * 30_000), 0, 0
    client.socket.settimeout(1.0)
    while sent < 64 << 20 and (sent < 8 << 20 or not waited) and waited < PATIENCE_S:
        try:
            sent, waited = sent + client.socket.send(frame[sent % len(frame) :]), 0
        except TimeoutError:  # it is made to wait, or the machine pauses
            waited += 1
    assert 8 << 20 <= sent < 32 << 20
    client.socket.settimeout(PATIENCE_S)
    assert scene.control.event("go") == 1
    assert correlation_of(broker.receive()) == 1
    assert all(broker.receive() == frame[4:] for _ in range(sent // len(frame)))


def test_a_request_held_until_the_next_of_its_transactional_id(scene):
    scene.control.add({"act": "hold", "until": "next:EndTxn", "nth": 1, "transactional_id": "x"})
    client, broker = scene.connection()
    other, other_broker = scene.connection()
    client.send(end_txn(1, "x"))
    other.send(end_txn(2, "y"))
    other_broker.receive()
    assert broker.is_silent(), "that one was of another"
    other.send(end_txn(3, "x"))
    assert correlation_of(broker.receive()) == 1


def test_a_hold_has_a_bound_and_a_delay_ends(scene):
    hold = scene.control.add({"act": "hold", "until": "event:never", "at_most_ms": 1, "transactional_id": "x"})
    delay = scene.control.add({"act": "delay", "delay_ms": 30, "transactional_id": "y"})
    client, broker = scene.connection()
    client.send(end_txn(1, "x"), end_txn(2, "y"))
    assert [correlation_of(broker.receive()), correlation_of(broker.receive())] == [1, 2]
    assert [scene.control.rule(number)["last"]["by"] for number in (hold, delay)] == ["time", "time"]
    caught = scene.control.rule(delay)["last"]
    assert caught["released_ns"] - caught["time_ns"] >= 30_000_000


@pytest.mark.parametrize("then", ["cut", "stall"])
def test_a_late_request_arrives_after_its_client_gave_it_up(scene, then):
    rule = scene.control.add({"act": "late", "until": "event:now", "then": then, "name": f"late {then}"})
    client, broker = scene.connection()
    client.send(end_txn(1))
    scene.control.wait(rule)
    if then == "cut":
        assert client.receive() is None
    else:
        assert client.is_silent()
    assert broker.is_silent()
    assert scene.control.event("now") == 1
    assert correlation_of(broker.receive()) == 1
    broker.send(answer(1))
    client.close()
    assert broker.receive() is None
    assert states(scene, rule) == ["delivered"]
    by_kind = {line["at"]: line for line in scene.lines()}
    assert by_kind["forwarded"]["forwarded_ns"] > by_kind["request"]["arrived_ns"]
    assert (by_kind["answer"]["error"], by_kind["answer"]["returned_ns"]) == ("NONE", None)


def test_a_repeated_request_has_one_answer_for_the_client(scene):
    scene.control.add({"act": "repeat", "count": 2, "nth": 1})
    client, broker = scene.connection()
    client.send(end_txn(1), end_txn(2))
    assert [correlation_of(broker.receive()) for _ in range(4)] == [1, 1, 1, 2]
    broker.send(answer(1), answer(1, struct.pack(">ih", 0, FENCED)), answer(1), answer(2))
    assert [client.receive(), client.receive()] == [answer(1)[4:], answer(2)[4:]]
    answers = [(line["n"], line.get("copy"), line["error"]) for line in scene.lines() if line["at"] == "answer"]
    number = answers[0][0]
    assert answers[:3] == [(number, None, "NONE"), (number, 2, "PRODUCER_FENCED"), (number, 3, "NONE")]


def test_an_altered_request_and_an_altered_answer(scene):
    scene.control.add({"act": "alter", "set": {"committed": False}})
    scene.control.add({"act": "alter", "on": "answer", "set": {"errorCode": FENCED}})
    client, broker = scene.connection()
    client.send(end_txn(1))
    assert broker.receive() == end_txn(1, committed=False)[4:]
    broker.send(answer(1))
    assert client.receive() == answer(1, struct.pack(">ih", 0, FENCED))[4:]


def test_what_cannot_be_altered_passes_and_says_why(scene):
    rule = scene.control.add({"act": "alter", "api": "EndTxn", "on": "answer", "set": {"producerId": 1}})
    client, broker = scene.connection()
    exchanged(client, broker, 1)
    state = scene.control.rule(rule)
    assert (state["last"]["state"], state["last"]["why"]) == ("failed", "set: no field producerId in EndTxn version 0")
    assert (state["acted"], state["failed"]) == (1, 1)
    with pytest.raises(
        TimeoutError, match=r"acted 0 times .* not 1 times; 1 failed: set: no field producerId in EndTxn version 0"
    ):
        scene.control.wait(rule, timeout_s=0.001)


def test_what_changes_nothing_is_no_alteration(scene):
    """EndTxn commits already; a broker's answer has no two aborted transactions; it takes no such versions."""
    rule = scene.control.add({"act": "alter", "api": "EndTxn", "set": {"committed": True}})
    client, broker = scene.connection()
    exchanged(client, broker, 1)
    last = scene.control.rule(rule)["last"]
    assert (last["state"], last["why"]) == ("failed", "set: it has these values already")


@pytest.mark.parametrize("on", ["request", "answer"])
def test_cut_closes_both_sides_before_the_message(scene, on):
    scene.control.add({"act": "cut", "on": on})
    client, broker = scene.connection()
    client.send(end_txn(1))
    if on == "answer":
        broker.receive()
        broker.send(answer(1))
    assert client.receive() is None
    assert broker.receive() is None


def test_a_throttled_connection_delivers_everything(scene):
    rule = scene.control.add({"act": "throttle", "bytes_s": 2000})
    client, broker = scene.connection()
    exchanged(client, broker, 1)
    assert states(scene, rule) == ["throttled"]


def test_times_and_nth(scene):
    twice = scene.control.add({"act": "record", "times": 2})
    third = scene.control.add({"act": "record", "nth": 3})
    client, broker = scene.connection()
    for number in range(1, 5):
        exchanged(client, broker, number)
    assert [caught["correlation"] for caught in scene.control.catches(twice)] == [1, 2]
    assert [caught["correlation"] for caught in scene.control.catches(third)] == [3]
    assert scene.control.rule(twice)["matched"] == 4
