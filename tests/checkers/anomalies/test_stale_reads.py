"""`stale-read`: guilty histories, and innocent ones that look alike."""

import pytest
from support.histories import COMMITTED, UNCOMMITTED, History, finding, violated

from fencepost.checkers.anomalies.losses import lost_write
from fencepost.checkers.anomalies.polls import int_nonmonotonic_poll, int_poll_skip, nonmonotonic_poll, poll_skip
from fencepost.checkers.anomalies.stale_reads import stale_read

CHECKS = (poll_skip, int_poll_skip, nonmonotonic_poll, int_nonmonotonic_poll, stale_read, lost_write)


@pytest.fixture
def judge_reads(judged):
    """Judge a history by these checks only."""

    def run(history, contract=None):
        return judged(history, contract, checks=CHECKS)

    return run


def test_a_final_read_without_what_another_reader_got_is_stale(judge_reads):
    """The end that it was given lies below the record. The commit's outcome is unknown, so nothing was promised."""
    h = History()
    h.txn(0, {"t-0": [5]})
    h.txn(0, {"t-0": [None]}, type="info")
    late = h.ops[1]["mops"][0][2]
    h.poll(1, {"t-0": [5, (7, late)]})
    h.final({"t-0": [5]})
    document = judge_reads(h)
    assert violated(document) == ["stale-read"]
    assert finding(document, "stale-read")["sentence"] == (
        "The complete read_committed final read of process 90 did not return t-0@7, "
        "although poll 0 of process 1 got t-0@7 before it began."
    )


def test_a_final_read_is_not_stale_if_others_got_the_record_after_it_began(judge_reads):
    h = History()
    h.txn(0, {"t-0": [5]})
    h.txn(0, {"t-0": [None]}, type="info")
    late = h.ops[1]["mops"][0][2]
    h.final({"t-0": [5]})
    h.poll(1, {"t-0": [5, (7, late)]})
    assert violated(judge_reads(h)) == []


def test_neither_an_incomplete_final_read_nor_an_uncommitted_reader_makes_a_stale_read(judge_reads):
    for isolation, position in ((COMMITTED, 6), (UNCOMMITTED, 1000)):
        h = History()
        h.txn(0, {"t-0": [5]})
        h.txn(0, {"t-0": [None]}, type="info")
        late = h.ops[1]["mops"][0][2]
        h.poll(1, {"t-0": [5, (7, late)]}, isolation)
        h.final({"t-0": [5]}, position=position)
        assert violated(judge_reads(h)) == []


@pytest.mark.parametrize(("offset", "names"), [(None, ["stale-read"]), (7, ["lost-write", "stale-read"])])
def test_what_a_final_read_has_jumped_over_is_not_also_skipped(judge_reads, offset, names):
    """The outcome of the commit is unknown, and a reader that got the record proves it. That it is gone is one cause."""
    h = History()
    h.txn(0, {"t-0": [5]})
    h.txn(1, {"t-0": [offset]}, type="info")
    late = h.ops[1]["mops"][0][2]
    h.txn(0, {"t-0": [9]})
    h.poll(2, {"t-0": [5, (7, late), 9]})
    h.final({"t-0": [5, 9]})
    assert violated(judge_reads(h)) == names


def test_what_others_got_only_after_the_final_read_began_is_skipped_by_it(judge_reads):
    h = History()
    h.txn(0, {"t-0": [5]})
    h.txn(1, {"t-0": [None]}, type="info")
    late = h.ops[1]["mops"][0][2]
    h.txn(0, {"t-0": [9]})
    h.final({"t-0": [5, 9]})
    h.poll(2, {"t-0": [5, (7, late), 9]})
    document = judge_reads(h)
    assert violated(document) == ["int-poll-skip"]
    assert len(document["findings"]) == 2, "of each final reader"
