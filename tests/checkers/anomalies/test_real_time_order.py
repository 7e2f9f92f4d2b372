"""`real-time-inversion`: guilty histories, and innocent ones that look alike; and every pair looked at."""

import numpy as np
import pytest
from support.histories import History, answer, finding, violated

from fencepost.checkers.anomalies.real_time_order import _first_acknowledged_above, _inverted, real_time_inversion

STRICT = {"strict_realtime": "true"}


@pytest.fixture
def judge_sends(judged):
    """Judge a history by this check only."""

    def run(history, contract=None):
        return judged(history, contract, checks=[real_time_inversion])

    return run


def test_a_record_below_one_that_was_acknowledged_before_it_was_sent_is_inverted(judge_sends):
    h = History()
    first = h.txn(0, {"t-0": [7]})
    second = h.txn(1, {"t-0": [5]})
    h.poll(2, {"t-0": [5, 7]})
    document = judge_sends(h, STRICT)
    assert violated(document) == ["real-time-inversion"]
    assert finding(document, "real-time-inversion")["operations"] == [first, second]
    assert finding(document, "real-time-inversion")["sentence"] == (
        "Transaction 0 of process 0 had its record at t-0@7 acknowledged before transaction 0 of process 1 "
        "sent the one that lies below it, at t-0@5."
    )


def test_an_inversion_is_only_reported_unless_the_contract_is_strict(judge_sends):
    h = History()
    h.txn(0, {"t-0": [7]})
    h.txn(1, {"t-0": [5]})
    for contract in ({}, {**STRICT, "acks": "1"}, {**STRICT, "unclean_leader_election": "true"}):
        document = judge_sends(h, contract)
        assert violated(document) == []
        assert answer(document, "real-time-inversion")["count"] == 1


def test_sends_that_overlap_may_lie_either_way(judge_sends):
    h = History()
    h.txn(0, {"t-0": [7]})
    h.txn(1, {"t-0": [5]})
    began = h.ops[1]["mops"][0][4]
    h.ops[0]["mops"] = [(*h.ops[0]["mops"][0][:5], began)]
    assert violated(judge_sends(h, STRICT)) == []


def test_without_an_acknowledgement_a_send_orders_nothing(judge_sends):
    h = History()
    h.txn(0, {"t-0": [None]}, type="info")
    high = h.ops[0]["mops"][0][2]
    h.txn(1, {"t-0": [5]})
    h.poll(2, {"t-0": [5, (7, high)]})
    assert violated(judge_sends(h, STRICT)) == []


def test_aborted_unseen_and_lost_records_have_no_place(judge_sends):
    for type, visible in (("fail", [5]), ("info", [5]), ("ok", [5])):
        h = History()
        h.txn(0, {"t-0": [7]}, type=type)
        h.txn(1, {"t-0": [5]})
        h.final({"t-0": visible})
        assert violated(judge_sends(h, STRICT)) == []


def test_an_inversion_behind_one_of_the_same_process_is_found(judge_sends):
    """Process 0's own record at 9 was acknowledged first of all, which is another check's business; process 1's at 7 is not."""
    h = History()
    h.txn(0, {"t-0": [9]})
    h.txn(1, {"t-0": [7]})
    h.ops[1]["mops"] = [(*h.ops[1]["mops"][0][:4], h.ops[0]["time"], h.ops[1]["mops"][0][5])]
    h.txn(0, {"t-0": [5]})
    document = judge_sends(h, STRICT)
    assert [record["offset"] for record in finding(document, "real-time-inversion")["records"]] == [5, 7]


@pytest.mark.parametrize("seed", range(20))
def test_inversions_agree_with_a_comparison_of_every_pair(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 30))
    began = rng.integers(0, 40, count)
    ended = began + rng.integers(1, 20, count)
    process = rng.integers(0, 4, count)
    low, high = _inverted(began, ended, process)
    expected = {}
    for lower in range(count):
        above = [
            higher for higher in range(lower + 1, count) if process[higher] != process[lower] and ended[higher] < began[lower]
        ]
        if above:
            expected[lower] = min(ended[higher] for higher in above)
    assert {int(lower): int(ended[higher]) for lower, higher in zip(low, high, strict=True)} == expected


def test_the_first_acknowledged_above_a_place_has_the_earliest_acknowledgement_of_all_higher_places():
    assert _first_acknowledged_above(np.array([5, 3, 9, 4])).tolist() == [1, 3, 3, 4]
