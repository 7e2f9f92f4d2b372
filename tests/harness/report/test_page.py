"""The page as a whole: the order of its parts, the reasons of the verdict, what the run lacks, its size."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import report_example as example
from support.report_example import edited

from fencepost.harness.history.run_directory import open_run
from fencepost.harness.report import html, limits, render
from fencepost.harness.report.documents import read
from fencepost.harness.report.model import page
from fencepost.harness.report.panels.why import Chip, Override
from fencepost.harness.runs.judgements import open_judgement

AFTER = ["timeline", "faults", "properties", "untested", "settings", "files"]


def parts(text: str) -> list[str]:
    """The ids of the sections, in their order."""
    return re.findall(r'<section id="([a-z]+)"', text)


# ------------------------------------------------------------------------------------------- order
def test_findings_come_behind_the_reasons_and_before_everything_else(tmp_path):
    text = render(open_run(example.torn(tmp_path))).read_text("utf-8")
    assert parts(text) == ["why", "findings", *AFTER]
    assert text.index('id="verdict"') < text.index("<nav") < text.index('id="why"') < text.index('id="command"')
    assert text.index('id="command"') < text.index('id="findings"')
    assert re.findall(r'<a href="#([a-z]+)">', text[text.index("<nav") : text.index("</nav>")]) == ["why", "findings", *AFTER]


def test_in_a_valid_run_what_held_comes_before_the_findings(tmp_path):
    text = render(open_run(example.valid(tmp_path))).read_text("utf-8")
    assert parts(text) == ["why", "properties", "findings", *(part for part in AFTER if part != "properties")]


# ------------------------------------------------------------------------------------------- lacks
def test_what_a_run_lacks_is_a_sentence_and_a_fold(tmp_path):
    """The verdict's own weaknesses first, then what the page could not read."""
    folder = edited(example.valid(tmp_path), weakened=["stopped by Ctrl-C after 12 of 60 s", "5 operations have no completion"])
    (folder / "anomalies.parquet").unlink()
    shown = page(read(open_run(folder)))
    assert shown.lacks.title == "Weaker than it looks:"
    assert [sentence.partition(" ")[0] for sentence in shown.lacks.sentences] == ["stopped", "5", "anomalies.parquet"]
    text = html(shown)
    assert "</strong> stopped by Ctrl-C after 12 of 60 s</p>" in text
    assert "<details><summary>and 2 more</summary>" in text


SHORTENED = {"file": "c0-0.jsonl", "why": "is shorter than it was", "kind": "shortened", "lines": 124}
MISSING = {"file": "c1-0.jsonl", "why": "is missing", "kind": "missing", "lines": None}
CUT_OFF = {"file": "manifest.json", "why": "the run was cut off", "kind": "unattested"}
SURPLUS = {"file": "c9-0.jsonl", "why": "does not belong to the run", "kind": "surplus"}


@pytest.mark.parametrize(
    ("gaps", "title", "sentence"),
    [
        (
            [CUT_OFF, SHORTENED, SHORTENED, MISSING, SURPLUS],
            "The run was cut off:",
            "2 files are missing, damaged or cut short (248 lines); 1 property is unknown.",
        ),
        (
            [MISSING, SHORTENED],
            "The history is incomplete:",
            "2 files are missing, damaged or cut short (124 lines); 1 property is unknown.",
        ),
        ([MISSING], "Weaker than it looks:", "a file does not belong to the run"),
        ([CUT_OFF, MISSING], "The run was cut off:", "1 file is missing, damaged or cut short; 1 property is unknown."),
        ([CUT_OFF], "The run was cut off:", "nobody counted what its last seconds wrote."),
        ([SURPLUS], "Weaker than it looks:", "a file does not belong to the run"),
    ],
)
def test_what_the_history_lacks_is_one_sentence_before_everything_else(tmp_path, gaps, title, sentence):
    """However many files a cut-off run lacks; each is named in the fold."""
    properties = [{"name": "lost-write", "verdict": "unknown"}, {"name": "duplicate", "verdict": "held"}]
    weakened = ["a file does not belong to the run", "c1-0.jsonl: is missing"]
    run = open_run(edited(example.valid(tmp_path), gaps=gaps, properties=properties, weakened=weakened))
    lacks = page(read(run)).lacks
    assert (lacks.title, lacks.sentences[0]) == (title, sentence)
    assert lacks.sentences[-2:] == tuple(weakened)


@pytest.mark.parametrize(
    ("reason", "beginning"),
    [
        ("short; and plain", "short; and plain"),
        ("; ".join(["a part of some forty letters, or a few more"] * 20), "a few more …"),
        ("word " * 100, "word word …"),
        ("x" * 1000, "xxx …"),
    ],
)
def test_of_a_long_reason_the_beginning_is_shown_and_the_whole_folded(tmp_path, reason, beginning):
    headline = page(read(open_run(edited(example.unknown(tmp_path), reason=reason)))).headline
    assert headline.reason.endswith(beginning)
    assert len(headline.reason) < 330
    assert headline.whole == (reason if "…" in beginning else "")
    assert ("<summary>The whole reason</summary>" in render(open_run(tmp_path)).read_text("utf-8")) is bool(headline.whole)


def test_a_single_weakness_has_no_fold_and_a_whole_run_no_box(tmp_path):
    assert "<summary>and" not in render(open_run(example.torn(tmp_path / "torn"))).read_text("utf-8")
    assert "Weaker than it looks" not in render(open_run(example.valid(tmp_path / "valid"))).read_text("utf-8")


# --------------------------------------------------------------------------------------------- why
def test_the_reasons_name_what_decided_and_what_held(tmp_path):
    why = page(read(open_run(example.torn(tmp_path)))).why
    assert [(row.name, row.state, row.anchor) for row, _ in why.deciding] == [
        ("torn-transaction", "violated", "property-torn-transaction")
    ]
    assert why.held.startswith("5 properties: lost-write over ")
    assert why.held.endswith(" and 1 more")
    assert why.expected == "torn-transaction"
    assert why.promised == tuple(
        Chip(key=key, value=value)
        for key, value in {"acks": "all", "idempotence": "true", "transactional": "true", "isolation": "read_committed"}.items()
    )


def test_what_could_not_be_judged_decides_with_its_reason(tmp_path):
    text = render(open_run(example.unknown(tmp_path))).read_text("utf-8")
    assert "<code>poll-skip</code></a>: the check failed: OutOfMemoryError in stage 12" in text


def test_tolerated_anomalies_and_shortfalls_are_among_the_reasons(tmp_path):
    rows = example.ordered([example.op(0, 0, 0, 10)])
    planned = example.plan(tolerate=["lost-write anywhere"])
    judged = example.verdict(rows, [], shortfalls=["3 of 14 planned faults never struck (kill 3)"])
    text = render(open_run(example.write(tmp_path, planned, judged, rows, []))).read_text("utf-8")
    assert "valid; tolerated besides: lost-write anywhere" in text
    assert "<dt>Fell short</dt><dd>3 of 14 planned faults never struck (kill 3)</dd>" in text


def with_contract(folder: Path, **planned: object) -> Path:
    rows = example.ordered([example.op(0, 0, 0, 10)])
    return example.write(folder, example.plan(**planned), example.verdict(rows, []), rows, [])


def test_each_override_of_the_contract_is_shown_with_what_it_overrides(tmp_path):
    """And what follows from it; a plan of before does not know what the settings gave."""
    contract = {
        "acks": "1",
        "idempotence": "false",
        "transactional": "false",
        "isolation": "read_committed",
        "compaction": "false",
    }
    derived = {"acks": "all", "idempotence": "true"}
    folder = with_contract(tmp_path / "new", contract=contract, overridden={"acks": "1"}, derived=derived)
    why = page(read(open_run(folder))).why
    assert why.overrides == (
        Override(key="acks", value="1", without="all", by="the test"),
        Override(key="idempotence", value="false", without="true", by="what the test sets"),
    )
    assert [chip.key for chip in why.promised if chip.changed] == ["acks", "idempotence"]
    former = page(read(open_run(with_contract(tmp_path / "old", contract=contract, overridden={"acks": "1"})))).why
    assert former.overrides == (Override(key="acks", value="1", without="", by="the test"),)
    assert "<code>acks = 1</code>, by the test; without it <code>all</code>" in render(open_run(folder)).read_text("utf-8")


def test_another_judgement_shows_its_contract_and_what_follows_from_it(tmp_path):
    """acks=1 means that no producer is idempotent, whatever the plan says."""
    contract = {"acks": "all", "idempotence": "true", "transactional": "false", "isolation": "read_committed"}
    folder = with_contract(tmp_path, contract=contract)
    place = folder / "judgements" / "acks-1-abcdef"
    place.mkdir(parents=True)
    (place / "verdict.json").write_text((folder / "verdict.json").read_text("utf-8"), "utf-8")
    edited(place, judged_by={"contract": {"acks": "1"}, "checkers": []})
    why = page(read(open_judgement(open_run(folder), place.name))).why
    assert why.overrides == (
        Override(key="acks", value="1", without="all", by="this judgement"),
        Override(key="idempotence", value="false", without="true", by="what this judgement sets"),
    )


# -------------------------------------------------------------------------------------------- size
@pytest.mark.parametrize("name", sorted(example.RUNS))
def test_no_report_of_an_example_is_large(tmp_path, name):
    usual = 2_500_000 if name == "large" else 500_000
    assert render(open_run(example.RUNS[name](tmp_path))).stat().st_size < usual


def test_what_does_not_fit_is_left_out_and_named_the_folded_first(tmp_path, monkeypatch):
    shown = page(read(open_run(example.large(tmp_path, operations=2_000, between=20))))
    whole = html(shown)
    monkeypatch.setattr(limits, "MOST_BYTES", len(whole.encode()) - 1)
    smaller = html(shown)
    assert parts(smaller) == parts(whole)
    assert "Too large for one page:" in smaller
    assert "are permitted findings, the receipts of faults in full." in smaller
    monkeypatch.setattr(limits, "MOST_BYTES", len(smaller.encode()) - 1)
    smallest = html(shown)
    (largest,) = set(parts(smaller)) - set(parts(smallest))
    assert f"are permitted findings, the receipts of faults in full, {largest}." in smallest
    assert f'href="#{largest}">' not in smallest[smallest.index("<nav") : smallest.index("</nav>")]
    monkeypatch.setattr(limits, "MOST_BYTES", 1)
    assert parts(html(shown)) == []
    assert 'id="timeline-data"' not in html(shown)
    assert 'id="verdict"' in html(shown)


@pytest.mark.parametrize(
    "fields",
    [
        {"weakened": ["x" * 300] * 40_000},
        {"reason": "x" * 12_000_000},
        {"findings": [{"id": n, "anomaly": f"a{n}", "sentence": "<" * 3_000, "time": 1} for n in range(2_000)]},
    ],
    ids=["many weaknesses", "a long reason", "many findings"],
)
def test_no_verdict_makes_a_page_too_large(tmp_path, fields):
    """As large as a verdict may be; what is escaped is longer than it was."""
    report = render(open_run(edited(example.empty(tmp_path), **fields)))
    assert report.stat().st_size < limits.MOST_BYTES
    assert "Too large for one page:" in report.read_text("utf-8") or "reason" in fields
    assert (tmp_path / "summary.md").stat().st_size < 100_000
