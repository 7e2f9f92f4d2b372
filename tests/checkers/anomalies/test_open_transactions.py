"""Reads past transactions that did not commit and were surely open: they sent on, and the broker took it."""

import pytest
from support.histories import COMMITTED, STEP, UNCOMMITTED, History, answer, finding, violated

ANYWHERE = {"first_poll": "anywhere"}


def read_past(type="fail", place=8, partition="t-0", isolation=COMMITTED, wait=3, witness=True):
    """Process 1 sends t-0@5, process 2 commits t-0@6, which process 3 reads; then process 1 sends on, to `place` of a partition
    (None: not acknowledged), and its transaction ends. wait: milliseconds until it sends on."""
    h = History()
    begin = h.now
    h.txn(1, {"t-0": 5})
    h.ops[0]["mops"] += History._sends(h, 1, {partition: place})
    first, second = h.ops[0]["mops"]
    later = begin + wait * STEP
    v = second[2] + 1
    h.ops[0]["mops"] = [first, (0, partition, v, place, later, None if place is None else later + 5)]
    h.ops[0].update(type=type, intent="commit" if type == "info" else "abort", decided=None, end=begin + 4 * STEP)
    h.txn(2, {"t-0": 6})
    h.poll(3, {"t-0": [6]}, isolation)
    h.now = begin + 10 * STEP
    held = [5, 6, (place, v)] if partition == "t-0" and place else [5, 6]
    h.final({"t-0": [6], "t-1": []}, {"t-0": held if witness else [6], "t-1": []})
    return h


@pytest.mark.parametrize("type", ["fail", "ok", "info"])
def test_a_transaction_that_sends_on_and_is_taken_was_open_all_the_time(judged, type):
    """Whatever becomes of it: after an ABORT marker the broker refuses the producer, whose epoch is over (KIP-98)."""
    document = judged(read_past(type), ANYWHERE)
    assert violated(document) == ["lso-overrun"]
    assert finding(document, "lso-overrun")["sentence"].endswith(
        "past t-0@5 of transaction 0 of process 1, which was open: 0.5 ms later it sent a record to t-0 that was appended."
    )


@pytest.mark.parametrize(
    "otherwise",
    [
        {"place": None},  # refused: its timeout may have ended the transaction before
        {"wait": 1},  # sent before the read, and aborted by then, for all that is known
        {"partition": "t-1", "place": 3},  # markers are written partition by partition
        {"isolation": UNCOMMITTED},
        {"witness": False},  # the log holds neither record: they were acknowledged, and never appended
    ],
)
def test_a_transaction_may_have_been_aborted_before_it_ended(judged, otherwise):
    document = judged(read_past(**otherwise), ANYWHERE)
    assert "lso-overrun" not in violated(document)


def test_what_is_not_known_to_have_been_open_is_not_compared(judged):
    assert answer(judged(read_past(place=None), ANYWHERE), "lso-overrun")["compared"] == 0
