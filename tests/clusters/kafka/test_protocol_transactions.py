"""The raw requests about transactions, against a fake broker that speaks in literal bytes."""

from __future__ import annotations

import struct

import pytest
from support.fake_broker import broker, ints, text

from fencepost.clusters.kafka import protocol_transactions
from fencepost.clusters.kafka import transaction_admin as admin_module
from fencepost.clusters.kafka.protocol_transactions import RefusedError
from fencepost.clusters.kafka.roles import WireRoles
from fencepost.clusters.kafka.transaction_admin import TransactionAdmin
from fencepost.harness.api import ActiveProducer, ClusterError

HEAD = text("fencepost")


def compact(value):
    return bytes([len(value) + 1]) + value.encode()


def test_a_producer_is_fenced_by_another_with_its_id():
    """Version 1 of key 22: the transactional id, and a transaction timeout."""
    with broker(struct.pack(">ihqh", 0, 0, 1000, 7)) as (address, heard):
        assert protocol_transactions.init_producer(address, "id", 6000) == (1000, 7)
    assert heard == [struct.pack(">hhi", 22, 1, 1) + HEAD + text("id") + ints(6000)]


def test_a_refusal_has_its_code():
    with (
        broker(struct.pack(">ihqh", 0, 51, -1, -1)) as (address, _),
        pytest.raises(RefusedError, match="51 CONCURRENT") as refused,
    ):
        protocol_transactions.init_producer(address, "id", 6000)
    assert refused.value.code == 51


def test_a_transaction_is_ended_for_its_producer():
    """Version 1 of key 26: id, producer id, epoch, and that it is committed."""
    with broker(struct.pack(">ih", 0, 0)) as (address, heard):
        protocol_transactions.end_transaction(address, "id", (1000, 7), commit=True)
    assert heard == [struct.pack(">hhi", 26, 1, 1) + HEAD + text("id") + struct.pack(">qh?", 1000, 7, True)]


def described(error):
    partitions = b"\x02" + compact("t") + b"\x03" + ints(0, 2) + b"\x00"
    state = struct.pack(">iqqh", 6000, 123, 1000, 7)
    return (
        b"\x00"
        + ints(0)
        + b"\x02"
        + struct.pack(">h", error)
        + compact("id")
        + compact("Ongoing")
        + state
        + partitions
        + b"\x00\x00"
    )


def test_coordinators_tell_what_they_know_of_an_id():
    with broker(described(0)) as (address, heard):
        (state,) = protocol_transactions.describe_transactions(address, ["id"]).values()
    assert heard == [struct.pack(">hhi", 65, 0, 1) + HEAD + b"\x00" + b"\x02" + compact("id") + b"\x00"]
    assert (state.state, state.producer_id, state.epoch, state.started_ms) == ("Ongoing", 1000, 7, 123)
    assert state.partitions == ("t-0", "t-2")


def test_an_id_that_was_never_initialised_is_left_out():
    """TRANSACTIONAL_ID_NOT_FOUND is 105."""
    with broker(described(105)) as (address, _):
        assert protocol_transactions.describe_transactions(address, ["id"]) == {}


def test_leaders_tell_of_producers_and_where_their_open_transactions_begin():
    rows = b"".join(
        struct.pack(">qiiqiq", 1000, 7, 3, 55, coordinator, start) + b"\x00" for coordinator, start in ((2, 40), (-1, -1))
    )
    partition = b"\x02" + ints(1) + struct.pack(">h", 0) + b"\x00" + b"\x03" + rows + b"\x00"
    with broker(b"\x00" + ints(0) + b"\x02" + compact("t") + partition + b"\x00\x00") as (address, heard):
        producers = protocol_transactions.describe_producers(address, "t", 1)
    assert heard == [struct.pack(">hhi", 61, 0, 1) + HEAD + b"\x00" + b"\x02" + compact("t") + b"\x02" + ints(1) + b"\x00\x00"]
    assert [
        (producer.producer_id, producer.epoch, producer.coordinator_epoch, producer.first_offset) for producer in producers
    ] == [
        (1000, 7, 2, 40),
        (1000, 7, -1, None),
    ]


def test_an_abort_marker_names_the_producer_and_no_coordinator_epoch_below_zero():
    """Version 1 of key 27; INVALID_PRODUCER_EPOCH is 47."""
    producer = ActiveProducer(producer_id=1000, epoch=7, first_offset=40)

    def reply(error):
        errors = b"\x02" + ints(1) + struct.pack(">h", error) + b"\x00"
        return b"\x00" + b"\x02" + struct.pack(">q", 1000) + b"\x02" + compact("t") + errors + b"\x00\x00\x00"

    with broker(reply(0)) as (address, heard):
        protocol_transactions.write_abort_marker(address, "t", 1, producer)
    topic = compact("t") + b"\x02" + ints(1) + b"\x00"
    body = b"\x02" + struct.pack(">qh?", 1000, 7, False) + b"\x02" + topic + ints(0) + b"\x00\x00"
    assert heard == [struct.pack(">hhi", 27, 1, 1) + HEAD + b"\x00" + body]
    with broker(reply(47)) as (address, _), pytest.raises(RefusedError, match="t-1 for producer id 1000: error 47"):
        protocol_transactions.write_abort_marker(address, "t", 1, producer)


class Roles(WireRoles):
    def transaction_coordinator(self, transactional_id):
        return "n1"


def admin(address):
    made = TransactionAdmin()
    made._roles = Roles({1: "n1"}, {"n1": address}, {})
    return made


def test_a_busy_coordinator_is_retried_until_the_time_is_over_and_one_that_refuses_is_not(monkeypatch):
    answers = [RefusedError("busy", 51), RefusedError("moving", 16), (1000, 8)]
    monkeypatch.setattr(admin_module, "_PAUSE_S", 0.0)

    def init_producer(*_):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(protocol_transactions, "init_producer", init_producer)
    assert admin(("127.0.0.1", 1)).fence_producer("id") == (1000, 8)
    answers += [RefusedError("no", 53), (1000, 9)]
    with pytest.raises(ClusterError, match="no: error 53"):
        admin(("127.0.0.1", 1)).fence_producer("id")
    assert len(answers) == 1


def test_silence_is_an_error_and_no_request_is_repeated():
    with broker(None) as (address, heard), pytest.raises(ClusterError, match="no answer about a transaction"):
        admin(address).fence_producer("id")
    assert len(heard) == 1


def test_a_coordinator_lists_its_ids_with_their_states():
    row = compact("id") + struct.pack(">q", 7) + compact("Ongoing") + b"\x00"
    with broker(b"\x00" + ints(0) + struct.pack(">h", 0) + b"\x01" + b"\x02" + row + b"\x00") as (address, heard):
        assert protocol_transactions.list_transactions(address) == {"id": ("Ongoing", 7)}
    assert heard == [struct.pack(">hhi", 66, 0, 1) + HEAD + b"\x00" + b"\x01\x01\x00"]


def test_one_that_still_loads_some_ids_lists_none():
    """COORDINATOR_LOAD_IN_PROGRESS is error 14."""
    with broker(b"\x00" + ints(0) + struct.pack(">h", 14) + b"\x01\x01\x00") as (address, _):
        with pytest.raises(RefusedError, match="14 COORDINATOR_LOAD"):
            protocol_transactions.list_transactions(address)


def test_of_many_partitions_each_has_its_own_error():
    """NOT_LEADER_OR_FOLLOWER is error 6."""
    led = ints(0) + struct.pack(">h", 0) + b"\x00" + b"\x02" + struct.pack(">qiiqiq", 7, 3, 11, 0, 0, 42) + b"\x00" + b"\x00"
    elsewhere = ints(1) + struct.pack(">h", 6) + b"\x00" + b"\x01" + b"\x00"
    reply = b"\x00" + ints(0) + b"\x02" + compact("t") + b"\x03" + led + elsewhere + b"\x00\x00"
    with broker(reply) as (address, heard):
        answers = protocol_transactions.producers_of(address, [("t", 0), ("t", 1)], 1.0)
    assert {name: (error, [producer.first_offset for producer in some]) for name, (error, some) in answers.items()} == {
        "t-0": (0, [42]),
        "t-1": (6, []),
    }
    assert heard[0].endswith(compact("t") + b"\x03" + ints(0, 1) + b"\x00\x00")
