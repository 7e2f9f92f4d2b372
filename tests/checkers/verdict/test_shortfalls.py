"""A run that tested less than its test asks: what falls short is said with its numbers, and is no success."""

from __future__ import annotations

import json

import pytest
from support.histories import History, write_faults
from support.judging import judge_here

from fencepost.harness.api.clocks_ahead import ClockJump
from fencepost.harness.api.evidence import Manifest
from fencepost.harness.history.run_directory import write_manifest

SCHEDULE = [{"id": number, "kind": kind, "at_s": number} for number, kind in enumerate(["kill", "kill", "pause"])]


def history():
    """Three transactions of two records each, read back."""
    h, offsets = History(), (0, 2, 4)
    for offset in offsets:
        h.txn(0, {"t-0": [offset], "t-1": [offset]})
    h.final({"t-0": list(offsets), "t-1": list(offsets)})
    return h.ops


@pytest.fixture
def judged(tmp_path):
    """Judges a lawful run of three transactions; workload_s, stopped: of its manifest; plan: more keys of the plan."""

    def judge(workload_s=40.0, stopped="", manifest=True, **plan):
        if manifest:
            attested = Manifest(run="r", slots=3, complete=True, files=(), workload_s=workload_s, stopped=stopped)
            write_manifest(tmp_path, attested)
        return judge_here(tmp_path, history(), time_s=40.0, **plan)

    return judge


def test_a_run_that_was_performed_as_planned_has_no_shortfall(judged):
    document = judged()
    assert (document["verdict"], document["expectation_met"], document["shortfalls"]) == ("valid", True, [])


def test_what_ended_without_a_fault_is_named(tmp_path):
    write_manifest(tmp_path, Manifest(run="r", slots=3, complete=True, files=(), ended=("n2", "the proxy before n1")))
    document = judge_here(tmp_path, history())
    assert document["verdict"] == "valid"
    assert document["weakened"][0].startswith("n2 and the proxy before n1 ended, and no fault ended it")


def test_a_jump_of_the_machines_clock_is_named(tmp_path):
    jumps = (ClockJump(at_ns=5, by_s=-9000.0),)
    write_manifest(tmp_path, Manifest(run="r", slots=3, complete=True, files=(), clock_jumps=jumps))
    document = judge_here(tmp_path, history())
    assert document["verdict"] == "valid"
    assert document["weakened"][0].startswith("the machine's clock jumped by -9000 s, and no fault did that")


def test_a_run_that_was_stopped_is_not_known_to_be_as_expected(judged):
    document = judged(5.2, "Ctrl-C")
    assert (document["verdict"], document["expectation_met"]) == ("valid", None)
    assert document["expectation"] == "stopped by Ctrl-C after 5 of 40 s"
    assert document["weakened"][0] == "stopped by Ctrl-C after 5 of 40 s"


def test_a_workload_that_ended_early_by_itself_is_one_that_was_cut_short(judged):
    document = judged(20.0)
    assert (document["expectation_met"], document["expectation"]) == (None, "the workload ran for 20 of 40 s")


@pytest.mark.parametrize("known", [{"manifest": False}, {"workload_s": None}], ids=["no manifest", "an older one"])
def test_a_run_that_does_not_tell_its_time_is_taken_at_its_word(judged, known):
    document = judged(**known)
    assert (document["expectation_met"], document["shortfalls"]) == (True, [])


def test_faults_that_never_struck_are_counted_by_kind(judged, tmp_path):
    write_faults(tmp_path)
    document = judged(schedule=SCHEDULE, manifest=False)
    assert "3 of 3 planned faults never struck (kill 2, pause 1)" in document["weakened"]
    assert document["expectation_met"] is True, "nothing was demanded"


def test_without_receipts_nobody_knows_whether_a_fault_struck(judged):
    document = judged(schedule=SCHEDULE)
    assert document["weakened"] == ["faults.parquet is missing: what the faults did is not known"]
    assert (document["counts"]["faults"], document["expectation_met"]) == (None, True)
    document = judged(schedule=SCHEDULE, at_least={"faults": 1})
    assert document["expectation"] == "how many faults struck is not known, and the test demands 1"
    assert document["expectation_met"] is None


def test_that_no_fault_was_drawn_in_so_short_a_time_is_said(judged):
    document = judged(nemesis=["kill", "pause"], schedule=[], at_least={"faults": 1})
    assert "no fault (kill, pause) fell into the 40 s of the workload" in document["weakened"]
    assert document["expectation_met"] is None
    assert judged(nemesis=[], schedule=[])["shortfalls"] == []


@pytest.mark.parametrize(
    ("at_least", "sentence"),
    [
        ({"transactions": 3, "operations": 3, "records": 6}, ""),
        ({"transactions": 4}, "3 committed transactions, and the test demands 4"),
        ({"records": 1000}, "6 records sent, and the test demands 1,000"),
        ({"faults": 1}, "0 faults that struck, and the test demands 1"),
    ],
)
def test_less_than_the_test_demands_is_no_success(judged, at_least, sentence):
    document = judged(at_least=at_least)
    assert (document["expectation_met"], document["expectation"]) == (True if not sentence else None, sentence)


@pytest.mark.parametrize(
    ("effective", "least", "sentence"),
    [
        ([True, None], 1, ""),
        ([None, False], 1, "0 faults that struck, of 1 more nobody knows whether they did, and the test demands 1"),
        ([True, None], 2, "1 faults that struck, of 1 more nobody knows whether they did, and the test demands 2"),
        ([True, False], 2, "1 faults that struck, and the test demands 2"),
    ],
)
def test_a_fault_of_which_nobody_knows_whether_it_struck_meets_no_demand(judged, tmp_path, effective, least, sentence):
    receipts = [{"id": i, "kind": "kill", "injected_ns": 1, "healed_ns": 2, "effective": e} for i, e in enumerate(effective)]
    write_faults(tmp_path, *receipts)
    document = judged(at_least={"faults": least})
    assert (document["expectation_met"], document["expectation"]) == (None if sentence else True, sentence)
    assert sentence in ("", *document["weakened"])


def test_an_expected_anomaly_that_a_short_run_does_not_show_is_neither_there_nor_absent(judged):
    assert judged(expect=["duplicate"])["expectation_met"] is False
    document = judged(5.0, "Ctrl-C", expect=["duplicate"])
    assert document["expectation_met"] is None
    assert document["expectation"] == "not found: duplicate; stopped by Ctrl-C after 5 of 40 s"


def test_what_a_short_run_shows_stands(tmp_path):
    write_manifest(tmp_path, Manifest(run="r", slots=3, complete=True, files=(), workload_s=5.0, stopped="Ctrl-C"))
    h = History()
    h.txn(0, {"t-0": [5]})
    h.poll(1, {"t-0": [5, (6, h.v("t-0", 5))]})
    h.final({"t-0": [5, (6, h.v("t-0", 5))]})
    for expect, met in ((["valid"], False), (["duplicate"], True)):
        document = judge_here(tmp_path, h.ops, time_s=40.0, expect=expect)
        assert (document["verdict"], document["expectation_met"]) == ("invalid", met), json.dumps(document["expectation"])
