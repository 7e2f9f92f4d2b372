"""Records that are lost, doubled, misplaced or out of order: for each a guilty story and an innocent one that looks alike."""

from support.histories import UNCOMMITTED, History, answer, finding, violated

PLAIN = {"transactional": "false", "isolation": "read_uncommitted"}
CARELESS = {**PLAIN, "idempotence": "false"}


# ---- lost-write ----
def test_a_committed_record_that_the_final_read_misses_is_lost(judged):
    """It was acknowledged at offset 5, and the final read went past it without returning it."""
    h = History()
    writer = h.txn(0, {"t-0": [5]})
    h.txn(0, {"t-0": [7]})
    h.final({"t-0": [7]})
    document = judged(h)
    assert violated(document) == ["lost-write"]
    found = finding(document, "lost-write")
    assert found["operations"] == [writer]
    assert found["records"] == [{"partition": "t-0", "offset": 5, "v": h.v("t-0", 5), "operation": writer, "role": "missing"}]
    assert found["sentence"] == (
        "Transaction 0 of process 0 was acknowledged as committed, "
        "but the record it wrote to t-0@5 was not returned by the complete final read."
    )


def test_the_unpolled_tail_is_not_lost(judged):
    """Nobody read past offset 5 and no final read was complete, so nothing can be said about 7."""
    h = History()
    h.txn(0, {"t-0": [5]})
    h.txn(0, {"t-0": [7]})
    h.poll(1, {"t-0": [5]})
    h.final({"t-0": [5]}, end=9, position=6)
    document = judged(h)
    assert violated(document) == []
    assert answer(document, "lost-write")["compared"] == 1


def test_without_a_final_read_a_record_jumped_over_by_everybody_is_lost(judged):
    """Readers got offsets 5 and 9, and nobody ever got 7."""
    h = History()
    for offset in (5, 7, 9):
        h.txn(0, {"t-0": [offset]})
    h.poll(1, {"t-0": [5, 9]})
    document = judged(h)
    assert violated(document) == ["lost-write"]
    assert finding(document, "lost-write")["records"][0]["offset"] == 7


def test_without_any_read_a_loss_is_not_exercised_and_the_run_unknown(judged):
    h = History()
    h.txn(0, {"t-0": [5]})
    document = judged(h)
    assert document["verdict"] == "unknown"
    assert answer(document, "lost-write")["reason"] == "no final read was complete, and nobody read a promised record or past one"


def test_an_undecided_transaction_promises_nothing(judged):
    """Its commit timed out, and no read_committed reader ever got a record of it: it may have been aborted."""
    h = History()
    h.txn(0, {"t-0": [5]}, type="info")
    h.txn(1, {"t-0": [7]})
    h.final({"t-0": [7]}, {"t-0": [5, 7]})
    assert violated(judged(h)) == []


def test_an_undecided_transaction_that_was_seen_is_a_promise(judged):
    """A reader got its record in t-0 before the final read, so it committed; its record in t-1 is in no final read."""
    h = History()
    h.txn(0, {"t-0": [5], "t-1": [3]}, type="info")
    h.poll(1, {"t-0": [5]})
    h.final({"t-0": [5], "t-1": []})
    document = judged(h)
    assert violated(document) == ["lost-write", "torn-transaction"]
    assert [record["partition"] for record in finding(document, "lost-write")["records"]] == ["t-1"]


def test_neighbours_lost_together_are_one_finding(judged):
    """Five transactions in a row are gone from one partition, and one elsewhere: two causes."""
    h = History()
    for offset in range(10):
        h.txn(0, {"t-0": [offset * 2]})
    h.final({"t-0": [0, 2, 14, 18]})
    found = [one for one in judged(h)["findings"] if one["anomaly"] == "lost-write"]
    assert [len(one["records"]) for one in found] == [5, 1]


def test_a_truncated_stretch_whose_offsets_are_taken_again_is_one_finding(judged):
    """An old leader acknowledged 10 to 14; the new one gave 10 to 12 to other records."""
    h = History()
    for offset in (10, 11, 12, 13, 14):
        h.send(0, {"t-0": [offset]})
    for offset in (10, 11, 12):
        h.send(1, {"t-0": [offset]})
    h.final({"t-0": [10, 11, 12]})
    document = judged(h, PLAIN)
    assert violated(document) == ["lost-write"]
    assert len(finding(document, "lost-write")["records"]) == 5


def test_a_record_that_was_never_acknowledged_is_not_promised_by_an_undecided_transaction(judged):
    """Some of the transaction is visible, so it is torn; but nobody ever said that the other record was stored."""
    h = History()
    h.txn(0, {"t-0": [5], "t-1": [None]}, type="info")
    h.final({"t-0": [5], "t-1": []})
    assert violated(judged(h)) == ["torn-transaction"]


def test_only_acknowledged_sends_of_an_undecided_send_operation_are_promised(judged):
    h = History()
    h.send(0, {"t-0": [1, None]}, type="info")
    h.final({"t-0": [1]})
    assert violated(judged(h, PLAIN)) == []
    h = History()
    h.send(0, {"t-0": [1, 2, None]}, type="info")
    h.final({"t-0": [2]})
    assert violated(judged(h, PLAIN)) == ["lost-write"]


def test_compaction_makes_absence_prove_nothing(judged):
    h = History()
    h.txn(0, {"t-0": [5, 6]})
    h.final({"t-0": [6]})
    document = judged(h, {"compaction": "true"})
    assert answer(document, "lost-write")["verdict"] == answer(document, "torn-transaction")["verdict"] == "not exercised"


def test_loss_under_acks_1_is_reported_but_allowed(judged):
    h = History()
    h.send(0, {"t-0": [5]})
    h.send(0, {"t-0": [6]})
    h.final({"t-0": [6]})
    document = judged(h, {**CARELESS, "acks": "1"})
    assert document["verdict"] == "valid"
    assert [one["name"] for one in document["allowed"] if one["verdict"] == "violated"] == ["lost-write"]


def test_what_a_stuck_partition_hides_is_not_lost(judged):
    """The last stable offset hangs at 6; the record at 7 is in the log, and only hidden."""
    h = History()
    h.txn(0, {"t-0": [5]})
    h.txn(1, {"t-0": [7]})
    h.settle({"t-0": (6, 1000)}, type="info")
    h.final({"t-0": [5]}, {"t-0": [5, 7]}, end=6, position=6)
    assert violated(judged(h)) == ["lso-stall"]


# ---- duplicate ----
def test_one_record_at_two_offsets_is_a_duplicate(judged):
    h = History()
    h.txn(0, {"t-0": [5]})
    twice = [5, (6, h.v("t-0", 5))]
    h.final({"t-0": twice})
    document = judged(h)
    assert violated(document) == ["duplicate"]
    assert (
        finding(document, "duplicate")["sentence"]
        == "Transaction 0 of process 0 sent one record to t-0, and readers got it at offsets 5 and 6."
    )


def test_many_readers_of_one_offset_are_no_duplicate(judged):
    h = History()
    h.txn(0, {"t-0": [5]})
    for reader in (1, 2, 3):
        h.poll(reader, {"t-0": [5]})
    h.final({"t-0": [5]})
    assert violated(judged(h)) == []


def test_a_second_copy_that_only_read_uncommitted_sees_is_no_duplicate(judged):
    """The copy at 6 was aborted with its transaction's first attempt: read_committed shows one."""
    h = History()
    h.txn(0, {"t-0": [5]})
    h.final({"t-0": [5]}, {"t-0": [5, (6, h.v("t-0", 5))]})
    assert violated(judged(h)) == []


def test_outside_transactions_any_reader_shows_a_duplicate_and_only_idempotence_forbids_it(judged):
    h = History()
    h.send(0, {"t-0": [5]})
    h.final({"t-0": [5]}, {"t-0": [5, (6, h.v("t-0", 5))]})
    assert violated(judged(h, PLAIN)) == ["duplicate"]
    assert answer(judged(h, CARELESS), "duplicate")["verdict"] == "violated"
    assert violated(judged(h, CARELESS)) == []


# ---- inconsistent-offset ----
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


# ---- phantom, wrong-partition ----
def test_a_record_nobody_sent_is_a_phantom(judged):
    h = History()
    h.txn(0, {"t-0": [5]})
    h.final({"t-0": [5, (6, 123456789)]})
    assert violated(judged(h)) == ["phantom"]


def test_a_record_with_broken_content_is_a_phantom_that_says_why(judged):
    h = History()
    h.txn(0, {"t-0": [5]})
    h.poll(1, {"t-0": [(6, -1)]}, strange=[{"partition": "t-0", "offset": 6, "why": "checksum differs", "raw": "x|1|"}])
    h.final({"t-0": [5]})
    document = judged(h)
    assert violated(document) == ["phantom"]
    assert "checksum differs" in finding(document, "phantom")["sentence"]


def test_a_record_of_a_transaction_without_completion_is_no_phantom(judged):
    """The worker was killed; what it planned to send is in the history, so whoever reads it reads something known."""
    h = History()
    h.txn(0, {"t-0": [None]}, type="info", end=None, decided=None)
    planned = h.ops[0]["mops"][0][2]
    h.txn(1, {"t-0": [7]})
    h.final({"t-0": [(5, planned), 7]})
    assert violated(judged(h)) == []


def test_a_record_in_a_partition_it_was_not_sent_to_is_misplaced_and_not_lost(judged):
    """It was sent to t-0 and lies in t-1: one cause, so neither phantom nor lost nor torn."""
    h = History()
    h.txn(0, {"t-0": [5], "t-1": [2]})
    h.final({"t-0": [], "t-1": [2, (3, h.v("t-0", 5))]})
    document = judged(h)
    assert violated(document) == ["wrong-partition"]
    assert "was sent to t-0" in finding(document, "wrong-partition")["sentence"]


def test_equal_offsets_in_two_partitions_are_no_confusion(judged):
    h = History()
    h.txn(0, {"t-0": [5], "t-1": [5]})
    h.final({"t-0": [5], "t-1": [5]})
    assert violated(judged(h)) == []


# ---- order-inversion ----
def test_two_transactions_of_one_process_stored_the_other_way_round_are_inverted(judged):
    h = History()
    h.txn(0, {"t-0": [7]})
    h.txn(0, {"t-0": [5]})
    h.final({"t-0": [5, 7]})
    assert violated(judged(h)) == ["order-inversion"]


def test_two_processes_have_no_order_between_them(judged):
    """A restarted writer is another process: its record may lie below its predecessor's late one."""
    h = History()
    h.txn(0, {"t-0": [7]})
    h.txn(1, {"t-0": [5]})
    h.final({"t-0": [5, 7]})
    assert violated(judged(h)) == []


def test_a_lost_record_has_no_place_in_the_order(judged):
    """The record acknowledged at 7 was truncated; the next one of its process lies at 5."""
    h = History()
    h.send(0, {"t-0": [7]})
    h.send(0, {"t-0": [5]})
    h.final({"t-0": [5]})
    assert violated(judged(h, PLAIN)) == ["lost-write"]


def test_pipelined_sends_may_swap_without_idempotence_but_not_after_an_acknowledgement(judged):
    """Both in flight together: allowed to overtake. The first acknowledged before the second began: not with max.in.flight=1."""
    together = History()
    together.send(0, {"t-0": [7, 5]})
    together.ops[0]["mops"] = [(0, "t-0", 0, 7, 10, 50), (0, "t-0", 1, 5, 20, 60)]
    together.final({"t-0": [(5, 1), (7, 0)]})
    one_in_flight = {**CARELESS, "max_in_flight": "1"}
    assert violated(judged(together, one_in_flight)) == []
    assert violated(judged(together, PLAIN)) == ["order-inversion"]
    after = History()
    after.send(0, {"t-0": [7, 5]})
    after.ops[0]["mops"] = [(0, "t-0", 0, 7, 10, 50), (0, "t-0", 1, 5, 51, 60)]
    after.final({"t-0": [(5, 1), (7, 0)]})
    assert violated(judged(after, one_in_flight)) == ["order-inversion"]
