"""The order of one producer's sends: guilty histories, and innocent ones that look alike."""

from dataclasses import replace

import numpy as np
import pytest
from support.histories import History, answer, finding, violated
from support.judging import judge_here

from fencepost.checkers.anomalies import producer_order
from fencepost.checkers.anomalies.producer_order import int_nonmonotonic_send, int_send_skip, nonmonotonic_send, order_inversion
from fencepost.checkers.history.scan import COLUMNS_OF, READS, SENDS
from fencepost.checkers.model.values import NONE, FinalRead, Resets, Settings
from fencepost.checkers.verdict.judge import judge
from fencepost.checkers.views.assembly import sorted_log
from fencepost.harness.api import record_ids
from fencepost.harness.api.evidence import Evidence, Gap, GapKind
from fencepost.harness.history.run_directory import open_run

PLAIN = {"transactional": "false", "isolation": "read_uncommitted"}
CARELESS = {**PLAIN, "idempotence": "false"}
CHECKS = (nonmonotonic_send, int_nonmonotonic_send, int_send_skip)


@pytest.fixture
def judge_sends(judged):
    """Judge a history by these checks only."""

    def run(history, contract=None):
        return judged(history, contract, checks=CHECKS)

    return run


# ---- order-inversion ----
def test_two_transactions_of_one_process_stored_the_other_way_round_are_inverted(judged):
    h = History()
    h.txn(0, {"t-0": [7]})
    h.txn(0, {"t-0": [5]})
    h.final({"t-0": [5, 7]})
    assert violated(judged(h)) == ["order-inversion"]


@pytest.mark.parametrize(
    ("polled", "contract", "verdict"),
    [
        ([5, 7], {}, "violated"),
        ([5], {}, "unknown"),  # the other one may have been lost, and its offset given away again
        ([5, 7], {**CARELESS, "max_in_flight": "1"}, "unknown"),  # it may lie lower, too: a retry is stored again
    ],
)
def test_an_inversion_that_readers_got_needs_no_final_read(tmp_path, polled, contract, verdict):
    h = History()
    (h.send if contract else h.txn)(0, {"t-0": [7]})
    (h.send if contract else h.txn)(0, {"t-0": [5]})
    h.poll(2, {"t-0": polled})
    h.final({"t-0": []}, position=500)
    judge_here(tmp_path, h.ops, contract, [order_inversion])
    gap = Gap(file="c9-0.jsonl", why="is shorter", kind=GapKind.SHORTENED, evidence=(Evidence.FINAL_COMMITTED,))
    document = judge(replace(open_run(tmp_path), gaps=(gap,)), here=True, checks=[order_inversion])
    assert answer(document, "order-inversion")["verdict"] == verdict


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


def _random_sends(rng):
    """Up to 30 sends of up to 6 producers, with ties of moments and places: v, offset, began and ended."""
    count = int(rng.integers(1, 30))
    sends = {name: np.zeros(count, dtype=np.int64) for name in COLUMNS_OF[SENDS]}
    sends["v"] = np.array([record_ids.record_id(int(process), op, 0) for op, process in enumerate(rng.integers(0, 6, count))])
    sends["offset"] = rng.integers(NONE, 20, count) << rng.choice([0, 55])  # far apart: too far to be lifted by process
    sends["began"] = rng.integers(0, 40, count)
    sends["ended"] = np.where(rng.random(count) < 0.2, NONE, sends["began"] + rng.integers(0, 20, count))
    return sends


def _inversions_of_every_pair(log):
    """Later sends that lie below a predecessor, with the place of the highest one; and how many had a predecessor."""
    sends, inversions, compared = log.sends, {}, 0
    for later in range(len(sends)):
        before = [
            earlier
            for earlier in range(later)
            if record_ids.process_of(sends.v[earlier]) == record_ids.process_of(sends.v[later])
        ]
        if not log.settings.pipelined_order:
            same = np.flatnonzero(record_ids.process_of(sends.v) == record_ids.process_of(sends.v[later]))
            before = [earlier for earlier in same if log.acked[earlier] and sends.ended[earlier] < sends.began[later]]
        places = [int(log.place[earlier]) for earlier in before if log.place[earlier] != NONE]
        if log.place[later] != NONE and places:
            compared += 1
            if max(places) > log.place[later]:
                inversions[int(sends.v[later])] = max(places)
    return inversions, compared


@pytest.mark.parametrize("pipelined", [True, False])
@pytest.mark.parametrize("part", [1, 7, 1 << 21])
def test_inversions_agree_with_a_comparison_of_every_pair_of_each_producer(part, pipelined, monkeypatch):
    monkeypatch.setattr(producer_order, "SLICE", part)
    for seed in range(60):
        reads = {name: np.zeros(0, dtype=np.int64) for name in COLUMNS_OF[READS]}
        settings = Settings(pipelined_order=pipelined)
        log = sorted_log("t-0", _random_sends(np.random.default_rng(seed)), reads, FinalRead(), settings, Resets())
        result = order_inversion(log)
        low, high = np.split(np.arange(result.count), 2)
        rows = result.rows
        inversions = dict(zip(rows["v"][low].tolist(), rows["offset"][high].tolist(), strict=True)) if result.count else {}
        assert (inversions, result.compared) == _inversions_of_every_pair(log)


# ---- neighbours of one producer ----
def test_neighbouring_sends_stored_the_other_way_round_are_reported_as_nonmonotonic(judge_sends):
    h = History()
    h.txn(0, {"t-0": [7]})
    h.txn(0, {"t-0": [5]})
    h.txn(1, {"t-1": [3, 2]})
    document = judge_sends(h)
    assert violated(document) == []
    assert answer(document, "nonmonotonic-send")["count"] == 1
    assert answer(document, "int-nonmonotonic-send")["count"] == 1
    assert finding(document, "int-nonmonotonic-send")["sentence"] == (
        "Transaction 0 of process 1 sent t-1@3 first and t-1@2 next, which lies before it."
    )


def test_neighbouring_sends_in_order_or_of_two_processes_are_not_reported(judge_sends):
    h = History()
    h.txn(0, {"t-0": [5, 6]})
    h.txn(0, {"t-0": [7]})
    h.txn(1, {"t-0": [2]})
    document = judge_sends(h)
    assert answer(document, "nonmonotonic-send")["verdict"] == answer(document, "int-nonmonotonic-send")["verdict"] == "held"


def test_a_record_between_two_of_one_transaction_is_a_send_skip_of_which_some_examples_are_listed(judge_sends):
    h = History()
    for number in range(30):
        h.txn(0, {"t-0": [number * 4, number * 4 + 2]})
        h.txn(1, {"t-0": [number * 4 + 1]})
    document = judge_sends(h)
    skips = answer(document, "int-send-skip")
    assert skips["count"] == 20
    assert skips["reason"] == "10 more were found; only examples are kept"


def test_a_gap_of_offsets_between_two_of_one_transaction_is_no_skip(judge_sends):
    h = History()
    h.txn(0, {"t-0": [5, 9]})
    h.txn(1, {"t-0": [7]}, type="fail")
    assert answer(judge_sends(h), "int-send-skip")["verdict"] == "held"
