"""Transactions seen aborted, too early or in part; and hanging ones. For each a guilty story and an innocent look-alike."""

import pytest
from support.histories import UNCOMMITTED, History, answer, finding, violated


# ---- aborted-read ----
def test_a_failed_transaction_shown_at_read_committed_is_an_aborted_read(judged):
    h = History()
    writer = h.txn(0, {"t-0": [5]}, type="fail")
    reader = h.poll(1, {"t-0": [5]})
    h.final({"t-0": []}, {"t-0": [5]})
    document = judged(h)
    assert violated(document) == ["aborted-read"]
    assert finding(document, "aborted-read")["operations"] == [writer, reader]


def test_read_uncommitted_may_return_aborted_records(judged):
    h = History()
    h.txn(0, {"t-0": [5]}, type="fail")
    h.txn(0, {"t-0": [7]})
    h.poll(1, {"t-0": [5]}, UNCOMMITTED)
    h.final({"t-0": [7]}, {"t-0": [5, 7]})
    assert violated(judged(h)) == []


def test_a_contract_that_covers_all_readers_judges_uncommitted_ones_but_not_the_uncommitted_final_reader(judged):
    """The campaign claims read_committed for readers that are not: their aborted read counts. The final witness's never does."""
    h = History()
    h.txn(0, {"t-0": [5]}, type="fail")
    h.txn(0, {"t-0": [7]})
    h.final({"t-0": [7]}, {"t-0": [5, 7]})
    assert violated(judged(h, {"readers": "all"})) == []
    h.poll(1, {"t-0": [5]}, UNCOMMITTED)
    assert violated(judged(h, {"readers": "all"})) == ["aborted-read"]
    assert violated(judged(h, {"judge_uncommitted_readers": "true"})) == ["aborted-read"]


def test_a_poll_inside_a_failed_transaction_is_still_evidence(judged):
    h = History()
    h.txn(0, {"t-0": [5]}, type="fail")
    h.txn(1, {"t-1": [5]}, type="fail", reads=[("t-0", 5, h.v("t-0", 5))])
    h.final({"t-0": [], "t-1": []})
    assert violated(judged(h)) == ["aborted-read"]


def test_a_record_that_two_readers_got_is_one_record(judged):
    h = History()
    h.txn(0, {"t-0": [5]}, type="fail")
    h.poll(1, {"t-0": [5]})
    h.poll(2, {"t-0": [5]})
    h.final({"t-0": []}, {"t-0": [5]})
    assert finding(judged(h), "aborted-read")["sentence"] == (
        "Transaction 0 of process 0 was surely aborted, yet poll 0 of process 1 read its record at t-0@5 (the first of 2 "
        "such reads)."
    )


# ---- dirty-read ----
def test_a_record_read_before_its_commit_was_called_is_dirty(judged):
    h = History()
    h.txn(0, {"t-0": [5]})
    h.ops[0]["decided"] = h.now + 100 * 1_000_000
    h.ops[0]["end"] = h.now + 110 * 1_000_000
    h.poll(1, {"t-0": [5]})
    h.final({"t-0": [5]})
    h.ops[2]["mops"] = [(1, "t-0", h.v("t-0", 5), 5, None, h.now + 200 * 1_000_000)]
    document = judged(h)
    assert violated(document) == ["dirty-read"]
    assert "before its commit was called" in finding(document, "dirty-read")["sentence"]


def read_after(h, began_ns):
    """The second operation's only read returns so many ns after the first one's record was sent."""
    kind, partition, v, offset, *_ = h.ops[1]["mops"][0]
    h.ops[1]["mops"] = [(kind, partition, v, offset, None, h.ops[0]["mops"][0][4] + began_ns)]


@pytest.mark.parametrize("send", [History.send, History.txn])
def test_a_record_read_before_it_was_sent_is_dirty_in_a_transaction_or_not(judged, send):
    h = History()
    send(h, 0, {"t-0": [5]})
    h.poll(1, {"t-0": [5]})
    h.final({"t-0": [5]})
    read_after(h, -1)
    document = judged(h, {"transactional": str(send is History.txn).lower()})
    assert violated(document) == ["dirty-read"]
    assert "before it was sent" in finding(document, "dirty-read")["sentence"]


def test_a_record_outside_transactions_may_be_read_before_it_is_acknowledged(judged):
    h = History()
    h.send(0, {"t-0": [5]})
    h.poll(1, {"t-0": [5]})
    h.final({"t-0": [5]})
    read_after(h, 0)
    document = judged(h, {"transactional": "false"})
    assert violated(document) == []
    assert answer(document, "dirty-read")["compared"] == 3


def test_a_record_read_while_its_commit_was_under_way_is_not_dirty(judged):
    """The commit had been called and had not yet returned: the broker may have finished it."""
    h = History()
    h.txn(0, {"t-0": [5]})
    h.ops[0]["end"] = h.now + 100 * 1_000_000
    h.poll(1, {"t-0": [5]})
    h.final({"t-0": [5]})
    assert violated(judged(h)) == []


def test_a_transaction_that_polls_its_own_record_reads_dirty(judged):
    h = History()
    h.txn(0, {"t-0": [5]})
    h.ops[0]["mops"].append((1, "t-0", h.v("t-0", 5), 5, None, h.ops[0]["time"] + 100))
    h.final({"t-0": [5]})
    assert violated(judged(h)) == ["dirty-read"]


def test_a_killed_writers_decision_has_no_known_time(judged):
    """No completion: commit may well have been called before the kill, so an early-looking read proves nothing."""
    h = History()
    h.txn(0, {"t-0": [5]}, type="info", end=None, decided=None)
    h.poll(1, {"t-0": [5]})
    h.final({"t-0": [5]})
    assert violated(judged(h)) == []


def test_an_undecided_transaction_whose_commit_was_never_called_must_not_be_seen(judged):
    """It completed as unknown because its abort timed out."""
    h = History()
    h.txn(0, {"t-0": [5]}, type="info", decided=None, intent="abort")
    h.final({"t-0": [5]})
    assert violated(judged(h)) == ["dirty-read"]


def test_what_was_got_without_a_commit_and_is_gone_later_was_not_promised(judged):
    """Its client never called commit, so its timeout has aborted it: it is no loss, and the final reader has not skipped it."""
    h = History()
    h.txn(1, {"t-0": [3]})
    h.txn(0, {"t-0": [5]}, type="info", decided=None)
    h.txn(1, {"t-0": [9]})
    h.poll(2, {"t-0": [3, 5, 9]})
    h.final({"t-0": [3, 9]}, {"t-0": [3, 5, 9]})
    document = judged(h)
    assert violated(document) == ["dirty-read"]
    assert finding(document, "dirty-read")["sentence"].endswith(
        " of transaction 0 of process 0, for which commit was never called."
    )
    assert answer(document, "lost-write")["compared"] == 2


# ---- torn-transaction ----
def test_a_committed_transaction_shown_in_part_is_torn(judged):
    h = History()
    writer = h.txn(0, {"t-0": [17], "t-1": [12], "t-2": [9]})
    h.txn(1, {"t-1": [20]})
    h.final({"t-0": [17], "t-1": [20], "t-2": [9]})
    document = judged(h, expect=["torn-transaction"])
    assert violated(document) == ["lost-write", "torn-transaction"]
    assert document["expectation_met"] is True
    tear = finding(document, "torn-transaction")
    assert tear["operations"] == [writer]
    assert tear["sentence"] == (
        "Transaction 0 of process 0 was acknowledged as committed; its records at t-0@17 and t-2@9 were read, "
        "but the record it wrote to t-1 (acknowledged at offset 12) was not returned by the complete final read."
    )


def test_a_transaction_lost_as_a_whole_is_lost_but_not_torn(judged):
    h = History()
    h.txn(0, {"t-0": [5], "t-1": [5]})
    h.txn(1, {"t-0": [7], "t-1": [7]})
    h.final({"t-0": [7], "t-1": [7]})
    assert violated(judged(h)) == ["lost-write"]


def test_an_aborted_transaction_shown_in_part_is_torn(judged):
    h = History()
    h.txn(0, {"t-0": [5], "t-1": [6]}, type="fail")
    h.final({"t-0": [5], "t-1": []}, {"t-0": [5], "t-1": [6]})
    document = judged(h, expect=["torn-transaction"])
    assert violated(document) == ["aborted-read", "torn-transaction"]
    assert document["expectation_met"] is True


def test_an_aborted_transaction_shown_whole_is_aborted_read_but_not_torn(judged):
    h = History()
    h.txn(0, {"t-0": [5], "t-1": [6]}, type="fail")
    h.final({"t-0": [5], "t-1": [6]})
    assert violated(judged(h)) == ["aborted-read"]


def test_a_partition_whose_final_read_was_incomplete_tears_nothing(judged):
    """t-1 was not read to its end, so its half of the transaction may be there."""
    h = History()
    h.txn(0, {"t-0": [5], "t-1": [6]})
    h.final({"t-0": [5]})
    document = judged(h)
    assert violated(document) == []


def test_an_undecided_transaction_seen_in_part_is_torn(judged):
    """Whatever became of its commit: some of it is visible and some is not."""
    h = History()
    h.txn(0, {"t-0": [5], "t-1": [6]}, type="info", end=None, decided=None)
    h.txn(1, {"t-1": [9]})
    h.final({"t-0": [5], "t-1": [9]})
    assert violated(judged(h)) == ["lost-write", "torn-transaction"]


def test_a_send_that_never_began_is_no_part_of_its_transaction(judged):
    """The third send was planned and not made, because the second met an error; both that were made are visible."""
    h = History()
    h.txn(0, {"t-0": [5], "t-1": [6], "t-2": [None]}, type="info")
    h.ops[0]["mops"][2] = (0, "t-2", h.ops[0]["mops"][2][2], None, None, None)
    h.final({"t-0": [5], "t-1": [6], "t-2": []})
    assert violated(judged(h)) == []


def test_another_torn_transaction_cannot_hide_behind_an_expected_one(judged):
    """The loss of a different transaction is no consequence of the tear, so the expectation is not met."""
    h = History()
    h.txn(0, {"t-0": [5], "t-1": [6]})
    h.txn(1, {"t-0": [7]})
    h.txn(2, {"t-0": [8], "t-1": [9]})
    h.final({"t-0": [5, 8], "t-1": [9]})
    document = judged(h, expect=["torn-transaction"])
    assert violated(document) == ["lost-write", "torn-transaction"]
    assert document["expectation_met"] is False


def test_an_aborted_transaction_is_torn_where_the_last_stable_offset_stays_behind_and_an_offset_is_unknown(judged):
    """The read_uncommitted final read says where the record lies that the other one did not return: below its reach."""
    h = History()
    writer = h.txn(0, {"t-0": [5, None]}, type="fail")
    hidden = h.ops[writer]["mops"][1][2]
    h.settle({"t-0": (20, 50)}, type="info")
    h.final({"t-0": [5]}, {"t-0": [5, (7, hidden)]})
    document = judged(h)
    assert violated(document) == ["aborted-read", "lso-stall", "torn-transaction"]
    assert finding(document, "torn-transaction")["operations"] == [writer]


# ---- lso-stall ----
def test_a_last_stable_offset_that_stays_behind_is_a_stall(judged):
    h = History()
    h.txn(0, {"t-0": [5]})
    h.settle({"t-0": (6, 9), "t-1": (4, 4)}, type="info")
    h.final({"t-0": [5], "t-1": []}, end=6, position=6)
    document = judged(h)
    assert violated(document) == ["lso-stall"]
    assert answer(document, "lso-stall")["compared"] == 2
    assert "of t-0 stayed at 6, below its high watermark 9, until 30 s had passed: " in finding(document, "lso-stall")["sentence"]


def test_a_settled_log_is_no_stall(judged):
    h = History()
    h.txn(0, {"t-0": [5]})
    h.settle({"t-0": (9, 9)})
    h.final({"t-0": [5]})
    assert answer(judged(h), "lso-stall")["verdict"] == "held"
