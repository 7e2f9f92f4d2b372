"""Faults in the report: what they hit, what proves it, how the run went on; and what was not tested."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from support import report_example as example

from fencepost.harness.history.run_directory import open_run
from fencepost.harness.report.documents import read
from fencepost.harness.report.model import page
from fencepost.harness.report.panels import untested
from fencepost.harness.report.panels.faults import around, reach_grid, summary


def test_what_has_no_answer_for_one_reason_is_one_row():
    rows = [
        ("a", "held", ""),
        ("b", "not exercised", "not done"),
        ("c", "unknown", "lost"),
        ("d", "not exercised", "not done"),
        ("e", "unknown", "lost"),
    ]
    run = SimpleNamespace(verdict={"properties": [{"name": n, "verdict": v, "reason": why} for n, v, why in rows]})
    rest = "nothing was compared; the properties give the reason of each"
    unanswered = [(row.what, row.why, row.link) for row in untested._unanswered(run)]
    assert unanswered == [("c, e: unknown", "lost", ""), ("2 anomalies: not exercised", rest, "not-exercised")]


def test_each_fault_has_its_stall_and_the_time_to_recover(tmp_path):
    shown = page(read(open_run(example.valid(tmp_path))))
    assert [(fault.gap, fault.recovery) for fault in shown.faults] == [("2.9 s", "400 ms"), ("\N{EN DASH}", "\N{EN DASH}")]


def test_a_fault_without_effect_is_red_and_untested(tmp_path):
    """Nothing was hurt, so the run says nothing about that fault."""
    shown = page(read(open_run(example.torn(tmp_path))))
    assert [fault.state for fault in shown.faults] == ["effective", "effective", "no effect"]
    assert "Fault 2, pause: no effect" in [gap.what for gap in shown.untested]
    assert "Faults that need Skewable" in [gap.what for gap in shown.untested]


@pytest.mark.parametrize(
    ("evidence", "healing", "lines"),
    [
        ({"before": {"n2": 812}, "during": {"n2": None}}, {"after": {"n2": 907}}, ("n2: pid 812 → gone → pid 907",)),
        ({"before": {"n1": "S"}, "during": {"n1": "T"}}, {"after": {"n1": "S"}}, ("n1: state S → state T (frozen) → state S",)),
        (
            {"before": {"a>b": True, "b>a": True}, "during": {"a>b": False, "b>a": True}},
            {"after": {"a>b": True, "b>a": True}, "dropped": {"a>b": 1200, "b>a": 34}},
            ("open pairs: 2 of 2 → 1 of 2 → 2 of 2", "1,234 packets dropped"),
        ),
        (
            {"before": {"n1": "S"}, "during": {"n1": "T"}, "pids": {"n1": 45}, "hit": []},
            {"after": {"n1": "S"}, "pids": {"n1": 45}, "answers": {"n1": True}},
            ("n1: state S → state T (frozen) → state S", "pids / n1: 45 → 45", "answers / n1: true"),
        ),
        ({"anything": [1, 2]}, None, ("anything: 1, 2",)),
        ("not JSON", {}, ("not JSON",)),
    ],
)
def test_evidence_is_shown_before_during_and_after_the_fault(evidence, healing, lines):
    """The receipts of the built-in faults read at a glance; a stranger's are shown as they are."""
    assert summary(evidence, healing) == lines


def test_reachability_is_shown_for_all_pairs_around_a_fault():
    """Closed before, during and after; drawn when a pair was closed at all."""
    during = ["c0>n1", "n1>n2", "n2>n1"]
    grid = reach_grid({"nodes": ["n1", "n2", "c0"], "before": ["c0>n1"], "during": during, "after": ["n2>n1"]})
    assert grid.summary_line == "closed pairs of all 6: 1 → 3 → 1"
    assert grid.rows == (
        ("n1", ("self", "closed", "open")),
        ("n2", ("stayed", "self", "open")),
        ("c0", ("before", "open", "self")),
    )
    open_grid = reach_grid({"nodes": ["n1", "n2"], "before": [], "during": [], "after": None})
    assert open_grid.summary_line == "closed pairs of all 2: 0 → 0"
    assert reach_grid({"nodes": ["n1", "n2"], "before": [], "during": [], "after": []}).rows == ()
    assert reach_grid(None) is None


FAULTS = {
    "effective": example.fault(0, "kill", 2, 3),
    "no effect": example.fault(0, "kill", 2, 3, effective=False, note="n2 was dead already"),
    "effect not proven": example.fault(0, "kill", 2, 3, effective=None),
    "not healed": example.fault(0, "kill", 2, None, note="not healed: heal failed: n2 is away"),
    "ended early at n2": example.fault(0, "pause", 2, 3, healing={"after": {"n2": "S"}, "ended_early": ["n2"]}),
}


def run_with(folder, fault, **planned):
    """Ten seconds with this fault."""
    rows = example.ordered([example.op(0, 0, 0, 10), example.op(0, 1, 9_990, 10)])
    faults = [fault] if fault else []
    return page(read(open_run(example.write(folder, example.plan(**planned), example.verdict(rows, faults), rows, faults))))


@pytest.mark.parametrize(
    ("kind", "state", "lasted", "tile", "end_s"),
    [
        ("effective", "effective", "3.0 s", "all took effect", 5),
        ("no effect", "no effect", "3.0 s", "1 without effect", 5),
        ("effect not proven", "not proven", "3.0 s", "1 not proven", 5),
        ("not healed", "effective, not healed", "until the end", "1 not healed", 10),
        ("ended early at n2", "effective, ended early at n2", "at most 3.0 s", "1 ended early", 5),
    ],
)
def test_a_fault_is_drawn_and_counted_by_its_evidence(tmp_path, kind, state, lasted, tile, end_s):
    """Not by the plan: what shows no effect, was not healed, or was over before is said wherever the fault is."""
    shown = run_with(tmp_path, FAULTS[kind])
    assert [(fault.state, fault.lasted) for fault in shown.faults] == [(state, lasted)]
    assert [counter.note for counter in shown.tiles if counter.label == "faults"] == [tile]
    (band,) = shown.timeline["faults"]
    assert (band["remark"], band["end"]) == ("" if kind == "effective" else kind, end_s * 1_000_000)
    words = around(FAULTS[kind], example.START)
    assert words.endswith(f" ({band['remark']})" if band["remark"] else "to 5.000 s")


def test_faults_that_were_planned_and_never_struck_are_counted(tmp_path):
    schedule = [{"id": number, "kind": "kill", "at_s": 1, "lasts_s": 2} for number in (0, 1)]
    shown = run_with(tmp_path, FAULTS["effective"], schedule=schedule)
    assert [counter.note for counter in shown.tiles if counter.label == "faults"] == ["1 more never struck"]


def test_a_planned_fault_that_never_struck_is_untested(tmp_path):
    """The schedule has fault 7, the receipts have not."""
    planned = example.plan(schedule=[{"id": 7, "kind": "kill", "at_s": 1, "lasts_s": 2}])
    rows = example.ordered([example.op(0, 0, 0, 10)])
    example.write(tmp_path, planned, example.verdict(rows, []), rows, [])
    assert ("Fault 7, kill", "planned, but it never struck") in [(g.what, g.why) for g in page(read(open_run(tmp_path))).untested]
