"""The raw requests against a fake broker that speaks in literal bytes."""

import socket
import struct
import threading
import time
from contextlib import suppress

import pytest
from support.fake_broker import broker, ints, text

from fencepost.clusters.kafka import protocol


def test_a_broker_that_replies_without_error_answers():
    """ApiVersions version 0 is key 18 with an empty body."""
    with broker(struct.pack(">h", 0) + ints(0)) as (address, heard):
        assert protocol.answers(address, 60.0)
    assert heard == [struct.pack(">hhi", 18, 0, 1) + text("fencepost")]


def test_a_closed_port_and_a_silent_port_do_not_answer():
    """A closed port, and a connection that is closed without a word."""
    assert not protocol.answers(("127.0.0.1", 1))
    with broker(None) as (address, _):
        assert not protocol.answers(address)


def test_a_frozen_broker_does_not_answer():
    """The kernel accepts connections for a stopped process, which never replies."""
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        assert not protocol.answers(frozen.getsockname(), timeout_s=0.05)


def test_an_answer_that_comes_after_a_pause_of_this_machine_is_read(monkeypatch):
    """The pause has taken all the time; the broker, which it has stopped as well, is given a moment."""
    monkeypatch.setattr(protocol, "_MOMENT_S", 60.0)
    here, there = socket.socketpair()

    def answer():
        there.recv(100)
        time.sleep(0.05)
        there.sendall(struct.pack(">iih", 6, 1, 0))

    with here, there:
        broker = threading.Thread(target=answer)
        broker.start()
        assert protocol.exchange(here, 18, 0, b"", deadline=time.monotonic() - 1.0).number(">h") == 0
        broker.join()


def test_an_answer_that_comes_byte_by_byte_is_not_waited_for_beyond_its_time():
    here, there = socket.socketpair()

    def answer():
        there.sendall(struct.pack(">i", 1000))
        with suppress(OSError):  # nobody reads on
            for _ in range(1000):
                there.sendall(b"\0")
                time.sleep(0.02)

    broker = threading.Thread(target=answer)
    with there:
        with here:
            broker.start()
            with pytest.raises(TimeoutError):
                protocol.exchange(here, 18, 0, b"", deadline=time.monotonic())
        broker.join()


def test_metadata_has_brokers_and_partitions():
    """Two brokers; one topic with one partition led by 2 in epoch 7, of which 1 is out of sync."""
    brokers = ints(2) + b"".join(ints(i) + text("h") + ints(9092) + struct.pack(">h", -1) for i in (1, 2))
    partition = struct.pack(">h", 0) + ints(0, 2, 7) + ints(2, 1, 2) + ints(1, 2) + ints(0)
    topic = struct.pack(">h", 0) + text("t") + b"\x00" + ints(1) + partition
    with broker(ints(0) + brokers + text("cluster") + ints(1) + ints(1) + topic) as (address, _):
        seen = protocol.metadata(address)
    assert seen.brokers == (1, 2)
    assert seen.partitions == (protocol.Partition("t", 0, 2, 7, (1, 2), (2,), 0),)


def test_a_broker_has_ids_of_the_topics_it_knows():
    """Metadata version 10 is flexible; UNKNOWN_TOPIC_OR_PARTITION is error 3. A topic asked for has no id in the request."""

    def topic(error, name, number, *partitions):
        rows = bytes([len(partitions) + 1]) + b"".join(partitions)
        return struct.pack(">h", error) + compact(name) + bytes([number] * 16) + b"\x00" + rows + ints(0) + b"\x00"

    partition = struct.pack(">h", 0) + ints(0, 2, 7) + b"\x03" + ints(1, 2) + b"\x02" + ints(2) + b"\x01" + b"\x00"
    brokers = b"\x02" + ints(1) + compact("h") + ints(9092) + b"\x00" + b"\x00"
    topics = b"\x03" + topic(0, "t", 7, partition) + topic(3, "u", 0)
    with broker(b"\x00" + ints(0) + brokers + compact("c") + ints(1) + topics + ints(0) + b"\x00") as (address, heard):
        assert protocol.topic_ids(address, ["t", "u"]) == {"t": "07070707-0707-0707-0707-070707070707"}
    named = b"".join(bytes(16) + compact(name) + b"\x00" for name in ("t", "u"))
    assert heard == [struct.pack(">hhi", 3, 10, 1) + text("fencepost") + b"\x00" + b"\x03" + named + b"\x00\x00\x00" + b"\x00"]


def compact(value):
    return bytes([len(value) + 1]) + value.encode()


def test_offsets_of_partitions_led_elsewhere_are_left_out():
    """NOT_LEADER_OR_FOLLOWER is error 6; the isolation level is the byte after the replica id."""
    rows = [(0, 0, -1, 17), (1, 6, -1, -1)]
    topics = b"".join(text("t") + ints(1) + struct.pack(">ihqq", *row) for row in rows)
    partitions = [protocol.Partition("t", n, 1, 0, (1,), (1,), 0) for n in (0, 1)]
    with broker(ints(0, 2) + topics) as (address, heard):
        assert protocol.list_offsets(address, partitions, when=protocol.LATEST, committed=True) == {"t-0": 17}
    assert heard[0].endswith(ints(-1) + b"\x01" + ints(2) + b"".join(text("t") + struct.pack(">iiq", 1, n, -1) for n in (0, 1)))


def quorum(error):
    partition = b"\x02" + struct.pack(">ihii", 0, error, 3, 12)
    return b"\x00" + struct.pack(">h", 0) + b"\x02\x13" + b"__cluster_metadata" + partition


def test_the_quorum_leader_returns_its_id_and_epoch():
    """DescribeQuorum answered without error: (leader, epoch)."""
    with broker(quorum(0)) as (address, _):
        assert protocol.quorum_leader(address) == (3, 12)


def test_a_quorum_follower_returns_no_leader():
    """NOT_LEADER_OR_FOLLOWER is error 6."""
    with broker(quorum(6)) as (address, _):
        assert protocol.quorum_leader(address) is None


def test_a_truncated_reply_raises_a_wire_error():
    """Half a reply must not be read as something else."""
    with broker(ints(0, 5)) as (address, _), pytest.raises(protocol.WireError, match="too short"):
        protocol.metadata(address)


def test_a_missing_coordinator_raises_a_wire_error_with_the_reason():
    """COORDINATOR_NOT_AVAILABLE is error 15."""
    with broker(ints(0) + struct.pack(">h", 15) + text("wait")) as (address, _):
        with pytest.raises(protocol.WireError, match="error 15 wait"):
            protocol.find_coordinator(address, protocol.TRANSACTION, "id")
