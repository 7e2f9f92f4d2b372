"""A partition as its leader has it, by Fetch requests to a broker that answers in literal bytes."""

import struct

import pytest
from support.fake_broker import broker, ints, text
from support.record_batches import batch, marker

from fencepost.clusters.kafka.protocol import Partition, WireError
from fencepost.clusters.kafka.protocol_fetch import read_log

PARTITION = Partition(topic="t", number=2, leader=1, epoch=0, replicas=(1,), in_sync=(1,), error=0)


def reply(error, high, content):
    head = ints(0, 1) + text("t") + ints(1) + struct.pack(">ihqq", 2, error, high, high)
    return head + ints(1) + struct.pack(">qq", 7, 0) + ints(len(content)) + content  # one aborted transaction


def read(content, start=0):
    with broker(content) as (address, heard):
        records = list(read_log(address, PARTITION, start))
    return records, heard


def test_records_and_markers_come_with_their_producers():
    """Version 4 of key 1: at read_uncommitted, from an offset on."""
    batches = batch(10, [b"a", b"b"], producer=7, epoch=2, attributes=0b10000) + marker(12, 1)
    records, heard = read(reply(0, 13, batches), start=11)
    assert [(row.partition, row.offset, row.kind, row.value) for row in records] == [
        ("t-2", 11, "record", b"b"),
        ("t-2", 12, "COMMIT", b"\x00\x00\x00\x00\x00\x00"),
    ]
    assert {(row.producer_id, row.producer_epoch, row.transactional) for row in records} == {(7, 2, True)}
    where = ints(1) + text("t") + ints(1) + struct.pack(">iqi", 2, 11, 4 << 20)
    assert heard == [struct.pack(">hhi", 1, 4, 1) + text("fencepost") + struct.pack(">iiiib", -1, 0, 0, 4 << 20, 0) + where]


def test_what_lies_beyond_the_high_watermark_is_not_read():
    records, _ = read(reply(0, 1, batch(0, [b"a", b"b"])))
    assert [row.offset for row in records] == [0]


def test_an_empty_partition_has_nothing():
    assert read(reply(0, 0, b""))[0] == []


@pytest.mark.parametrize(
    ("error", "high", "text_"), [(6, 0, "error 6"), (0, 5, "gives nothing at 0, below its high watermark 5")]
)
def test_a_partition_that_cannot_be_read_is_an_error(error, high, text_):
    with pytest.raises(WireError, match=text_):
        read(reply(error, high, b""))


def test_aborted_transactions_may_come_in_any_order():
    """Redpanda lists them as its snapshots have them; the records are the same."""
    content = batch(0, [b"a", b"b"])
    head = ints(0, 1) + text("t") + ints(1) + struct.pack(">ihqq", 2, 0, 2, 2)
    aborted = ints(3) + struct.pack(">qqqqqq", 7, 40, 9, 3, 7, 12)
    records, _ = read(head + aborted + ints(len(content)) + content)
    assert [(row.offset, row.value) for row in records] == [(0, b"a"), (1, b"b")]
