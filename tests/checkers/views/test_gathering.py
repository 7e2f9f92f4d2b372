"""Messages for run checks: in files as they are made, and what a gatherer raises takes no other one's messages with it."""

from __future__ import annotations

import pytest

from fencepost.checkers.history.part_files import StoredMessage
from fencepost.checkers.testing import PartitionBuilder
from fencepost.checkers.views.gathering import PartitionMessages, gather_messages


def whole(log):
    return PartitionMessages([("edges", b"one"), ("edges", b"two")], [("firsts", b"three")])


def broken_half_way(log):
    def made():
        yield "edges", b"half"
        raise ValueError("no more edges")

    return PartitionMessages(made(), [("firsts", b"never")])


@pytest.mark.parametrize("in_files", [False, True])
def test_a_gatherer_that_raises_while_messages_are_taken_is_reported(tmp_path, in_files):
    log = PartitionBuilder().log()
    messages = gather_messages([broken_half_way, whole], log, tmp_path if in_files else None)
    assert messages.error == "ValueError: no more edges"
    assert messages.to_driver == [("firsts", b"three")]
    assert {edge.partition for edge in messages.on_executors} == {log.partition}
    assert [edge.content for edge in messages.on_executors] == [b"half", b"one", b"two"]
    assert all(isinstance(edge.message, StoredMessage) == in_files for edge in messages.on_executors)
