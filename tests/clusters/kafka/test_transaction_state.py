"""Records of `__transaction_state`, as the protocol lays them out: fixed lengths (version 0) and compact ones (version 1)."""

import struct

import pytest

from fencepost.clusters.kafka.transaction_state import state_record

KEY = struct.pack(">hh", 0, 2) + b"id"
HEAD, TIMES = (7000, 3, 60000), (1100, 1000)


def fixed(state, topics):
    body = struct.pack(">hqhibi", 0, *HEAD, state, len(topics))
    for topic, numbers in topics:
        body += struct.pack(f">h{len(topic)}si{len(numbers)}i", len(topic), topic, len(numbers), *numbers)
    return body + struct.pack(">qq", *TIMES)


def compact(state, topics, tags=()):
    body = struct.pack(">hqhib", 1, *HEAD, state) + bytes([len(topics) + 1])
    for topic, numbers in topics:
        body += bytes([len(topic) + 1]) + topic + bytes([len(numbers) + 1]) + struct.pack(f">{len(numbers)}i", *numbers) + b"\x00"
    body += struct.pack(">qq", *TIMES) + bytes([len(tags)])
    return body + b"".join(bytes([tag, len(content)]) + content for tag, content in tags)


@pytest.mark.parametrize("layout", [fixed, compact])
def test_a_state_names_the_id_the_producer_and_the_partitions(layout):
    kind, state = state_record(KEY, layout(1, [(b"t", [0, 3]), (b"other", [1])]))
    assert kind == "Ongoing"
    assert state == ["id", 7000, 3, -1, -1, 60000, 1000, 1100, 0, ["t-0", "t-3", "other-1"]]


def test_tagged_fields_name_the_other_producer_ids_and_the_protocol():
    tags = [(0, struct.pack(">q", 5)), (1, struct.pack(">q", 6)), (2, struct.pack(">h", 2)), (9, b"new")]
    assert state_record(KEY, compact(4, [], tags)) == ("CompleteCommit", ["id", 7000, 3, 5, 6, 60000, 1000, 1100, 2, []])


def test_a_record_without_a_value_removes_the_id():
    assert state_record(KEY, None) == ("removed", ["id", *[-1] * 8, []])


@pytest.mark.parametrize("value", [b"", fixed(1, [(b"t", [0])])[:30], fixed(9, []), b"\x00\x07" + fixed(1, [])[2:]])
def test_what_cannot_be_read_is_another_record(value):
    assert state_record(KEY, value) == ("control", None)
    assert state_record(b"\x00\x05ab", fixed(1, [])) == ("control", None)


def test_no_length_that_a_damaged_record_names_is_believed():
    value = struct.pack(">hqhibi", 0, *HEAD, 1, 1 << 30)
    assert state_record(KEY, value) == ("control", None)
