"""The check: one partition with the anomaly, and one without it that looks alike."""

from __future__ import annotations

from fencepost_example.check import read_before_sent

from fencepost.checkers.testing import PartitionBuilder, found


def test_a_record_that_is_read_before_it_was_sent_is_found():
    partition = PartitionBuilder()
    record = partition.send(0, began=5_000_000)
    partition.read(record, 0, at=4_000_000)
    result = read_before_sent(partition.log())
    assert found(result) == [("read", record, 0), ("sent", record, 0)]


def test_a_record_that_is_read_before_it_was_acknowledged_is_none():
    """The answer may be on its way while readers get the record already."""
    partition = PartitionBuilder()
    record = partition.send(0, began=5_000_000)
    partition.read(record, 0, at=5_000_001)
    result = read_before_sent(partition.log())
    assert (found(result), result.compared) == ([], 1)


def test_nothing_is_compared_when_nothing_was_read():
    partition = PartitionBuilder()
    partition.send(0)
    assert read_before_sent(partition.log()).compared == 0
