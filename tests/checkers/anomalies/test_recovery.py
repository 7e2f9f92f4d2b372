"""Clients that do not come back after the last fault was healed, and those that do, or had no time to."""

import json
from random import Random

import pytest
from support.histories import History, answer, finding, violated, write_faults
from support.judging import judge_here

from fencepost.checkers.anomalies.recovery import no_recovery
from fencepost.harness.api.evidence import Evidence, Gap
from fencepost.harness.api.recovery import WITHOUT_ANSWER
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.report.documents import read
from fencepost.harness.report.model import page

SECOND = 1_000_000_000
FIRST_S, HEALED_S, GRACE_S, BOUND_S = 2, 5, 20, 30
PLAN = {"recovery": {"grace_s": float(GRACE_S), "bound_s": float(BOUND_S)}}
FAULT = {"id": 0, "kind": "kill", "injected_ns": FIRST_S * SECOND, "healed_ns": HEALED_S * SECOND, "effective": True}


def at(h, seconds):
    h.now = round(seconds * SECOND)


def judged(tmp_path, h, *faults, plan=PLAN, **fields):
    write_faults(tmp_path, *(faults or (FAULT,)))
    return judge_here(tmp_path, h.ops, checks=[no_recovery], **plan, **fields)


def story(late="info", healthy=True):
    """Process 0 fails for ever after the fault (or ends its operations otherwise); process 1 writes on."""
    h = History()
    for process in (0, 1):
        h.send(process, {"t-0": [process]})
    for number, second in enumerate(range(3, 41, 3)):
        at(h, second)
        h.send(0, {"t-0": [None]}, late if second > HEALED_S else "info", slot=0)
        if healthy:
            h.send(1, {"t-0": [10 + number]}, slot=1)
    return h


def test_a_client_that_fails_for_ever_after_healing_is_accused(tmp_path):
    h = story()
    h.ops[-2]["errors"] = [{"call": "flush", "name": "_TIMED_OUT", "code": -185, "text": "", "time": 1}]
    document = judged(tmp_path, h)
    assert violated(document) == ["no-recovery"]
    row = finding(document, "no-recovery")
    assert row["sentence"].startswith("No operation of the writer c0 (process 0) succeeded within 30 s after the last fault")
    assert "12 operations began after it" in row["sentence"]
    assert row["operations"] == [max(op["index"] for op in h.ops if op["process"] == 0 and op["time"] <= 35 * SECOND)]
    assert answer(document, "no-recovery")["compared"] == 2


def test_its_card_has_the_last_operation_and_no_record(tmp_path):
    document = judged(tmp_path, story(), run="r")
    (tmp_path / "verdict.json").write_text(json.dumps(document))
    (card,) = page(read(open_run(tmp_path))).cards
    assert (card.records, card.stored, card.more_records, len(card.operations)) == ((), None, 0, 1)


def test_a_client_that_had_failed_before_there_was_a_fault_has_nothing_to_recover_from(tmp_path):
    h = story()
    mine = [op for op in h.ops if op["process"] == 0]
    mine[0] |= {"type": "fail"}
    document = judged(tmp_path, h)
    assert (violated(document), answer(document, "no-recovery")["compared"]) == ([], 1)
    mine[1] |= {"type": "ok"}
    assert violated(judged(tmp_path, h)) == ["no-recovery"], "it had worked once"


@pytest.mark.parametrize(("pair", "judges"), [((5, 5), True), ((4, 5), False), ((9, 5), False), ((-1, 5), True)])
def test_a_client_may_wait_where_a_last_stable_offset_stayed_behind_or_contradicts_itself(tmp_path, pair, judges):
    h = story()
    h.settle({"t-0": pair}, type="info")
    assert violated(judged(tmp_path, h)) == ["no-recovery"] * judges


@pytest.mark.parametrize("late", ["ok", "fail"])
def test_a_client_that_succeeds_is_not_and_a_refusal_is_no_success(tmp_path, late):
    assert violated(judged(tmp_path, story(late))) == ["no-recovery"] * (late == "fail")


def test_one_success_within_the_bound_is_enough(tmp_path):
    h = story()
    at(h, 33)
    h.send(0, {"t-0": [99]})
    h.ops.sort(key=lambda op: op["time"])
    for index, op in enumerate(h.ops):
        op["index"] = index
    assert violated(judged(tmp_path, h)) == []


def test_the_success_of_the_process_after_it_in_its_slot_counts(tmp_path):
    h = story()
    at(h, 34)
    h.send(12, {"t-0": [98]}, slot=0)
    h.ops.sort(key=lambda op: op["time"])
    for index, op in enumerate(h.ops):
        op["index"] = index
    assert violated(judged(tmp_path, h)) == []


def test_an_operation_that_never_ends_is_accused(tmp_path):
    h = story()
    h.ops = [op for op in h.ops if op["process"] == 1 or op["time"] < 4 * SECOND]
    last = [op for op in h.ops if op["process"] == 0][-1]
    last["end"] = None
    for index, op in enumerate(h.ops):
        op["index"] = index
    assert violated(judged(tmp_path, h)) == ["no-recovery"]


def test_a_client_that_ended_before_the_bound_is_not_compared(tmp_path):
    h = story()
    h.ops = [op for op in h.ops if op["process"] == 1 or op["time"] < 30 * SECOND]
    for index, op in enumerate(h.ops):
        op["index"] = index
    document = judged(tmp_path, h)
    assert violated(document) == []
    assert answer(document, "no-recovery")["compared"] == 1


@pytest.mark.parametrize(
    ("faults", "plan", "why"),
    [
        ([{**FAULT, "injected_ns": 0}], PLAN, "no fault was healed"),
        ([{**FAULT, "healed_ns": 0}], PLAN, "a fault was not healed"),
        ([FAULT], {}, "its plan has no bound"),
        ([FAULT, {**FAULT, "id": 1, "healed_ns": 20 * SECOND}], PLAN, ""),  # the bound counts from the last one
    ],
)
def test_without_a_last_healing_or_a_bound_nobody_is_accused(tmp_path, faults, plan, why):
    document = judged(tmp_path, story(healthy=False), *faults, plan=plan)
    row = answer(document, "no-recovery")
    assert row["verdict"] == "not exercised"
    assert why in row["reason"]


def test_nobody_is_accused_where_a_last_stable_offset_stayed_behind(tmp_path):
    h = story()
    h.settle({"t-0": (7, 9)}, type="info", bound_s=25.0)
    assert "lso-stall" in answer(judged(tmp_path, h), "no-recovery")["reason"]


@pytest.mark.parametrize("evidence", [Evidence.OUTCOMES, Evidence.RECEIPTS, Evidence.SENDS])
def test_a_gap_that_may_hold_the_success_takes_the_accusation(tmp_path, evidence):
    gap = Gap(file="w1.jsonl", why="lines are missing", role="writer", slot=0, evidence=(evidence,))
    (tmp_path / "damage.json").write_text(json.dumps({"gaps": [gap.document()]}))
    assert answer(judged(tmp_path, story()), "no-recovery")["verdict"] != "violated"


# --------------------------------------------------------------------------------------------------
# Readers, and members without a partition
# --------------------------------------------------------------------------------------------------
def reading(got_by_another=True, later=()):
    """Process 0 writes; reader 2 got a record before the fault, and after it only what `later` says."""
    h = History()
    h.send(0, {"t-0": [0]})
    h.poll(2, {"t-0": [0]}, slot=2)
    for number, second in enumerate(range(3, 41, 3), 1):
        at(h, second)
        h.send(0, {"t-0": [number]})
        h.poll(2, {"t-0": later} if second > 30 and later else {}, slot=2)
    if got_by_another:
        h.poll(3, {"t-0": range(14)}, slot=3)
    return h


def test_a_reader_that_gets_nothing_of_what_others_get_is_accused(tmp_path):
    document = judged(tmp_path, reading())
    assert violated(document) == ["no-recovery"]
    assert "the reader c2 (process 2) got a record within 30 s" in finding(document, "no-recovery")["sentence"]


@pytest.mark.parametrize(("got_by_another", "later"), [(False, ()), (True, (3,))])
def test_a_reader_is_not_where_there_was_nothing_to_get_or_it_got_it(tmp_path, got_by_another, later):
    assert violated(judged(tmp_path, reading(got_by_another, later))) == []


def test_a_member_that_only_polls_is_not_accused(tmp_path):
    h = story("ok")
    for second in range(6, 41, 2):
        at(h, second + 0.5)
        h.poll(4, {}, slot=4, role="member")
    h.ops.sort(key=lambda op: op["time"])
    for index, op in enumerate(h.ops):
        op["index"] = index
    assert violated(judged(tmp_path, h)) == []


# --------------------------------------------------------------------------------------------------
# Random clients
# --------------------------------------------------------------------------------------------------
def lost_clients(ops):
    """The slots of writers that are accused, by looking at every operation for each of them."""
    healed, grace, until = ((HEALED_S + more) * SECOND for more in (0, GRACE_S, BOUND_S))
    over = max(op["end"] or op["time"] for op in ops)
    lost = set()
    for slot in {op["slot"] for op in ops}:
        every = [op for op in ops if op["slot"] == slot and (op["end"] is None or op["end"] > healed)]
        own = [op for op in every if op["time"] <= until]
        succeeded = any(op["type"] == "ok" and op["f"] not in WITHOUT_ANSWER and op["end"] <= until for op in own)
        still = [op for op in every if op["end"] is None or op["end"] >= until]
        late = [op for op in own if op["type"] != "ok" and (op["time"] >= grace or op in still)]
        ever = [op for op in ops if op["slot"] == slot]
        early = [op for op in ever if op["type"] != "ok" and op["end"] is not None and op["end"] < FIRST_S * SECOND]
        if early and not any(op["type"] == "ok" for op in ever):
            continue
        if not succeeded and still and late and over >= until:
            lost.add(slot)
    return lost


@pytest.mark.parametrize("seed", range(30))
def test_random_clients_are_accused_as_by_the_slow_twin(tmp_path, seed):
    rng = Random(seed)
    h = History()
    h.now = SECOND
    healthy = [rng.choice([0.0, 0.05, 0.6]) for _ in range(4)]
    for _ in range(60):
        slot = rng.randrange(4)
        type = "ok" if rng.random() < healthy[slot] else rng.choice(["info", "fail"])
        at = h.send(slot, {"t-0": [None]}, type, slot=slot)
        h.ops[at]["end"] = None if type == "info" and rng.random() < 0.1 else h.now + rng.randrange(3) * SECOND
        h.now += rng.randrange(1, 1200) * SECOND // 1000
    document = judged(tmp_path, h)
    accused = {int(h.ops[row["operations"][0]]["slot"]) for row in document["findings"]}
    assert accused == lost_clients(h.ops)
