"""`inconsistent-offset`: guilty histories, and innocent ones that look alike."""

from support.histories import UNCOMMITTED, History, finding, violated

PLAIN = {"transactional": "false", "isolation": "read_uncommitted"}


def test_two_records_at_one_offset_are_inconsistent(judged):
    """One reader got one record at 5, another reader another."""
    h = History()
    h.txn(0, {"t-0": [5]})
    h.txn(1, {"t-0": [7]})
    h.poll(2, {"t-0": [(5, h.v("t-0", 7))]}, UNCOMMITTED)
    h.final({"t-0": [5, 7]})
    document = judged(h)
    assert violated(document) == ["inconsistent-offset"]
    assert "t-0@5" in finding(document, "inconsistent-offset")["sentence"]


def test_an_offset_given_away_again_after_a_loss_is_only_a_loss(judged):
    """The record acknowledged at 5 was truncated, and another one has 5 now: one cause, one finding."""
    h = History()
    h.send(0, {"t-0": [5]})
    lost = h.v("t-0", 5)
    h.send(1, {"t-0": [5]})
    h.final({"t-0": [5]})
    document = judged(h, PLAIN)
    assert violated(document) == ["lost-write"]
    assert finding(document, "lost-write")["records"][0]["v"] == lost


def test_an_acknowledgement_that_readers_contradict_is_inconsistent(judged):
    """The record acknowledged at 5 is at 8, and 5 holds another record."""
    h = History()
    h.txn(0, {"t-0": [5]})
    moved = h.v("t-0", 5)
    h.txn(1, {"t-0": [5]})
    h.final({"t-0": [5, (8, moved)]})
    assert "inconsistent-offset" in violated(judged(h))
