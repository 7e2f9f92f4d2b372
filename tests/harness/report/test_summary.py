"""The summary of a run in Markdown."""

from __future__ import annotations

import re

from support import report_example as example

from fencepost.harness.history.run_directory import open_run
from fencepost.harness.page_text import fenced, for_markdown
from fencepost.harness.report import render


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
    assert command.count("````\n") == 2
    body += command.split("````\n")[2]  # behind the command
    assert "<" not in body
    assert not re.search(r"(?<!\\)\[a", body)
    table = [line for line in body.splitlines() if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {6}
    assert command.strip().splitlines()[0] == "````"


def test_the_summary_has_the_order_of_the_page(tmp_path):
    """Verdict, what weakens it, what decided, the first findings, the command; then the counts."""
    render(open_run(example.torn(tmp_path)))
    text = (tmp_path / "summary.md").read_text("utf-8")
    parts = [
        "## Invalid",
        "Weaker than it looks: 1 of 3",
        "| torn-transaction",
        "are visible: t-0@",
        "This command",
        "campaign **first**",
    ]
    places = [text.index(part) for part in [*parts, "operations: ", "Held: 5 properties", "Not tested: 2 things"]]
    assert places == sorted(places)


def test_the_summary_of_a_valid_run_is_short(tmp_path):
    """No line for each of what held, or was not exercised."""
    render(open_run(example.valid(tmp_path)))
    text = (tmp_path / "summary.md").read_text("utf-8")
    assert len([line for line in text.splitlines() if line]) < 14
    assert "|" not in text
    assert "Held: 5 properties: lost-write over 7,556" in text
    assert "Not tested: 2 things, among them 1 anomaly: not exercised; Anomalies that the settings permit." in text


def test_an_override_of_the_contract_is_in_the_summary(tmp_path):
    rows = example.ordered([example.op(0, 0, 0, 10)])
    planned = example.plan(overridden={"acks": "1"}, derived={"acks": "all"})
    render(open_run(example.write(tmp_path, planned, example.verdict(rows, []), rows, [])))
    assert "* Overridden by the test: acks = 1; without it all\n" in (tmp_path / "summary.md").read_text("utf-8")


def test_a_fence_is_longer_than_any_inside():
    """Backticks inside the command stay text."""
    assert fenced("a ```` b").splitlines()[0] == "`````"


def test_markdown_text_is_one_line():
    """A newline in an error text starts no heading."""
    assert for_markdown("a\n# b | c") == "a \\# b \\| c"
