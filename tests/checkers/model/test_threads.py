"""Several functions at once: the same answers as one after the other."""

from __future__ import annotations

import threading

import pytest

from fencepost.checkers.model.threads import results
from fencepost.checkers.testing import PartitionBuilder

DEADLINE_S = 30


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_answers_come_in_the_order_of_the_functions(threads):
    assert results([lambda n=n: n * n for n in range(7)], threads) == [0, 1, 4, 9, 16, 25, 36]


def test_two_functions_run_at_the_same_time():
    """Each waits for the other."""
    both = threading.Barrier(2)
    assert sorted(results([lambda: both.wait(DEADLINE_S)] * 2, threads=2)) == [0, 1]


def test_what_a_function_raises_is_raised_when_all_have_ended():
    raised, ended = threading.Event(), []

    def fails():
        raised.set()
        raise MemoryError("no room")

    def goes_on():
        ended.append(raised.wait(DEADLINE_S))

    with pytest.raises(MemoryError, match="no room"):
        results([fails, goes_on], threads=2)
    assert ended == [True]


def test_what_two_threads_need_of_a_log_is_computed_once():
    """The second asks while the first computes."""
    log, computing, calls = PartitionBuilder().log(), threading.Event(), []

    def made(log):
        calls.append(log.partition)
        computing.set()
        return [log.place, log.partition]

    def second():
        assert computing.wait(DEADLINE_S)
        return log.shared(made)

    first, other = results([lambda: log.shared(made), second], threads=2)
    assert first is other
    assert calls == ["t-0"]
    assert log.place is first[0]


def test_what_cannot_be_computed_raises_for_each_that_asks():
    log = PartitionBuilder().log()

    def broken(log):
        raise ValueError("too few")

    for _ in range(2):
        with pytest.raises(ValueError, match="too few"):
            log.shared(broken)
