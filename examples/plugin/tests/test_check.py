"""The check: one guilty story, and an innocent one that looks alike."""

from __future__ import annotations

from fencepost_example.check import read_before_sent

from checkers.testing import Story, found


def test_a_record_that_is_read_before_it_was_sent_is_found():
    story = Story()
    sent = story.sent(0, began=5_000_000)
    story.read(sent, 0, at=4_000_000)
    suspects = read_before_sent(story.log())
    assert found(suspects) == [("read", sent, 0), ("sent", sent, 0)]


def test_a_record_that_is_read_before_it_was_acknowledged_is_none():
    """The answer may be on its way while readers get the record already."""
    story = Story()
    sent = story.sent(0, began=5_000_000)
    story.read(sent, 0, at=5_000_001)
    suspects = read_before_sent(story.log())
    assert (found(suspects), suspects.compared) == ([], 1)


def test_nothing_is_compared_when_nothing_was_read():
    story = Story()
    story.sent(0)
    assert read_before_sent(story.log()).compared == 0
