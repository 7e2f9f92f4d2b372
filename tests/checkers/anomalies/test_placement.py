"""`phantom` and `wrong-partition`: guilty histories, and innocent ones that look alike."""

from support.histories import History, finding, violated


def test_a_record_that_was_not_sent_is_a_phantom(judged):
    h = History()
    h.txn(0, {"t-0": [5]})
    h.final({"t-0": [5, (6, 123456789)]})
    assert violated(judged(h)) == ["phantom"]


def test_no_check_fails_on_a_partition_without_sends(judged):
    h = History()
    h.txn(0, {"t-0": [5]})
    h.poll(1, {"t-1": [(6, 123456789)]})
    h.final({"t-0": [5], "t-1": [(6, 123456789)]})
    document = judged(h)
    assert violated(document) == ["phantom"]
    assert [row for row in (*document["properties"], *document["allowed"]) if "Error" in row["reason"]] == []


def test_a_record_with_broken_content_is_a_phantom_that_says_why(judged):
    h = History()
    h.txn(0, {"t-0": [5]})
    h.poll(1, {"t-0": [(6, -1)]}, strange=[{"partition": "t-0", "offset": 6, "why": "checksum differs", "raw": "x|1|"}])
    h.final({"t-0": [5]})
    document = judged(h)
    assert violated(document) == ["phantom"]
    assert "checksum differs" in finding(document, "phantom")["sentence"]


def test_a_tombstone_of_nobody_is_a_phantom_that_begins_with_nothing(judged):
    h = History()
    h.txn(0, {"t-0": 5})
    why = "it has no value, or an empty one"
    h.poll(1, {"t-0": [5, (7, -1)]}, strange=[{"partition": "t-0", "offset": 7, "why": why, "raw": ""}])
    h.final({"t-0": [5]})
    sentence = finding(judged(h), "phantom")["sentence"]
    assert sentence.endswith(f"that nobody in this run sent: {why}.")


def test_a_record_of_a_transaction_without_completion_is_no_phantom(judged):
    """The worker was killed; what it planned to send is in the history, so whoever reads it reads something known."""
    h = History()
    h.txn(0, {"t-0": [None]}, type="info", end=None, decided=None)
    planned = h.ops[0]["mops"][0][2]
    h.txn(1, {"t-0": [7]})
    h.final({"t-0": [(5, planned), 7]})
    assert violated(judged(h)) == []


def test_a_record_read_in_a_partition_it_was_not_sent_to_is_in_the_wrong_partition_and_not_lost(judged):
    """It was sent to t-0 and lies in t-1: one cause, so neither phantom nor lost nor torn."""
    h = History()
    h.txn(0, {"t-0": [5], "t-1": [2]})
    h.final({"t-0": [], "t-1": [2, (3, h.v("t-0", 5))]})
    document = judged(h)
    assert violated(document) == ["wrong-partition"]
    assert "was sent to t-0" in finding(document, "wrong-partition")["sentence"]


def test_equal_offsets_in_two_partitions_are_not_inconsistent(judged):
    h = History()
    h.txn(0, {"t-0": [5], "t-1": [5]})
    h.final({"t-0": [5], "t-1": [5]})
    assert violated(judged(h)) == []
