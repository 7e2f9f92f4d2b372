"""What coordinators logged of transactions, and what they answered."""

from __future__ import annotations

import pytest
from support.histories import finding
from support.log_model import LogModel, said, two_producers, violated


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.of("PrepareCommit")[0].update(kind="CompleteCommit"), "it must not follow Ongoing"),
        (lambda m: m.of("PrepareCommit")[0].update(kind="removed"), "the id was forgotten while a transaction was open"),
        (lambda m: m.of("CompleteAbort")[0]["state"].update(producer_epoch=-1), "has a lower epoch"),
        (lambda m: m.of("PrepareAbort")[0]["state"].update(producer_id=9), "changes the producer id 0"),
        (lambda m: m.of("PrepareCommit")[0]["state"].update(partitions=["t-1"]), "lacks partitions"),
        (lambda m: m.of("PrepareCommit")[0]["state"].update(partitions=["t-0", "t-1", "x-0"]), "not in the transaction"),
        (lambda m: m.of("Empty")[0].update(kind="Ongoing"), "is the first record"),
    ],
)
def test_states_in_another_order_are_found(tmp_path, change, words):
    m = two_producers()
    change(m)
    assert words in said(m.judged(tmp_path), "unlawful-state")


@pytest.mark.parametrize("sent", [False, True])
def test_an_addition_that_was_logged_and_taken_back_is_lawful_where_nothing_was_sent(tmp_path, sent):
    """Not enough replicas had it in time, so the coordinator answered with an error and went on without the partition."""
    m = LogModel()
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 1})
    m.transaction(0, {"t-0": 1, "t-1": 1}, commit=False)
    decision = m.of("PrepareAbort")[0]
    decision["state"]["partitions"] = ["t-0"]
    m.rows.remove(m.of("ABORT", "t-1")[0])
    if not sent:
        m.rows.remove(m.of("record", "t-1")[0])
    assert ("unlawful-state" in violated(m.judged(tmp_path))) is sent


@pytest.mark.parametrize("sent", [False, True])
def test_a_first_addition_may_be_taken_back_too(tmp_path, sent):
    """The producer could not begin, and the next instance finds no transaction open."""
    m = LogModel()
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 1})
    m.ids["id"]["open"] = ["t-1"]
    m.state("id", "Ongoing")
    if sent:
        m.record("t-1", 0, 0)
    m.ids["id"].update(open=[], epoch=1)
    m.state("id", "Empty")
    found = violated(m.judged(tmp_path))
    assert "unlawful-state" in found if sent else not found


@pytest.mark.parametrize("marked", [False, True])
def test_a_decision_may_be_taken_back_before_any_marker(tmp_path, marked):
    """A commit that could not be logged in time got an error, and the transaction was aborted for its age."""
    m = LogModel()
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 1}, answer="info", end=False)
    m.state("id", "PrepareCommit")
    if marked:
        m.append("t-0", "COMMIT", coordinator_epoch=0, sent=True, producer_id=0, producer_epoch=0)
    m._decide("id", "Abort")
    found = violated(m.judged(tmp_path))
    assert "unlawful-state" in found if marked else not found


def test_states_that_may_follow_each_other(tmp_path):
    """Exhausted epochs, a record that was repeated, a forgotten id, and the abort of nothing (KIP-890)."""
    m = LogModel(protocol=2)
    m.initialise(0, "id")
    m.wear("id", 32766)
    m.transaction(0, {"t-0": 1})
    m.of("PrepareCommit")[0]["state"]["next_producer_id"] = 40
    own = m.ids["id"]
    own["pid"], own["epoch"] = 40, 0
    m.of("CompleteCommit")[0]["state"].update(producer_id=40, producer_epoch=0)
    m.transaction(0, {"t-0": 1})
    m.state("id", "CompleteCommit")
    m._decide("id", "Abort")
    m.state("id", "removed", producer_id=-1, producer_epoch=-1)
    document = m.judged(tmp_path)
    assert not violated(document), [row["sentence"] for row in document["findings"]]


@pytest.mark.parametrize(
    ("epoch", "removed", "then", "words"),
    [
        (32765, False, (8, 0), "changes the producer id 0, whose epochs were not exhausted"),
        (32766, False, (8, 0), ""),
        (32767, False, (8, 0), ""),
        (32766, False, (8, 1), "begins a producer id with an epoch that is not 0"),
        (3, True, (8, 0), ""),
        (3, True, (8, 1), "begins a producer id with an epoch that is not 0"),
        (3, True, (0, 0), "has a lower epoch than 3, which it had before"),
        (3, True, (0, 4), ""),  # the removal could not be replicated in time, and was taken back
    ],
)
def test_another_producer_id_comes_where_epochs_are_exhausted_or_the_id_was_forgotten(tmp_path, epoch, removed, then, words):
    m = LogModel()
    m.initialise(0, "id")
    m.wear("id", epoch)
    if removed:
        m.state("id", "removed", producer_id=-1, producer_epoch=-1)
    m.ids["id"]["pid"], m.ids["id"]["epoch"] = then
    m.state("id", "Empty")
    document = m.judged(tmp_path)
    assert set(violated(document)) == ({"unlawful-state"} if words else set())
    assert words in said(document, "unlawful-state")


def test_the_first_epoch_of_an_id_is_0(tmp_path):
    m = LogModel()
    m.ids["id"] = {"pid": 9, "epoch": 4, "open": []}
    m.initialise(0, "id")
    assert "begins a producer id with an epoch that is not 0" in finding(m.judged(tmp_path), "unlawful-state")["sentence"]


def test_a_record_of_a_transaction_that_was_begun_and_then_forgotten_lies_behind_no_marker(tmp_path):
    m = LogModel()
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 1})
    m.transaction(0, {"t-0": 1}, answer="info", end=False)
    m.state("id", "removed", producer_id=-1, producer_epoch=-1)
    assert set(violated(m.judged(tmp_path))) == {"unlawful-state"}


def test_a_producer_id_that_an_id_had_left_does_not_come_back(tmp_path):
    m = LogModel()
    m.initialise(0, "id")
    m.wear("id", 32766)
    m.ids["id"]["epoch"] = 0
    for pid in (8, 0):
        m.ids["id"]["pid"] = pid
        m.state("id", "Empty")
    assert "returns to a producer id" in finding(m.judged(tmp_path), "unlawful-state")["sentence"]


def test_answers_ahead_of_the_log_are_found(tmp_path):
    m = two_producers()
    for row in m.rows:
        if row["state"] and row["state"]["transactional_id"] == "id-1" and row["kind"].endswith("Commit"):
            row["kind"] = row["kind"].replace("Commit", "Abort")
    document = m.judged(tmp_path)
    assert "was acknowledged as committed, and its coordinator logged no such decision" in said(document, "unlogged-answer")
    m = two_producers()
    m.h.add(5, "initialise", transactional_id="id-1")
    assert "2 calls of initialise returned for transactional id id-1" in said(m.judged(tmp_path), "unlogged-answer")
