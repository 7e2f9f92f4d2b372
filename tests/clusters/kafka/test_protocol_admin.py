"""The raw requests that change a cluster, against a fake broker that speaks in literal bytes."""

import struct

import pytest
from support.fake_broker import broker, ints, text

from fencepost.clusters.kafka import protocol, protocol_admin


def compact(value):
    return bytes([len(value) + 1]) + value.encode()


HEAD = text("fencepost")


def test_replicas_are_reassigned_topic_by_topic():
    """Flexible version 0 of key 45: two partitions of one topic, the new replicas in order."""
    with broker(b"\x00" + ints(0) + b"\x00\x00\x00\x01\x00") as (address, heard):
        protocol_admin.reassign(address, {("t", 0): [3, 1], ("t", 2): [2, 3]})
    zero = ints(0) + b"\x03" + ints(3, 1) + b"\x00"
    two = ints(2) + b"\x03" + ints(2, 3) + b"\x00"
    body = ints(5000) + b"\x02" + compact("t") + b"\x03" + zero + two + b"\x00" + b"\x00"
    assert heard == [struct.pack(">hhi", 45, 0, 1) + HEAD + b"\x00" + body]


def test_a_refused_reassignment_is_an_error_with_the_partition():
    """No error above, INVALID_REPLICA_ASSIGNMENT (39) of one partition below."""
    row = ints(1) + struct.pack(">h", 39) + compact("no such broker") + b"\x00"
    reply = b"\x00" + ints(0) + b"\x00\x00\x00" + b"\x02" + compact("t") + b"\x02" + row + b"\x00" + b"\x00"
    with broker(reply) as (address, _), pytest.raises(protocol.WireError, match="t-1: error 39 no such broker"):
        protocol_admin.reassign(address, {("t", 1): [9]})


def election(*rows):
    results = b"".join(ints(number) + struct.pack(">h", error) + text("why") for number, error in rows)
    return ints(0) + struct.pack(">h", 0) + ints(1) + text("t") + ints(len(rows)) + results


def test_electing_the_present_leader_is_no_error():
    """ELECTION_NOT_NEEDED is 84; the kind of election, preferred, is 0."""
    with broker(election((0, 0), (2, 84))) as (address, heard):
        protocol_admin.elect_preferred(address, [("t", 0), ("t", 2)])
    assert heard == [struct.pack(">hhi", 43, 1, 1) + HEAD + b"\x00" + ints(1) + text("t") + ints(2, 0, 2) + ints(5000)]


def test_a_failed_election_is_an_error_with_the_partition():
    """PREFERRED_LEADER_NOT_AVAILABLE is 80."""
    with broker(election((2, 80))) as (address, _), pytest.raises(protocol.WireError, match="t-2: error 80 why"):
        protocol_admin.elect_preferred(address, [("t", 2)])


def setting(name, value, source):
    return text(name) + value + struct.pack(">?b?", False, source, False) + ints(0)


def test_topic_settings_are_without_inherited_ones():
    """Source 1 is the topic itself, 5 a default; a value may be null."""
    rows = setting("flush.ms", text("3"), 1) + setting("segment.ms", text("9"), 5) + setting("x", struct.pack(">h", -1), 5)
    reply = ints(0, 1) + struct.pack(">hh", 0, -1) + b"\x02" + text("t") + ints(3) + rows
    with broker(reply) as (address, heard):
        assert protocol_admin.topic_settings(address, "t") == {"flush.ms": "3"}
    assert heard == [struct.pack(">hhi", 32, 1, 1) + HEAD + ints(1) + b"\x02" + text("t") + ints(-1) + b"\x00"]


def test_topic_settings_are_set_and_deleted():
    """Operation 0 sets, 1 deletes (with a null value)."""
    with broker(ints(0, 1) + struct.pack(">hh", 0, -1) + b"\x02" + text("t")) as (address, heard):
        protocol_admin.set_topic_settings(address, "t", {"flush.ms": "3", "segment.ms": None})
    changes = text("flush.ms") + b"\x00" + text("3") + text("segment.ms") + b"\x01" + struct.pack(">h", -1)
    assert heard == [struct.pack(">hhi", 44, 0, 1) + HEAD + ints(1) + b"\x02" + text("t") + ints(2) + changes + b"\x00"]


def test_a_refused_setting_is_an_error_with_the_reason():
    """INVALID_CONFIG is 40."""
    reply = ints(0, 1) + struct.pack(">h", 40) + text("unknown") + b"\x02" + text("t")
    with broker(reply) as (address, _), pytest.raises(protocol.WireError, match=r"flush\.m = 3 refused: error 40 unknown"):
        protocol_admin.set_topic_settings(address, "t", {"flush.m": "3"})


def test_a_broker_is_unregistered():
    """Flexible version 0 of key 64; BROKER_ID_NOT_REGISTERED is 102."""
    with broker(b"\x00" + ints(0) + b"\x00\x00\x00\x00") as (address, heard):
        protocol_admin.unregister(address, 2)
    assert heard == [struct.pack(">hhi", 64, 0, 1) + HEAD + b"\x00" + ints(2) + b"\x00"]
    with broker(b"\x00" + ints(0) + struct.pack(">h", 102) + b"\x00\x00") as (address, _):
        with pytest.raises(protocol.WireError, match="broker 2 not unregistered: error 102"):
            protocol_admin.unregister(address, 2)


KNOWN, FINALIZED = 0, 2  # tags


def feature(name, first, second):
    return compact(name) + struct.pack(">hh", first, second) + b"\x00"


def versions(*finalized):
    """A reply to ApiVersions 3, with a known feature and these finalized ones; its header has no tags."""
    known = b"\x02" + feature("transaction.version", 0, 2)
    levels = bytes([len(finalized) + 1]) + b"".join(feature(name, level, level) for name, level in finalized)
    tagged = [bytes([tag, len(body)]) + body for tag, body in ((KNOWN, known), (FINALIZED, levels))]
    return struct.pack(">h", 0) + b"\x02" + struct.pack(">hhh", 18, 0, 4) + b"\x00" + ints(0) + b"\x02" + b"".join(tagged)


def test_features_have_the_level_that_the_cluster_uses():
    """One that is known and not finalized is at 0."""
    with broker(versions(("transaction.version", 2), ("group.version", 1))) as (address, heard):
        assert protocol.features(address) == {"transaction.version": 2, "group.version": 1}
    assert heard == [struct.pack(">hhi", 18, 3, 1) + HEAD + b"\x00" + compact("fencepost") + compact("1") + b"\x00"]
    with broker(versions()) as (address, _):
        assert protocol.features(address) == {"transaction.version": 0}


def test_a_broker_without_features_has_none():
    with broker(struct.pack(">h", 0) + b"\x01" + ints(0) + b"\x00") as (address, _):
        assert protocol.features(address) == {}


@pytest.mark.parametrize(("level", "kind"), [(2, 1), (0, 3)], ids=["raised", "lowered"])
def test_a_feature_is_raised_or_lowered(level, kind, monkeypatch):
    """Flexible version 1 of key 57; the kind of update says which."""
    monkeypatch.setattr(protocol, "features", lambda address, timeout_s: {"transaction.version": 1})
    row = compact("transaction.version") + struct.pack(">h", 0) + b"\x00\x00"
    with broker(b"\x00" + ints(0) + b"\x00\x00\x00" + b"\x02" + row + b"\x00") as (address, heard):
        protocol_admin.set_feature(address, "transaction.version", level)
    update = compact("transaction.version") + struct.pack(">hb", level, kind) + b"\x00"
    assert heard == [struct.pack(">hhi", 57, 1, 1) + HEAD + b"\x00" + ints(5000) + b"\x02" + update + b"\x00\x00"]


def test_a_refused_level_is_an_error_with_the_reason(monkeypatch):
    """INVALID_UPDATE_VERSION is 95."""
    monkeypatch.setattr(protocol, "features", lambda address, timeout_s: {})
    row = compact("x") + struct.pack(">h", 95) + compact("unknown") + b"\x00"
    with broker(b"\x00" + ints(0) + b"\x00\x00\x00" + b"\x02" + row + b"\x00") as (address, _):
        with pytest.raises(protocol.WireError, match="x = 3 refused: error 95 unknown"):
            protocol_admin.set_feature(address, "x", 3)


def test_long_names_have_a_length_of_two_bytes():
    """127 characters are 128 with the one that marks null: the first length that does not fit into seven bits."""
    assert protocol.compact("x" * 126)[:1] == b"\x7f"
    assert protocol.compact("x" * 127)[:2] == b"\x80\x01"
