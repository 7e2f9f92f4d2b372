"""A run in a row, from its documents."""

from __future__ import annotations

from support import report_example as example

from fencepost.harness.history.run_directory import open_run
from fencepost.harness.memory.rows import row_of


def test_a_row_holds_what_plan_and_verdict_say(tmp_path):
    directory = example.RUNS["torn"](tmp_path / "campaign" / "run")
    run = open_run(directory)
    row = row_of(run, tmp_path)
    assert row.place == "campaign/run"
    assert (row.run, row.test, row.verdict) == (run.id, run.test, run.verdict["verdict"])
    forbidden = [finding for finding in run.verdict["findings"] if finding.get("forbidden", True)]
    assert sum(finding.count for finding in row.findings) == len(forbidden)
    assert set(row.anomalies) == {prop["name"] for prop in run.verdict["properties"] if prop["verdict"] == "violated"}


def test_a_run_without_a_verdict_is_red(tmp_path):
    directory = example.RUNS["valid"](tmp_path / "campaign" / "run")
    (directory / "verdict.json").unlink()
    row = row_of(open_run(directory), tmp_path)
    assert (row.verdict, row.met, row.findings, row.red) == ("", None, (), True)
