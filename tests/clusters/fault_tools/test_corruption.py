"""Files of a partition made by hand, and damaged."""

import pytest
from support.record_batches import batch

from fencepost.clusters.fault_tools.corruption import damage
from fencepost.clusters.kafka.log_segments import stored_records

FIRST, SECOND = f"{0:020}.log", f"{3:020}.log"


@pytest.fixture
def partition(tmp_path):
    """t-0 with two segments: offsets 0 to 2, and 3 to 5, an index with two entries and room for more, and a snapshot."""
    place = tmp_path / "t-0"
    place.mkdir()
    (place / FIRST).write_bytes(b"".join(batch(offset, [b"v" * 40]) for offset in (0, 1, 2)))
    (place / SECOND).write_bytes(b"".join(batch(offset, [b"w" * 40]) for offset in (3, 4, 5)))
    (place / f"{3:020}.index").write_bytes(b"\x01\x02\x03\x04" * 4 + bytes(1000))
    (place / f"{3:020}.snapshot").write_bytes(b"\x00\x01" + b"\x05" * 20)
    return place


def changed(before, after):
    return [at for at, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]


@pytest.mark.parametrize(("at", "offset"), [(0.0, 3), (0.5, 4), (0.99, 5)])
def test_one_byte_of_a_batchs_records_is_another_one(partition, at, offset):
    """In the last segment; the head of the batch, and so its place in the file, stays as it was."""
    before = (partition / SECOND).read_bytes()
    seen = damage(partition, "records", at)
    after = (partition / SECOND).read_bytes()
    assert changed(before, after) == [seen.position]
    assert (seen.file, seen.first_offset, seen.last_offset) == (f"t-0/{SECOND}", offset, offset)
    assert (bytes.fromhex(seen.before), bytes.fromhex(seen.after)) == tuple(
        content[seen.position : seen.position + 8] for content in (before, after)
    )
    assert seen.bytes_before == seen.bytes_after == len(before)
    rows, _ = stored_records(partition.parent)
    assert [row[1] for row in rows if row[7] == "record"] == [0, 1, 2, 3, 4, 5]


def test_a_cut_segment_ends_inside_a_batch(partition):
    size = (partition / SECOND).stat().st_size
    seen = damage(partition, "cut", 0.5)
    assert (seen.bytes_before, seen.bytes_after, seen.after, seen.first_offset) == (size, seen.position, "", 4)
    assert size / 3 < (partition / SECOND).stat().st_size == seen.position < 2 * size / 3


def test_an_older_segment_may_be_meant(partition):
    last = (partition / SECOND).read_bytes()
    assert damage(partition, "records", 0.9, older=True).file == f"t-0/{FIRST}"
    assert (partition / SECOND).read_bytes() == last


@pytest.mark.parametrize(("part", "used"), [("index", 16), ("snapshot", 22)])
def test_a_byte_in_use_of_an_index_or_a_snapshot_is_another_one(partition, part, used):
    """An index has room for more entries, which nobody reads."""
    (path,) = partition.glob(f"*.{part}")
    before = path.read_bytes()
    seen = damage(partition, part, 0.999)
    assert changed(before, path.read_bytes()) == [seen.position] == [used - 1]
    assert seen.first_offset == -1


@pytest.mark.parametrize(
    ("part", "older", "words"),
    [("txnindex", False, "no .txnindex file"), ("records", True, "no older segment"), ("cut", False, "no records")],
)
def test_what_is_not_there_cannot_be_damaged(tmp_path, part, older, words):
    (tmp_path / FIRST).touch()
    with pytest.raises(LookupError, match=words):
        damage(tmp_path, part, 0.5, older)


def test_an_index_of_an_older_segment_is_not_meant(partition):
    """Kafka makes that of the last segment anew when it was killed, and looks at no older one."""
    (partition / f"{3:020}.index").write_bytes(b"")
    (partition / f"{0:020}.index").write_bytes(b"\x01\x02\x03\x04")
    with pytest.raises(LookupError, match=r"no \.index file with content at the last segment"):
        damage(partition, "index", 0.5)
