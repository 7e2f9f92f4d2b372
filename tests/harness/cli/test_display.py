"""Lines on the screen, from values."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from fencepost.harness.api.errors import Exit
from fencepost.harness.api.plans import Test
from fencepost.harness.campaign.campaign import PlannedRun
from fencepost.harness.cli import display, live_display, results_table
from fencepost.harness.runs import result_words
from fencepost.harness.runs.sequence import RunResult


def a_result(expect=("valid",), verdict="valid", met=True, violated=(), name="steady", error="", took_s=12.4, **more):
    properties = [{"name": anomaly, "verdict": "violated", "count": 1} for anomaly in violated]
    counts = {"counts": {"operations": 100}, "reason": "nothing was compared"}
    document = {} if error else {"verdict": verdict, "expectation_met": met, "properties": properties, **counts}
    planned = PlannedRun(Test(name=name, expect=tuple(expect)), 7, "fencepost run")
    return RunResult(planned=planned, run_dir=Path("results/x"), verdict=document, error=error, took_s=took_s, **more)


def screen(renderable, width=160):
    console = Console(file=io.StringIO(), width=width, markup=False, highlight=False)
    console.print(renderable)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (a_result(), "valid, as expected"),
        (
            a_result(["torn-transaction"], "invalid", True, ["torn-transaction"]),
            "invalid, as expected: torn-transaction",
        ),
        (a_result(["valid"], "invalid", False, ["lost-write", "duplicate"]), "invalid: lost-write, duplicate"),
        (a_result(["torn-transaction"], "valid", False), "valid, but expected was: torn-transaction"),
        (a_result(["valid"], "unknown", False), "unknown: nothing was compared"),
        (a_result(error="KeyError: 7"), "harness error: KeyError: 7"),
        (a_result(error="n2 is silent", exit=Exit.UNUSABLE), "no verdict: n2 is silent"),
    ],
)
def test_a_result_becomes_a_sentence(result, words):
    assert result_words.in_words(result) == words


def test_what_an_unmet_expectation_lacks_or_has_besides_is_part_of_the_sentence():
    result = a_result(["torn-transaction"], "invalid", False, ["torn-transaction", "lost-write"])
    result.verdict["expectation"] = "not expected: lost-write (#4)"
    assert result_words.in_words(result) == "invalid: torn-transaction, lost-write; not expected: lost-write (#4)"


def test_repeated_runs_of_a_test_become_one_sentence_with_the_number_of_hits():
    hit = a_result(["torn-transaction"], "invalid", True, ["torn-transaction"])
    miss = a_result(["torn-transaction"], "valid", False)
    assert result_words.together([hit, miss, hit]) == "2 of 3 hit: torn-transaction"
    assert result_words.together([a_result(), a_result(error="KeyError: x")]) == "1 of 2 valid; harness error"
    assert (
        result_words.together([a_result(error="n2 is silent", exit=Exit.UNUSABLE)]) == "no verdict"
    )  # why was said when it ended


def test_the_table_has_a_row_for_each_test_and_takes_brackets_literally():
    shown = screen(
        results_table.results_table(
            [
                a_result(name="steady[red]"),
                a_result(["torn-transaction"], "invalid", True, ["torn-transaction"], name="torn"),
                a_result(["torn-transaction"], "valid", False, name="torn"),
                a_result(["valid"], "invalid", False, ["lost-write"], name="bad"),
            ]
        )
    )
    rows = {line.split()[0]: " ".join(line.split()) for line in shown.splitlines()}
    assert rows["steady[red]"] == "steady[red] valid, as expected met 100 0 12 s"
    assert rows["torn"] == "torn 1 of 2 hit: torn-transaction met 200 1 25 s"
    assert rows["bad"] == "bad invalid: lost-write not met 100 1 12 s"


def test_the_plain_display_prints_each_phase_and_a_status_every_ten_seconds():
    console = Console(file=io.StringIO(), width=160, markup=False, highlight=False)
    plain = display.PlainDisplay(console)
    plain.event({"event": "begin", "number": 1, "of": 2, "test": Test(name="steady[acks=1]"), "seed": 7})
    plain.event({"event": "phase", "phase": "workload", "text": "8 writers"})
    for elapsed_s in range(1, 25):
        counts = {"ok": elapsed_s * 10, "fail": 1, "info": 0}
        plain.event({"event": "progress", "elapsed_s": elapsed_s, "time_s": 60, "faults": ["pause n2"], **counts})
    plain.event({"event": "fault", "text": "pause n2 (leader:t-0)"})
    assert console.file.getvalue().splitlines() == [
        "steady[acks=1]  (1 of 2)  seed 7",
        "  workload    8 writers",
        "10 of 60 s  ok 100  fail 1  info 0  10.1/s  faults: pause n2",
        "20 of 60 s  ok 200  fail 1  info 0  10.1/s  faults: pause n2",
        "  fault: pause n2 (leader:t-0)",
    ]


def test_the_second_test_of_a_campaign_counts_from_zero_again():
    console = Console(file=io.StringIO(), width=160, markup=False, highlight=False)
    plain = display.PlainDisplay(console)
    progress = {"event": "progress", "elapsed_s": 15, "time_s": 60, "ok": 1, "fail": 0, "info": 0, "faults": []}
    for number in (1, 2):
        plain.event({"event": "begin", "number": number, "of": 2, "test": Test(name="a"), "seed": 7})
        plain.event(progress)
    assert console.file.getvalue().count("15 of 60 s") == 2


def test_the_live_view_shows_phase_counts_and_faults_on_a_narrow_terminal():
    progress = display.Progress()
    progress.take({"event": "phase", "phase": "workload", "text": "8 writers"})
    progress.take({"event": "progress", "elapsed_s": 30, "time_s": 60, "ok": 5, "fail": 1, "info": 0, "faults": ["kill n1"]})
    shown = screen(live_display.live_view(progress), width=100)
    assert "workload: 8 writers" in shown
    assert "30 of 60 s  ok 5  fail 1  info 0  0.2/s\n" in shown
    assert "  faults: kill n1\n" in screen(live_display.live_view(progress), width=20)
    assert all(len(line) <= 40 for line in screen(live_display.live_view(progress), width=40).splitlines())


def test_a_run_without_a_report_shows_its_directory():
    assert results_table.report_lines([a_result()]) == ["steady: results/x"]


def test_the_status_of_a_workload_beyond_its_time_shows_the_planned_time():
    """After the last fault it may, until it succeeds again."""
    assert display.Progress(elapsed_s=12, time_s=8, ok=24).status() == "12 s, planned 8  ok 24  fail 0  info 0  2.0/s"
