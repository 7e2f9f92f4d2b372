"""Contents of the report, without a browser."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from support import report_example as example
from support.report_example import edited

from fencepost.harness.api import HarnessError
from fencepost.harness.api.run import write_left_behind
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.page_text import coded, duration, shortened
from fencepost.harness.report import render
from fencepost.harness.report.documents import ReportData, read
from fencepost.harness.report.incident_card import short_card
from fencepost.harness.report.incident_material import Material
from fencepost.harness.report.incidents import Incident
from fencepost.harness.report.model import page
from fencepost.harness.report.operation_rows import stored_table
from fencepost.harness.report.panels import settings, timeline
from fencepost.harness.report.panels.findings import shares
from fencepost.harness.visible_text import visible


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
    (readers,) = [chart for chart in shown.charts if chart.key == "readers"]
    assert len(readers.moments) == len(readers.lines[0].values) == 200
    assert readers.moments[0] < 0.2e6
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
    drawn = [(chart.moments, chart.lines[0].values) for chart in shown.charts if chart.key == "readers" and points]
    assert drawn == ([([at_s * 1_000_000 for at_s, _ in points], [count for _, count in points])] if points else [])


def test_without_a_final_read_the_rest_is_only_counted(tmp_path):
    """Nothing came later that could have returned it."""
    assert page(read(open_run(example.foreign(tmp_path)))).unseen.endswith("At the end 1 was left. Counted at 200 moments.")


# ---------------------------------------------------------------------------------------- timeline
def test_a_long_history_is_thinned_and_says_so(tmp_path, monkeypatch):
    """Operations of findings are always among those drawn."""
    monkeypatch.setattr(timeline, "MOST_OPS", 100)
    run = read(open_run(example.torn(tmp_path)))
    shown = page(run)
    assert shown.sampled.startswith(f"This history has {len(run.ops):,} operations, of which ")
    assert "are drawn: the operations of findings" in shown.sampled
    drawn = set(shown.timeline["ops"]["index"])
    assert len(drawn) <= 100
    assert {index for finding in run.verdict["findings"] for index in finding["operations"]} <= drawn
    assert shown.sampled in render(open_run(tmp_path)).read_text("utf-8")


def test_a_short_history_is_drawn_whole(tmp_path):
    """No operation is left out, and nothing claims otherwise."""
    run = read(open_run(example.valid(tmp_path)))
    shown = page(run)
    assert len(shown.timeline["ops"]["index"]) == len(run.ops)
    assert shown.sampled == ""
    assert "of which" not in render(open_run(tmp_path)).read_text("utf-8")


def test_processes_of_one_worker_share_a_row(tmp_path):
    """Process 5 replaced process 0 at slot 0: one row, both named."""
    rows = example.ordered([example.op(0, 0, 10, 5), example.op(1, 0, 12, 5), example.op(5, 0, 90, 5, slot=0, node="c0")])
    example.write(tmp_path, example.plan(), example.verdict(rows, []), rows, [])
    drawn = page(read(open_run(tmp_path))).timeline
    assert [(row["label"], row["processes"]) for row in drawn["rows"]] == [("c0 p0…5", [0, 5]), ("c1 p1", [1])]
    assert drawn["ops"]["row"] == [0, 1, 0]


def test_a_page_holds_each_error_once_and_no_endless_ones(tmp_path, monkeypatch):
    """Errors of a stall are alike; where they are not, texts go before names, and what an operation met is always there."""
    monkeypatch.setattr(timeline, "_MOST_ERRORS", 3)
    texts = ["same"] * 5 + [f"{n} " + "x" * 900 for n in range(9)]
    met = [example.error("commit", f"E{max(0, n - 4)}", n, text, 5) for n, text in enumerate(texts)]
    rows = example.ordered([example.op(n, 0, n, 5, type="fail", errors=[each]) for n, each in enumerate(met)])
    example.write(tmp_path, example.plan(), example.verdict(rows, []), rows, [])
    data = page(read(open_run(tmp_path))).timeline_data
    assert len(data["errors"]) == 14
    assert len(data["errorTexts"]) <= 3 * 3
    assert max(len(text) for _, _, text in data["errorTexts"]) <= 300
    assert ["", "an error of another kind", ""] in data["errorTexts"]
    assert data["errors"]["0"] == data["errors"]["1"] == [0]


def test_a_page_with_many_failures_stays_small(tmp_path):
    """As many operations as a page draws, each with three long errors: 2 MB are the rule."""
    alike = [example.error(call, "_TIMED_OUT", -185, "Local: Timed out: " + "y" * 400, 5) for call in ("send", "flush", "commit")]
    sent = [{"kind": 0, "partition": "t-0", "v": n, "offset": n, "began": example.START, "ended": None} for n in range(4)]
    rows = [example.op(n % 20, n // 20, n / 2, 4, type="fail", errors=alike, mops=sent) for n in range(20_000)]
    rows = example.ordered(rows)
    example.write(tmp_path, example.plan(), example.verdict(rows, []), rows, [])
    assert render(open_run(tmp_path)).stat().st_size < 2_000_000


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


def test_outside_services_are_shown_with_the_address_that_clients_have():
    cluster = {
        "kind": "local",
        "options": {"services": {"postgres": "127.0.0.1:5432"}},
        "description": {"services": {"postgres": "10.73.100.1:5432"}},
    }
    run = SimpleNamespace(plan={"cluster": cluster}, verdict={})
    shown = {section.title: section.rows for section in settings.sections(run)}
    assert shown["Outside services"] == (("postgres", "127.0.0.1:5432, for clients at 10.73.100.1:5432"),)
