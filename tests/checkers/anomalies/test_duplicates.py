"""`duplicate`: guilty histories, and innocent ones that look alike."""

from support.histories import History, answer, finding, violated

PLAIN = {"transactional": "false", "isolation": "read_uncommitted"}
CARELESS = {**PLAIN, "idempotence": "false"}


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


def test_two_records_of_one_transaction_are_one_finding(judged):
    h = History()
    h.txn(0, {"t-0": [5, 6]})
    h.final({"t-0": [5, 6, (9, h.v("t-0", 5)), (10, h.v("t-0", 6))]})
    assert finding(judged(h), "duplicate")["sentence"] == (
        "2 records that transaction 0 of process 0 sent once each to t-0 are in the log more than once (offsets 5 to 10)."
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
