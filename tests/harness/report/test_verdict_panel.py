"""The top of the report: verdict, expectation, the counts that it rests on."""

from __future__ import annotations

import pytest
from support import report_example as example
from support.report_example import edited

from fencepost.harness.history.run_directory import open_run
from fencepost.harness.report.documents import read
from fencepost.harness.report.model import page


@pytest.mark.parametrize(
    ("verdict", "expect", "met", "tone", "title"),
    [
        ("valid", ["valid"], True, "good", "Valid: every promise that was tested held"),
        ("valid", ["torn-transaction"], False, "bad", "Valid, but this test expects otherwise"),
        ("invalid", ["torn-transaction"], True, "shown", "Invalid, as this test expects"),
        ("invalid", ["valid"], False, "bad", "Invalid: 1 promise was broken"),
        ("invalid", ["torn-transaction"], None, "unsure", "Invalid, and not known whether only as this test expects"),
        ("unknown", ["valid"], None, "unsure", "Unknown: the run does not allow a verdict"),
        ("unknown", ["valid"], False, "unsure", "Unknown: the run does not allow a verdict"),
    ],
)
def test_the_headline_shows_verdict_and_expectation(tmp_path, verdict, expect, met, tone, title):
    """An anomaly that a test is there to show is a success; the same elsewhere is not."""
    run = read(open_run(edited(example.torn(tmp_path), verdict=verdict, expect=expect, expectation_met=met)))
    head = page(run).headline
    assert (head.tone, head.title) == (tone, title)


def test_the_headline_names_the_promises_that_were_broken_each_once(tmp_path):
    violated = {"verdict": "violated", "promise": "once only"}
    broken = example.properties(9, duplicate=violated, duplicate_delivery=violated, lost_write={**violated, "promise": "kept"})
    run = read(open_run(edited(example.torn(tmp_path), expect=["valid"], expectation_met=False, properties=broken)))
    assert page(run).headline.title == "Invalid: 2 promises were broken: kept; once only"
    assert {row.promise for row in page(run).properties} >= {"once only", "kept"}


@pytest.mark.parametrize(
    ("expect", "sentence"),
    [
        (["valid"], "This test expects valid; it was not."),
        (["duplicate"], "This test expects duplicate; not found: duplicate."),
        (["torn-transaction"], "This test expects torn-transaction; found besides: lost-write."),
    ],
)
def test_an_unmet_expectation_is_shown_with_the_difference(tmp_path, expect, sentence):
    """A run that broke more, or something else, than its test expects."""
    broken = example.properties(9, torn_transaction={"verdict": "violated"}, lost_write={"verdict": "violated"})
    run = read(open_run(edited(example.torn(tmp_path), expect=expect, expectation_met=False, properties=broken)))
    assert page(run).headline.expectation == sentence


@pytest.mark.parametrize(
    ("expect", "sentence"),
    [
        (["valid"], "This test expects valid: so it is as far as it went."),
        (["torn-transaction"], "This test expects torn-transaction: not found, and not excluded."),
    ],
)
def test_a_valid_run_that_fell_short_leaves_the_expectation_open(tmp_path, expect, sentence):
    short = {"verdict": "valid", "expect": expect, "expectation_met": None, "expectation": "stopped by Ctrl-C after 5 of 40 s"}
    head = page(read(open_run(edited(example.torn(tmp_path), **short)))).headline
    assert (head.tone, head.title) == ("unsure", "Valid as far as it went: stopped by Ctrl-C after 5 of 40 s")
    assert head.expectation == sentence


def test_the_top_names_what_was_found_besides_what_the_test_expects(tmp_path):
    """The verdict's own comparison, with the numbers of the unexpected findings."""
    torn = {"expect": ["torn-transaction"], "expectation": "not expected: lost-write (#4)"}
    run = read(open_run(edited(example.torn(tmp_path), expectation_met=False, **torn)))
    assert page(run).headline.expectation == "This test expects torn-transaction; not expected: lost-write (#4)."
    run = read(open_run(edited(tmp_path, expectation_met=True, expectation="with 2 lost-write")))
    assert page(run).headline.expectation == ("This test expects torn-transaction: found, with 2 lost-write. That is a success.")


def test_a_run_without_recovery_shows_no_recovery_time(tmp_path):
    """Nothing succeeded after the last healing."""
    around = {"faults": [{"id": 0, "gap_s": 20.0, "recovery_s": None}]}
    run = read(open_run(edited(example.torn(tmp_path), progress={"longest_gap_s": 20.0, "recovery_s": None} | around)))
    stall = page(run).tiles[-1]
    assert (stall.label, stall.value, stall.link) == ("longest stall", "20.0 s", "fault-0")
    assert stall.note == "during fault 0, cut-clients 12 nodes \N{RIGHTWARDS ARROW} n1; no success after healing"


@pytest.mark.parametrize(
    ("measured", "note"),
    [
        (
            [{"id": 0, "gap_s": 5.5, "recovery_s": 3.9}, {"id": 1, "gap_s": 2.0, "recovery_s": 0.1}],
            "fault 0, kill n2; success 3.9 s",
        ),
        (
            [{"id": 0, "gap_s": 2.0, "recovery_s": 0.1}, {"id": 1, "gap_s": 5.5, "recovery_s": 3.9}],
            "fault 1, kill n2; success 3.9 s",
        ),
        ([{"id": 0, "gap_s": 2.0, "recovery_s": 0.1}, {"id": 1, "gap_s": 2.0, "recovery_s": 0.1}], "no fault was active"),
        ([{"id": 7, "gap_s": 5.5, "recovery_s": 3.9}], "no fault was active"),
        ([], ""),
    ],
)
def test_the_longest_stall_has_the_recovery_of_its_own_fault(tmp_path, measured, note):
    """And neither that of the last fault, nor one of a fault that never struck."""
    faults = [example.fault(0, "kill", 2, 2), example.fault(1, "kill", 7, 1)]
    rows = example.ordered([example.op(0, 0, 0, 10), example.op(0, 1, 9_990, 10)])
    judged = example.verdict(rows, faults, progress={"longest_gap_s": 5.5, "recovery_s": 0.1, "faults": measured})
    stall = page(read(open_run(example.write(tmp_path, example.plan(), judged, rows, faults)))).tiles[-1]
    assert (stall.label, stall.value) == ("longest stall", "5.5 s")
    assert note in stall.note
    assert bool(stall.note) is bool(note)


def test_the_first_finding_is_shown_at_the_top(tmp_path):
    """Only the first of each violated property: the reader has ten seconds."""
    head = page(read(open_run(example.torn(tmp_path)))).headline
    assert [finding for finding, _, _ in head.first] == [1]
