"""What a broker's log segments hold, read from bytes laid out as the protocol says (KIP-98, record batches of version 2)."""

import struct

import pytest

from clusters.kafka.log_segments import segment_rows, stored_records


def zigzag(number):
    number, found = (number << 1) ^ (number >> 63), b""
    while number >= 0x80:
        found, number = found + bytes([number & 0x7F | 0x80]), number >> 7
    return found + bytes([number])


def field(data):
    return zigzag(-1) if data is None else zigzag(len(data)) + data


def record(number, value, key=b"k"):
    body = b"\x00" + zigzag(3 * number) + zigzag(number) + field(key) + field(value) + zigzag(0)
    return zigzag(len(body)) + body


def batch(offset, values, producer=7, epoch=2, sequence=0, attributes=0, keys=None, payload=None):
    keys = keys or [b"k"] * len(values)
    records = b"".join(record(number, value, key) for number, (value, key) in enumerate(zip(values, keys, strict=True)))
    body = struct.pack(">hiqqqhii", attributes, len(values) - 1, 1000, 1000, producer, epoch, sequence, len(values))
    body += records if payload is None else payload
    head = struct.pack(">ibI", 5, 2, 0)
    return struct.pack(">qi", offset, len(head) + len(body)) + head + body


def marker(offset, kind):
    return batch(offset, [b"\x00\x00\x00\x00\x00\x00"], sequence=-1, attributes=0b110000, keys=[struct.pack(">hh", 0, kind)])


def test_each_record_has_its_offset_producer_sequence_time_and_value():
    rows = list(segment_rows(batch(10, [b"a", None], sequence=40)))
    assert rows == [[10, 5, 7, 2, 40, 1000, "record", "a"], [11, 5, 7, 2, 41, 1003, "record", None]]


def test_sequence_numbers_begin_anew_after_the_highest():
    assert [row[4] for row in segment_rows(batch(0, [b"a", b"b"], sequence=(1 << 31) - 1))] == [(1 << 31) - 1, 0]


def test_control_records_are_named():
    rows = list(segment_rows(marker(4, 0) + marker(5, 1) + marker(6, 9)))
    assert [(row[0], row[4], row[6]) for row in rows] == [(4, -1, "ABORT"), (5, -1, "COMMIT"), (6, -1, "control")]


@pytest.mark.parametrize(("codec", "name"), [(1, "gzip batch"), (4, "zstd batch"), (6, "codec 6 batch")])
def test_a_compressed_batch_is_named_by_its_head(codec, name):
    rows = list(segment_rows(batch(3, [b"a", b"b"], sequence=8, attributes=codec, payload=b"\x1f\x8b?") + batch(5, [b"c"])))
    assert [(row[0], row[4], row[6]) for row in rows] == [(3, 8, name), (5, 0, "record")]


def test_a_batch_that_is_cut_off_ends_the_reading():
    whole = batch(0, [b"a"])
    for length in range(len(whole), 2 * len(whole)):
        assert [row[0] for row in segment_rows((whole + batch(1, [b"b"]))[:length])] == [0]
    assert list(segment_rows(whole[:16] + b"\x01" + whole[17:])) == [], "a batch of version 1"


def test_the_segments_of_every_partition_are_read_but_not_kafkas_own(tmp_path):
    for name, offset in (("t-0", 0), ("t-1", 0), ("t-1", 5), ("__transaction_state-0", 0), ("t.old", 0)):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / f"{offset:020}.log").write_bytes(batch(offset, [name.encode()]))
    rows, reason = stored_records(tmp_path)
    assert ([row[:2] for row in rows], reason) == ([["t-0", 0], ["t-1", 0], ["t-1", 5]], "")


def test_more_than_can_be_read_in_a_moment_is_left_and_said(tmp_path, monkeypatch):
    monkeypatch.setattr("clusters.kafka.log_segments.MOST_BYTES", 10)
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "0.log").write_bytes(batch(0, [b"a"]))
    assert stored_records(tmp_path) == ([], "its log segments have 0 MB, more than 0 MB")
