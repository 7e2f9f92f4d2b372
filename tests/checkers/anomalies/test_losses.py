"""`lost-write`: guilty histories, and innocent ones that look alike."""

from support.histories import History, answer, finding, violated

PLAIN = {"transactional": "false", "isolation": "read_uncommitted"}
CARELESS = {**PLAIN, "idempotence": "false"}


def test_a_committed_record_that_the_final_read_misses_is_lost(judged):
    """It was acknowledged at offset 5, and the final read went past it without returning it."""
    h = History()
    writer = h.txn(0, {"t-0": [5]})
    h.txn(0, {"t-0": [7]})
    h.final({"t-0": [7]})
    document = judged(h)
    assert violated(document) == ["lost-write"]
    loss = finding(document, "lost-write")
    assert loss["operations"] == [writer]
    assert loss["records"] == [{"partition": "t-0", "offset": 5, "v": h.v("t-0", 5), "operation": writer, "role": "missing"}]
    assert loss["sentence"] == (
        "Transaction 0 of process 0 was acknowledged as committed, "
        "but the record it wrote to t-0@5 was not returned by the complete final read."
    )


def test_the_unpolled_tail_is_not_lost(judged):
    """No reader went past offset 5 and no final read was complete, so nothing can be said about 7."""
    h = History()
    h.txn(0, {"t-0": [5]})
    h.txn(0, {"t-0": [7]})
    h.poll(1, {"t-0": [5]})
    h.final({"t-0": [5]}, end=9, position=6)
    document = judged(h)
    assert violated(document) == []
    assert answer(document, "lost-write")["compared"] == 1


def test_what_is_written_while_the_final_read_is_under_way_is_not_lost(judged):
    """Its end had been measured before; then no final read proves that anything is absent there, and the verdict says so."""
    h = History()
    h.txn(0, {"t-0": [5]})
    h.final({"t-0": [5]}, end=7, position=7)
    h.txn(0, {"t-0": [7]})
    document = judged(h)
    assert violated(document) == []
    assert document["verdict"] == "unknown"
    assert "somebody still wrote to t-0 when the final phase began: its final read does not count" in document["weakened"]


def test_without_a_final_read_a_record_that_every_reader_passed_over_is_lost(judged):
    """Readers got offsets 5 and 9, and none ever got 7."""
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
    losses = [row for row in judged(h)["findings"] if row["anomaly"] == "lost-write"]
    assert [len(loss["records"]) for loss in losses] == [5, 1]


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
    """Some of the transaction is visible, so it is torn; but no acknowledgement says that the other record was stored."""
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


def test_a_loss_is_not_judged_under_compaction(judged):
    h = History()
    h.txn(0, {"t-0": [5, 6]})
    h.final({"t-0": [6]})
    document = judged(h, {"compaction": "true"})
    assert answer(document, "lost-write")["verdict"] == answer(document, "torn-transaction")["verdict"] == "not exercised"


def test_loss_under_acks_1_is_reported_but_allowed(judged_by_spark):
    h = History()
    h.send(0, {"t-0": [5]})
    h.send(0, {"t-0": [6]})
    h.final({"t-0": [6]})
    document = judged_by_spark(h, {**CARELESS, "acks": "1"})
    assert document["verdict"] == "valid"
    assert [row["name"] for row in document["allowed"] if row["verdict"] == "violated"] == ["lost-write"]


def test_a_record_above_a_stuck_last_stable_offset_is_not_lost(judged):
    """The last stable offset hangs at 6; the record at 7 is in the log, and only hidden."""
    h = History()
    h.txn(0, {"t-0": [5]})
    h.txn(1, {"t-0": [7]})
    h.settle({"t-0": (6, 1000)}, type="info")
    h.final({"t-0": [5]}, {"t-0": [5, 7]}, end=6, position=6)
    assert violated(judged(h)) == ["lso-stall"]
