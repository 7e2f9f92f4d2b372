"""Contents of the report, without a browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support import report_example as example

from fencepost.harness.api import HarnessError
from fencepost.harness.api.run import write_left_behind
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.report import render
from fencepost.harness.report.documents import ReportData, read
from fencepost.harness.report.incident_card import short_card
from fencepost.harness.report.incident_material import Material
from fencepost.harness.report.incidents import Incident
from fencepost.harness.report.model import page
from fencepost.harness.report.operation_rows import stored_table
from fencepost.harness.report.panels import timeline, untested
from fencepost.harness.report.panels.faults import around, reach_grid, summary
from fencepost.harness.report.panels.findings import shares
from fencepost.harness.report.text import coded, duration, fenced, for_markdown, shortened
from fencepost.harness.visible_text import visible


def edited(folder: Path, **fields: object) -> Path:
    """A run whose verdict was changed after it was written."""
    path = folder / "verdict.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | fields), "utf-8")
    return folder


# ---------------------------------------------------------------------------------------- headline
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


def test_the_top_names_what_was_found_besides_what_the_test_expects(tmp_path):
    """The verdict's own comparison, with the numbers of the unexpected findings."""
    torn = {"expect": ["torn-transaction"], "expectation": "not expected: lost-write (#4)"}
    run = read(open_run(edited(example.torn(tmp_path), expectation_met=False, **torn)))
    assert page(run).headline.expectation == "This test expects torn-transaction; not expected: lost-write (#4)."
    run = read(open_run(edited(tmp_path, expectation_met=True, expectation="with 2 lost-write")))
    assert page(run).headline.expectation == ("This test expects torn-transaction: found, with 2 lost-write. That is a success.")


def test_a_run_without_recovery_shows_no_recovery_time(tmp_path):
    """Nothing succeeded after the last healing."""
    run = read(open_run(edited(example.torn(tmp_path), progress={"longest_gap_s": 20.0, "recovery_s": None, "faults": []})))
    assert ("longest stall", "20.0 s", "without a success") in [(t.label, t.value, t.note) for t in page(run).tiles]


def test_the_first_finding_is_shown_at_the_top(tmp_path):
    """Only the first of each violated property: the reader has ten seconds."""
    head = page(read(open_run(example.torn(tmp_path)))).headline
    assert [finding for finding, _, _ in head.first] == [1]


# ---------------------------------------------------------------------------------------- findings
def test_a_card_shows_which_records_are_missing(tmp_path):
    """The sceptic sees the operation, its records, and what the client got."""
    first, *_ = page(read(open_run(example.torn(tmp_path)))).cards
    writer, reader = first.operations
    assert [micro.mark for micro in writer.micro] == ["missing", "missing", "read", "read"]
    assert [error.name for error in writer.errors] == ["_TIMED_OUT (-185)", "_TRANSPORT (-195)"]
    assert {micro.mark for micro in reader.micro} <= {"read", ""}
    assert first.faults[0].text.startswith("cut-clients 12 nodes → n1, from 8.9")


def test_a_card_names_the_anomalies_that_are_part_of_its_finding(tmp_path):
    """One cause is one finding: a swallowed write is not listed as a loss and a torn transaction besides."""
    swallowed = {"anomaly": "swallowed-write", "sentence": "?", "includes": ["lost-write", "torn-transaction"]}
    text = render(open_run(edited(example.valid(tmp_path), findings=[swallowed]))).read_text("utf-8")
    assert "not listed again: <code>lost-write</code>, <code>torn-transaction</code></p>" in text


def test_findings_that_do_not_fit_on_the_page_are_counted(tmp_path):
    """100 findings, 60 of them in the verdict, 20 in full, 40 folded, the rest named."""
    shown = page(read(open_run(example.large(tmp_path, operations=5_000, between=70))))
    (group,) = shown.groups
    assert (len(shown.cards), len(shown.folded_cards)) == (20, group.shown - 20)
    assert group.total > group.shown
    text = render(open_run(tmp_path)).read_text("utf-8")
    assert f"{group.shown} of {group.total} are on this page" in text
    assert f"{len(shown.folded_cards)} more incidents: torn-transaction in {len(shown.folded_cards)}" in text


def test_a_large_group_hides_no_small_one():
    """Twenty open cards are dealt in turn."""
    assert shares([100, 2, 1], 20) == [17, 2, 1]
    assert shares([3, 2], 20) == [3, 2]
    assert shares([], 20) == []


def test_an_operation_that_is_not_in_the_history_is_named(tmp_path):
    """A finding that names operation 999999 stays a finding."""
    finding = {"id": 1, "anomaly": "phantom", "sentence": "?", "operations": [999_999], "records": [], "time": None}
    run = read(open_run(edited(example.valid(tmp_path), findings=[finding])))
    assert page(run).cards[0].lost_operations == (999_999,)


def test_permitted_findings_are_folded_and_stay_out_of_the_forbidden_ones(tmp_path):
    """Eight legal cycles: none among the findings, five on the page, folded; the summary has them in its table only."""
    shown = page(read(open_run(example.valid(tmp_path))))
    assert shown.groups == ()
    (group,) = shown.permitted
    assert (group.anomaly, group.total, group.shown) == ("G0", 12, 5)
    assert {finding["forbidden"] for finding in shown.timeline["findings"]} == {False}
    text = render(open_run(tmp_path)).read_text("utf-8")
    assert "Nothing forbidden was found." in text
    assert "12 findings that your settings permit, of 1 kind" in text
    assert "number 1." not in (tmp_path / "summary.md").read_text("utf-8")


def test_an_adopted_history_is_shown_with_its_original_values(tmp_path):
    """In the table of records, in the operations, in the timeline; the record that was never sent has its value too."""
    shown = page(read(open_run(example.foreign(tmp_path))))
    (finding,) = shown.cards
    assert [record.value for record in finding.records] == ["ord-2"]
    assert [[micro.value for micro in op.micro] for op in finding.operations] == [
        ["ord-2"],
        ["ord-1", shortened(example.EVIL, 60)],
    ]
    assert shown.timeline["values"] == {"1": ["ord-2"], "2": ["ord-1", visible(shortened(example.EVIL, 40))]}
    assert "<th>Value</th>" in render(open_run(tmp_path)).read_text("utf-8")


def test_a_recorded_history_shows_no_column_of_original_values(tmp_path):
    """No column without content."""
    text = render(open_run(example.torn(tmp_path))).read_text("utf-8")
    assert '<table class="records">' in text
    assert "<th>Value</th>" not in text


def test_what_was_left_on_an_external_cluster_is_a_note(tmp_path):
    write_left_behind(example.torn(tmp_path), ["could not remove the topic x; remove it with: kafka-topics.sh"])
    assert (
        "Left behind on the cluster: could not remove the topic x; remove it with: kafka-topics.sh"
        in page(read(open_run(tmp_path))).notes
    )
    assert "remove it with: kafka-topics.sh" in render(open_run(tmp_path)).read_text("utf-8")


def test_unreadable_original_values_are_a_note(tmp_path):
    """They take away the names, and nothing else."""
    (example.foreign(tmp_path) / "values.parquet").write_bytes(b"PAR1 no such thing")
    shown = page(read(open_run(tmp_path)))
    assert "values.parquet could not be read" in shown.notes[0]
    assert [record.v for record in shown.cards[0].records] != [""]


# ------------------------------------------------------------------------------------------ unseen
def test_the_curve_of_unseen_records_is_described_in_words(tmp_path):
    """Its peak, what was broken then, and how it ended."""
    shown = page(read(open_run(example.valid(tmp_path))))
    assert shown.unseen.startswith("At most 23")
    assert ", during pause n1. At the end there were 0: readers had seen everything" in shown.unseen
    assert len(shown.timeline["unseen"]) == 200
    assert shown.timeline["unseen"][0][0] < 0.2e6
    assert shown.unseen in render(open_run(tmp_path)).read_text("utf-8")


@pytest.mark.parametrize(
    ("points", "read_count", "sentence"),
    [
        ([], 5, ""),
        ([[0, 0], [1, 0]], 5, "At none of the 2 moments looked at was a committed record unseen by every reader."),
        ([[0, 0], [1, 1]], 5, "At most 1 committed record was unseen at once, at 1.000 s. At the end 1 was left; only the final"),
        ([[0, 0], [1, 9], [2, 3]], 5, "At the end 3 were left; only the final read, which came later, could return them."),
        ([[0, 0], [7200, 4000]], 0, "Nobody read in the main phase, so what was committed stayed unseen: 4,000 records; only"),
        ([[0, 2], [7200, 0]], 5, "At the end there were 0: readers had seen everything committed before the final read."),
    ],
)
def test_every_shape_of_the_curve_of_unseen_records_has_its_description(tmp_path, points, read_count, sentence):
    """No curve, a flat one, a record, a rest, no reader at all, hours."""
    folder = example.valid(tmp_path)
    origin, counts = read(open_run(folder)).origin_ns, json.loads((folder / "verdict.json").read_text("utf-8"))["counts"]
    counted = [[origin + at_s * 1_000_000_000, count] for at_s, count in points]
    shown = page(read(open_run(edited(folder, unseen=counted, counts=counts | {"read": read_count}))))
    assert sentence in shown.unseen
    assert bool(shown.unseen) is bool(sentence)
    assert shown.timeline["unseen"] == [[at_s * 1_000_000, count] for at_s, count in points]


def test_without_a_final_read_the_rest_is_only_counted(tmp_path):
    """Nothing came later that could have returned it."""
    assert page(read(open_run(example.foreign(tmp_path)))).unseen.endswith("At the end 1 was left. Counted at 200 moments.")


# ---------------------------------------------------------------------------------------- timeline
def test_a_long_history_is_thinned_and_says_so(tmp_path, monkeypatch):
    """Operations of findings are always among those drawn."""
    monkeypatch.setattr(timeline, "MOST_OPS", 100)
    run = read(open_run(example.torn(tmp_path)))
    shown = page(run)
    assert shown.sampled
    drawn = set(shown.timeline["ops"]["index"])
    assert len(drawn) <= 100
    assert {index for finding in run.verdict["findings"] for index in finding["operations"]} <= drawn
    assert "even sample" in render(open_run(tmp_path)).read_text("utf-8")


def test_a_short_history_is_drawn_whole(tmp_path):
    """No operation is left out, and nothing claims otherwise."""
    run = read(open_run(example.valid(tmp_path)))
    shown = page(run)
    assert len(shown.timeline["ops"]["index"]) == len(run.ops)
    assert "even sample" not in render(open_run(tmp_path)).read_text("utf-8")


def test_processes_of_one_worker_share_a_row(tmp_path):
    """Process 5 replaced process 0 at slot 0: one row, both named."""
    rows = example.ordered([example.op(0, 0, 10, 5), example.op(1, 0, 12, 5), example.op(5, 0, 90, 5, slot=0, node="c0")])
    example.write(tmp_path, example.plan(), example.verdict(rows, []), rows, [])
    drawn = page(read(open_run(tmp_path))).timeline
    assert [(row["label"], row["processes"]) for row in drawn["rows"]] == [("c0 p0…5", [0, 5]), ("c1 p1", [1])]
    assert drawn["ops"]["row"] == [0, 1, 0]


def test_throughput_counts_every_write_once(tmp_path):
    """Two commits in the first second, a failure in the second, and one that never completed counts when it began."""
    moments = [(100, 50, "ok"), (300, 50, "ok"), (1500, 50, "fail"), (2100, None, "info")]
    rows = example.ordered([example.op(n, 0, at, took, type=kind) for n, (at, took, kind) in enumerate(moments)])
    example.write(tmp_path, example.plan(), example.verdict(rows, []), rows, [])
    drawn = page(read(open_run(tmp_path))).timeline
    assert drawn["throughput"] == {"bin": 1_000_000, "ok": [2, 0, 0], "fail": [0, 1, 0], "info": [0, 0, 1]}
    assert drawn["gap"] == [250_000, 2_000_000]  # from the last commit to the end, on the run's own clock


def test_an_aborted_transaction_is_no_progress(tmp_path):
    """A wanted abort that went well does not end a stall."""
    rows = example.ordered([example.op(0, 0, 0, 10), example.op(0, 1, 500, 10, intent="abort"), example.op(0, 2, 990, 10)])
    example.write(tmp_path, example.plan(), example.verdict(rows, []), rows, [])
    assert page(read(open_run(tmp_path))).timeline["gap"] == [10_000, 1_000_000]


def test_the_life_of_an_instance_is_no_stall(tmp_path):
    """Workers of Connect live for some seconds before anybody asks them for anything."""
    rows = example.ordered(
        [example.op(0, 0, 0, 900, f="instance"), *(example.op(1, n, 500 + 100 * n, 10, f="rest") for n in range(3))]
    )
    example.write(tmp_path, example.plan(), example.verdict(rows, []), rows, [])
    assert page(read(open_run(tmp_path))).timeline["gap"] == [510_000, 610_000]


def test_a_success_without_a_time_is_no_moment(tmp_path):
    """An `ok` whose completion time was lost does not stretch the stall back to the machine's start."""
    rows = example.ordered([example.op(0, 0, 0, 10), example.op(0, 1, 100, None, type="ok"), example.op(0, 2, 200, 10)])
    example.write(tmp_path, example.plan(), example.verdict(rows, []), rows, [])
    assert page(read(open_run(tmp_path))).timeline["gap"] == [10_000, 210_000]


def test_the_sample_is_even():
    """Every tenth, not the first hundred."""
    sample = timeline.thinned(np.arange(1000), {555}, 101)
    assert 555 in sample
    assert np.diff(sample).max() <= 11


@pytest.mark.parametrize(
    ("size", "more", "partial"),
    [(2269, 2245, True), (200, 176, False), (None, 176, False)],  # None: a verdict of an older fencepost
)
def test_records_that_the_verdict_does_not_have_are_counted_too(size, more, partial):
    records = [{"v": n, "partition": "t-0", "offset": n, "role": "missing"} for n in range(200)]
    finding = {"operations": list(range(200)), "records": records, "time": 0, **({} if size is None else {"size": size})}
    made = Material(data=ReportData(plan={}, verdict={}, ops=None, faults=(), anomalies=None))
    card = short_card(made, Incident((finding,)), set(), forbidden=True, brief=False)
    assert (card.more_records, card.more_operations, card.partial) == (more, 192, partial)


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ([1 << 39], "process 1, op 0, record 0"),
        ([1, 2], "process 0, op 0, record 1, nor process 0, op 0, record 2"),
        (range(2269), "any of the 2,269 missing records"),
    ],
)
def test_missing_records_that_no_log_holds_are_named_or_counted(missing, words):
    assert stored_table(Incident(({"stored": {"nodes": ["n1"], "absent": missing}},))).absent == words


# ------------------------------------------------------------------------------------------ faults
def test_what_has_no_answer_for_one_reason_is_one_row():
    rows = [
        ("a", "held", ""),
        ("b", "not exercised", "not done"),
        ("c", "unknown", "lost"),
        ("d", "not exercised", "not done"),
    ]
    run = SimpleNamespace(verdict={"properties": [{"name": n, "verdict": v, "reason": why} for n, v, why in rows]})
    unanswered = [(row.what, row.why) for row in untested._unanswered(run)]
    assert unanswered == [("b, d: not exercised", "not done"), ("c: unknown", "lost")]


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


# ------------------------------------------------------------------------------- what may be missing
def test_missing_files_are_notes(tmp_path):
    """Only plan and verdict are there: the page still comes, and says what it lacks."""
    text = render(open_run(example.empty(tmp_path))).read_text("utf-8")
    for name in ("history.parquet", "faults.parquet", "anomalies.parquet"):
        assert f"{name} is missing" in text


def test_a_damaged_history_is_a_note(tmp_path):
    """Garbage in history.parquet takes the timeline and nothing else."""
    (example.valid(tmp_path) / "history.parquet").write_bytes(b"PAR1 no such thing")
    shown = page(read(open_run(tmp_path)))
    assert shown.timeline is None
    assert shown.properties
    assert "history.parquet could not be read" in shown.notes[0]


def test_a_history_without_operations_is_drawn_as_none(tmp_path):
    """A table with no rows is not an error."""
    example.write(tmp_path, example.plan(), example.verdict([], []), [], [])
    assert "There is no operation to draw" in render(open_run(tmp_path)).read_text("utf-8")


def test_a_run_that_was_not_judged_has_no_report(tmp_path):
    """The text says what to do."""
    (example.valid(tmp_path) / "verdict.json").unlink()
    with pytest.raises(HarnessError, match="fencepost check"):
        render(open_run(tmp_path))


# ------------------------------------------------------------------------------------------ summary
def test_the_summary_fits_a_screen(tmp_path):
    """Verdict, table, the first sentences, and the command."""
    render(open_run(example.torn(tmp_path)))
    text = (tmp_path / "summary.md").read_text("utf-8")
    assert text.startswith("## Invalid, as this test expects: torn\n")
    assert "| torn-transaction | violated | 3 |" in text
    assert "only 2 of its 4 records are visible" in text
    assert "```\nfencepost campaign campaigns/first.toml" in text
    assert len(text.splitlines()) < 40


def test_the_summary_cannot_be_marked_up(tmp_path):
    """No tag, no further table cell, no link, and a fence that the command cannot close."""
    render(open_run(example.hostile(tmp_path)))
    text = (tmp_path / "summary.md").read_text("utf-8")
    body, command = text.split("This command repeats the run:")
    assert "<" not in body
    assert not re.search(r"(?<!\\)\[a", body)
    table = [line for line in body.splitlines() if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {6}
    assert command.strip().splitlines()[0] == "````"


def test_a_fence_is_longer_than_any_inside():
    """Backticks inside the command stay text."""
    assert fenced("a ```` b").splitlines()[0] == "`````"


def test_markdown_text_is_one_line():
    """A newline in an error text starts no heading."""
    assert for_markdown("a\n# b | c") == "a \\# b \\| c"


# -------------------------------------------------------------------------------------------- text
@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("no `settle` <b>", "no <code>settle</code> &lt;b&gt;"),
        ("`<i>`", "<code>&lt;i&gt;</code>"),
        ("a ` b <i>", "a ` b &lt;i&gt;"),
        ("\u202e", "\\u202e"),
    ],
)
def test_words_in_backticks_are_code_and_nothing_else_is_markup(text, html):
    """A check's text about itself may name other checks."""
    assert coded(text) == html


def test_hidden_characters_become_visible():
    """Right-to-left override, zero width space, bell and line separator are shown; umlauts and newlines stay."""
    assert visible("ä\n\u202e\u200b\x07\u2028") == "ä\n\\u202e\\u200b\\u0007\\u2028"


@pytest.mark.parametrize("ns", [float("inf"), float("-inf"), float("nan"), 1e300 * 1e9])
def test_a_length_of_time_that_no_number_holds_is_a_dash(ns):
    """A verdict from elsewhere may have a gap of 1e300 seconds."""
    assert duration(ns) == "\N{EN DASH}"


def test_a_long_text_is_cut_and_says_so():
    """Exactly as long as allowed stays whole."""
    assert [shortened("abc", most) for most in (3, 2)] == ["abc", "a…"]


def test_half_a_surrogate_pair_does_not_stop_the_report(tmp_path):
    """JSON can hold what UTF-8 cannot."""
    assert "\\ud83d" in render(open_run(edited(example.valid(tmp_path), reason="\ud83d"))).read_text("utf-8")
