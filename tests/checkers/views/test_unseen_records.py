"""Committed records that no reader had got yet, over time."""

import pytest
from support.histories import History

from fencepost.checkers.anomalies.real_time_order import real_time_inversion


@pytest.fixture
def judge_sends(judged):
    """Judge a history by one check, whichever only."""

    def run(history, contract=None):
        return judged(history, contract, checks=[real_time_inversion])

    return run


def test_a_record_is_unseen_from_its_commit_until_the_first_reader_got_it(judge_sends):
    h = History()
    h.txn(0, {"t-0": [5], "t-1": [1]})
    h.txn(0, {"t-0": [7]}, type="fail")
    h.poll(1, {"t-0": [5]})
    h.txn(0, {"t-0": [9]}, type="info")
    h.poll(1, {"t-1": [1]})
    h.txn(0, {"t-0": [11]})
    h.final({"t-0": [5, 11], "t-1": [1]})
    series = dict(map(tuple, judge_sends(h)["unseen"]))
    assert len(series) == 200

    def at(op, share):
        moment = h.ops[op]["time"] + int(share * 1_000_000)
        return series[min(series, key=lambda time: abs(time - moment))]

    assert [at(0, 0.3), at(0, 0.9), at(2, 0.2), at(2, 0.9), at(4, 0.9), at(5, 0.9)] == [0, 2, 2, 1, 0, 1]


def test_readers_that_go_on_after_the_last_writer_are_seen_catching_up(judge_sends):
    h = History()
    h.txn(0, {"t-0": [5, 6]})
    h.poll(1, {"t-0": [5]})
    h.poll(1, {"t-0": [6]})
    h.final({"t-0": [5, 6]})
    series = judge_sends(h)["unseen"]
    assert [count for _, count in series[::66]] == [0, 2, 1, 0]
    assert series[-1][0] == h.ops[2]["end"]
