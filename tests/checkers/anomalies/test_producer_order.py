"""The order of sends in real time and among neighbours; and how many committed records were unseen, over time."""

import numpy as np
import pytest
from support.histories import History, answer, finding, violated

from checkers.anomalies.producer_order import (
    _first_above,
    int_nonmonotonic_send,
    int_send_skip,
    nonmonotonic_send,
    real_time_inversion,
)

CHECKS = (real_time_inversion, nonmonotonic_send, int_nonmonotonic_send, int_send_skip)
STRICT = {"strict_realtime": "true"}


@pytest.fixture
def sent(judged):
    """Judge a history by these checks only."""

    def run(history, contract=None):
        return judged(history, contract, checks=CHECKS)

    return run


# ---- real-time-inversion ----
def test_a_record_below_one_that_was_acknowledged_before_it_was_sent_is_inverted(sent):
    h = History()
    first = h.txn(0, {"t-0": [7]})
    second = h.txn(1, {"t-0": [5]})
    h.poll(2, {"t-0": [5, 7]})
    document = sent(h, STRICT)
    assert violated(document) == ["real-time-inversion"]
    assert finding(document, "real-time-inversion")["operations"] == [first, second]
    assert finding(document, "real-time-inversion")["sentence"] == (
        "Transaction 0 of process 0 had its record at t-0@7 acknowledged before transaction 0 of process 1 "
        "sent the one that lies below it, at t-0@5."
    )


def test_an_inversion_is_only_reported_unless_the_contract_is_strict(sent):
    h = History()
    h.txn(0, {"t-0": [7]})
    h.txn(1, {"t-0": [5]})
    for contract in ({}, {**STRICT, "acks": "1"}, {**STRICT, "unclean_leader_election": "true"}):
        document = sent(h, contract)
        assert violated(document) == []
        assert answer(document, "real-time-inversion")["count"] == 1


def test_sends_that_overlap_may_lie_either_way(sent):
    h = History()
    h.txn(0, {"t-0": [7]})
    h.txn(1, {"t-0": [5]})
    began = h.ops[1]["mops"][0][4]
    h.ops[0]["mops"] = [(*h.ops[0]["mops"][0][:5], began)]
    assert violated(sent(h, STRICT)) == []


def test_without_an_acknowledgement_a_send_orders_nothing(sent):
    h = History()
    h.txn(0, {"t-0": [None]}, type="info")
    high = h.ops[0]["mops"][0][2]
    h.txn(1, {"t-0": [5]})
    h.poll(2, {"t-0": [5, (7, high)]})
    assert violated(sent(h, STRICT)) == []


def test_aborted_unseen_and_lost_records_have_no_place(sent):
    for type, visible in (("fail", [5]), ("info", [5]), ("ok", [5])):
        h = History()
        h.txn(0, {"t-0": [7]}, type=type)
        h.txn(1, {"t-0": [5]})
        h.final({"t-0": visible})
        assert violated(sent(h, STRICT)) == []


def test_an_inversion_behind_one_of_the_same_process_is_found(sent):
    """Process 0's own record at 9 was acknowledged first of all, which is another check's business; process 1's at 7 is not."""
    h = History()
    h.txn(0, {"t-0": [9]})
    h.txn(1, {"t-0": [7]})
    h.ops[1]["mops"] = [(*h.ops[1]["mops"][0][:4], h.ops[0]["time"], h.ops[1]["mops"][0][5])]
    h.txn(0, {"t-0": [5]})
    document = sent(h, STRICT)
    assert [one["offset"] for one in finding(document, "real-time-inversion")["records"]] == [5, 7]


@pytest.mark.parametrize("seed", range(20))
def test_inversions_agree_with_every_pair_looked_at(seed):
    from checkers.anomalies.producer_order import _inverted

    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 30))
    began = rng.integers(0, 40, count)
    ended = began + rng.integers(1, 20, count)
    process = rng.integers(0, 4, count)
    low, high = _inverted(began, ended, process)
    expected = {}
    for one in range(count):
        above = [two for two in range(one + 1, count) if process[two] != process[one] and ended[two] < began[one]]
        if above:
            expected[one] = min(ended[two] for two in above)
    assert {int(one): int(ended[two]) for one, two in zip(low, high, strict=True)} == expected


def test_the_first_acknowledged_above_each_place():
    assert _first_above(np.array([5, 3, 9, 4])).tolist() == [1, 3, 3, 4]


# ---- neighbours ----
def test_neighbours_of_one_process_the_other_way_round_are_reported(sent):
    h = History()
    h.txn(0, {"t-0": [7]})
    h.txn(0, {"t-0": [5]})
    h.txn(1, {"t-1": [3, 2]})
    document = sent(h)
    assert violated(document) == []
    assert answer(document, "nonmonotonic-send")["count"] == 1
    assert answer(document, "int-nonmonotonic-send")["count"] == 1
    assert finding(document, "int-nonmonotonic-send")["sentence"] == (
        "Transaction 0 of process 1 sent t-1@3 first and t-1@2 next, which lies before it."
    )


def test_neighbours_in_order_and_of_two_processes_are_not(sent):
    h = History()
    h.txn(0, {"t-0": [5, 6]})
    h.txn(0, {"t-0": [7]})
    h.txn(1, {"t-0": [2]})
    document = sent(h)
    assert answer(document, "nonmonotonic-send")["verdict"] == answer(document, "int-nonmonotonic-send")["verdict"] == "held"


def test_a_record_between_two_of_one_transaction_is_reported_with_examples_only(sent):
    h = History()
    for number in range(30):
        h.txn(0, {"t-0": [number * 4, number * 4 + 2]})
        h.txn(1, {"t-0": [number * 4 + 1]})
    document = sent(h)
    said = answer(document, "int-send-skip")
    assert said["count"] == 20
    assert said["reason"] == "10 more were found; only examples are kept"


def test_a_gap_of_offsets_between_two_of_one_transaction_is_no_skip(sent):
    h = History()
    h.txn(0, {"t-0": [5, 9]})
    h.txn(1, {"t-0": [7]}, type="fail")
    assert answer(sent(h), "int-send-skip")["verdict"] == "held"


# ---- unseen ----
def test_a_record_is_unseen_from_its_commit_until_the_first_reader_got_it(sent):
    h = History()
    h.txn(0, {"t-0": [5], "t-1": [1]})
    h.txn(0, {"t-0": [7]}, type="fail")
    h.poll(1, {"t-0": [5]})
    h.txn(0, {"t-0": [9]}, type="info")
    h.poll(1, {"t-1": [1]})
    h.txn(0, {"t-0": [11]})
    h.final({"t-0": [5, 11], "t-1": [1]})
    series = dict(map(tuple, sent(h)["unseen"]))
    assert len(series) == 200

    def at(op, share):
        moment = h.ops[op]["time"] + int(share * 1_000_000)
        return series[min(series, key=lambda time: abs(time - moment))]

    assert [at(0, 0.3), at(0, 0.9), at(2, 0.2), at(2, 0.9), at(4, 0.9), at(5, 0.9)] == [0, 2, 2, 1, 0, 1]


def test_readers_that_go_on_after_the_last_writer_are_seen_catching_up(sent):
    h = History()
    h.txn(0, {"t-0": [5, 6]})
    h.poll(1, {"t-0": [5]})
    h.poll(1, {"t-0": [6]})
    h.final({"t-0": [5, 6]})
    series = sent(h)["unseen"]
    assert [count for _, count in series[::66]] == [0, 2, 1, 0]
    assert series[-1][0] == h.ops[2]["end"]
