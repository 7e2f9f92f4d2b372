"""A green run that nothing could have broken says so wherever its verdict is shown."""

from __future__ import annotations

import pytest
from support import report_example as example
from support.report_example import edited

import fencepost
from fencepost.harness.api.verdict_document import without_occasion
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.memory.rows import row_of
from fencepost.harness.report import render
from fencepost.harness.report.client_table import Cell
from fencepost.harness.report.documents import read
from fencepost.harness.report.model import page

IDLE = {"name": "b", "verdict": "held without occasion", "compared": 7, "occasions": {"instance-died": 0, "work-aborted": 0}}
STRUCK = {"name": "a", "verdict": "held", "compared": 9, "occasions": {"leader-moved": 3, "server-struck": None}}
UNKNOWN = {"name": "c", "verdict": "held", "compared": 9, "occasions": {"leader-moved": None, "server-struck": 0}}
ALWAYS = {"name": "d", "verdict": "held", "compared": 9}


@pytest.fixture
def shown(tmp_path):
    """A valid run with these properties."""

    def make(*properties):
        found = edited(example.valid(tmp_path), properties=[{"count": 0, "reason": "", **one} for one in properties])
        return open_run(found)

    return make


@pytest.mark.parametrize(
    ("properties", "tone", "title"),
    [
        ([STRUCK, ALWAYS], "good", "Valid: every promise that was tested held"),
        ([ALWAYS], "good", "Valid: every promise that was tested held"),
        ([STRUCK, IDLE, ALWAYS], "good", "Valid: what was tested held; 1 of 3 properties held without occasion"),
        ([STRUCK, UNKNOWN], "good", "Valid: what was tested held; of 1 nobody knows whether there was an occasion"),
        (
            [IDLE, UNKNOWN, ALWAYS],
            "unsure",
            "Valid, but nothing is known to have occurred that breaks promises: 1 of 3 properties held without occasion, "
            "of 1 nobody knows whether there was an occasion",
        ),
    ],
)
def test_the_first_line_says_how_much_had_an_occasion(shown, properties, tone, title):
    headline = page(read(shown(*properties))).headline
    assert (headline.tone, headline.title) == (tone, title)


def test_the_panels_name_them_with_the_counts(shown):
    made = page(read(shown(STRUCK, IDLE)))
    rows = {row.name: row for row in made.properties}
    assert (rows["b"].state, rows["b"].css, rows["b"].decides) == ("held without occasion", "held-without-occasion", False)
    assert rows["a"].occasions == "leader-moved 3 · server-struck ?"
    assert made.why.without_occasion == "1 of 2 held without occasion"
    (gap,) = [gap for gap in made.untested if "without occasion" in gap.what]
    assert (gap.what, gap.why) == (
        "b: held without occasion",
        "none of what can break it occurred: instance-died, work-aborted",
    )


def test_page_summary_list_and_data_say_it(shown):
    run = shown(STRUCK, IDLE)
    text = render(run).read_text("utf-8")
    assert "instance-died 0 · work-aborted 0" in text
    assert "1 of 2 properties held without occasion" in (run.directory / "summary.md").read_text("utf-8")
    assert row_of(run, run.directory.parent).outcome == "valid, as expected; 1 of 2 held without occasion"
    assert fencepost.open(run.directory).without_occasion == ("b",)


def test_nothing_is_said_where_everything_had_an_occasion(shown):
    run = shown(STRUCK, ALWAYS)
    assert without_occasion(run.verdict) == ""
    assert row_of(run, run.directory.parent).outcome == "valid, as expected"


def test_a_permitted_anomaly_was_not_seen_with_or_without_occasion(tmp_path):
    allowed = [{"count": 0, "reason": "", **IDLE}]
    made = page(read(open_run(edited(example.valid(tmp_path), allowed=allowed))))
    assert [row.state for row in made.allowed] == ["not seen"]


def test_a_cell_of_clients_without_any_occasion_is_no_success():
    assert Cell(without_occasion=3).words == "held 3 without occasion"
    assert Cell(without_occasion=3).tone == "unsure"
    assert Cell(held=2, without_occasion=3).words.startswith("held 2 of 2")
