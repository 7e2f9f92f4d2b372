"""Records in a broker's log segments, read from bytes laid out as the protocol says (KIP-98, record batches of version 2)."""

import gzip

import pytest
from support.record_batches import batch, marker, record

from fencepost.clusters.kafka.log_segments import (
    batch_records,
    batches,
    is_transactional,
    last_offset,
    segment_rows,
    stored_records,
)


def test_each_record_has_its_offset_producer_sequence_time_and_value():
    rows = list(segment_rows(batch(10, [b"a", None], sequence=40)))
    of_batch = [10, 11, 40, 0, False, -1, None]
    assert rows == [[10, 5, 7, 2, 40, 1000, "record", "a", *of_batch], [11, 5, 7, 2, 41, 1003, "record", None, *of_batch]]


def test_a_marker_names_its_coordinators_epoch_and_a_batch_that_compaction_emptied_is_a_row():
    content = marker(4, 1, coordinator=3) + batch(5, [b"a", b"b"], sequence=8, attributes=0b10000, payload=b"", count=0)
    assert [(row[0], row[6], *row[8:14]) for row in segment_rows(content)] == [
        (4, "COMMIT", 4, 4, -1, 0, True, 3),
        (5, "empty batch", 5, 6, 8, 0, True, -1),
    ]


def test_sequence_numbers_begin_anew_after_the_highest():
    assert [row[4] for row in segment_rows(batch(0, [b"a", b"b"], sequence=(1 << 31) - 1))] == [(1 << 31) - 1, 0]


def test_what_compaction_leaves_of_a_batch_keeps_its_sequence_numbers():
    """The head keeps the batch's first offset and first sequence number; a record's are that far from them."""
    payload = record(1, b"b") + record(3, b"d")
    rows = list(segment_rows(batch(10, [b"a", b"b", b"c", b"d"], sequence=7, payload=payload, count=2)))
    assert [(row[0], row[4], row[7]) for row in rows] == [(11, 8, "b"), (13, 10, "d")]


def test_control_records_are_named():
    rows = list(segment_rows(marker(4, 0) + marker(5, 1) + marker(6, 9)))
    assert [(row[0], row[4], row[6]) for row in rows] == [(4, -1, "ABORT"), (5, -1, "COMMIT"), (6, -1, "control")]


@pytest.mark.parametrize(("codec", "name"), [(1, "gzip batch"), (4, "zstd batch"), (6, "codec 6 batch")])
def test_a_compressed_batch_is_named_by_its_head(codec, name):
    rows = list(segment_rows(batch(3, [b"a", b"b"], sequence=8, attributes=codec, payload=b"\x1f\x8b?") + batch(5, [b"c"])))
    assert [(row[0], row[4], row[6]) for row in rows] == [(3, 8, name), (5, 0, "record")]


def test_a_batch_whose_records_are_damaged_is_a_row():
    content = batch(0, [b"a", b"b"], payload=b"\xff\xff") + batch(2, [b"c"])
    assert [(row[0], row[6]) for row in segment_rows(content)] == [(0, "damaged batch"), (2, "record")]


def test_a_batch_that_is_cut_off_ends_the_reading():
    whole = batch(0, [b"a"])
    for length in range(len(whole), 2 * len(whole)):
        assert [row[0] for row in segment_rows((whole + batch(1, [b"b"]))[:length])] == [0]
    assert list(segment_rows(whole[:16] + b"\x01" + whole[17:])) == [], "a batch of version 1"


def test_the_segments_of_every_partition_are_read_but_of_kafkas_own_only_the_coordinators(tmp_path):
    own = (("__transaction_state-0", 0), ("__consumer_offsets-0", 0))
    for name, offset in (("t-0", 0), ("t-1", 0), ("t-1", 5), *own, ("t.old", 0)):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / f"{offset:020}.log").write_bytes(batch(offset, [name.encode()]))
    (tmp_path / "replication-offset-checkpoint").write_text("0\n2\nt 0 1\nt 1 6\n")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 1 2\n")
    rows, reason = stored_records(tmp_path)
    assert [(row[0], row[1], row[7]) for row in rows] == [
        ("__transaction_state-0", 0, "log"),
        ("__transaction_state-0", 0, "control"),
        ("t-0", 0, "log"),
        ("t-0", 0, "record"),
        ("t-1", 2, "log"),
        ("t-1", 0, "record"),
        ("t-1", 5, "record"),
    ]
    assert [row[10] for row in rows if row[7] == "log"] == [-1, 1, 6]
    assert reason == ""


def test_more_than_can_be_read_in_a_moment_is_left_and_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("fencepost.clusters.kafka.log_segments.MOST_BYTES", 10)
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "0.log").write_bytes(batch(0, [b"a"]))
    assert stored_records(tmp_path) == ([], "its log segments have 0 MB, more than 0 MB")


@pytest.mark.parametrize(("most", "kept"), [(5, True), (4, False), (3, False), (2, False), (0, False)])
def test_so_many_records_that_reading_them_takes_long_are_left_and_reported(tmp_path, monkeypatch, most, kept):
    monkeypatch.setattr("fencepost.clusters.kafka.log_segments.MOST_ROWS", most)
    for log, values in {"t-0": [b"a"], "t-1": [b"b", b"c"]}.items():
        (tmp_path / log).mkdir()
        (tmp_path / log / "0.log").write_bytes(batch(0, values))
    rows, reason = stored_records(tmp_path)
    assert (len(rows), reason) == ((5, "") if kept else (0, f"its logs have more than {most} records"))


# --------------------------------------------------------------------------------------------------
# Batch by batch, as a leader gives them
# --------------------------------------------------------------------------------------------------
def test_a_batch_gives_keys_and_headers_too():
    content = batch(10, [b"a"], attributes=0b10000, payload=record(0, b"a", b"key", [("h", b"1"), ("h", b"")]))
    (decoded,) = batches(content)
    assert [row[7:] for row in batch_records(decoded)] == [[b"key", b"a", [("h", b"1"), ("h", b"")]]]
    assert (is_transactional(decoded), last_offset(decoded)) == (True, 10)


def test_what_gzip_has_packed_can_be_read_and_other_codecs_are_named():
    packed = gzip.compress(record(0, b"a") + record(1, b"b"))
    (decoded,) = batches(batch(10, [b"a", b"b"], attributes=1, payload=packed))
    assert [(row[0], row[8]) for row in batch_records(decoded, unpack=True)] == [(10, b"a"), (11, b"b")]
    assert [row[6] for row in batch_records(decoded)] == ["gzip batch"]
    (decoded,) = batches(batch(10, [b"a"], attributes=4, payload=b"?"))
    assert [row[6] for row in batch_records(decoded, unpack=True)] == ["zstd batch"]
    assert not is_transactional(decoded)
