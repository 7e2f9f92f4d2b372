"""The summary of a run in Markdown."""

from __future__ import annotations

import re

from support import report_example as example

from fencepost.harness.history.run_directory import open_run
from fencepost.harness.report import render
from fencepost.harness.report.text import fenced, for_markdown


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
