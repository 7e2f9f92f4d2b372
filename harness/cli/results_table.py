"""The results of runs: as a table, as paths, and for machines."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from fencepost.harness.api.run import RunFile
from fencepost.harness.runs.result_words import forbidden_findings, together
from fencepost.harness.runs.sequence import RunResult, by_test, expectation_met, left_open

GOOD, BAD, DOUBTFUL = "green", "bold red", "yellow"


def style_of(result: RunResult) -> str:
    if result.met and not result.error:
        return GOOD
    return DOUBTFUL if result.undecided else BAD


def results_table(results: Sequence[RunResult], unperformed: Collection[str] = ()) -> Table:
    """One row for each test: what came, whether that was expected, on how much it rests. unperformed: as for `exit_code`."""
    table = Table("test", "verdict", "expectation", title=None, box=None, pad_edge=False, header_style="bold")
    for name in ("operations", "findings", "time"):
        table.add_column(name, justify="right")
    for runs in by_test(results):
        met, name = expectation_met(runs), runs[0].planned.test.name
        operations = sum(int(run.verdict.get("counts", {}).get("operations", 0)) for run in runs)
        findings = sum(forbidden_findings(run.verdict) for run in runs)
        table.add_row(
            Text(name),
            Text(together(runs), style=GOOD if met else style_of(next((run for run in runs if not run.met), runs[0]))),
            _expectation(met, runs, name in unperformed),
            str(operations),
            str(findings),
            f"{sum(run.took_s for run in runs):.0f} s",
        )
    return table


def _expectation(met: bool, runs: Sequence[RunResult], unperformed: bool) -> Text:
    """The word for whether the runs of a test showed what it expects."""
    if not met and left_open(runs, unperformed):
        return Text("unknown", style=DOUBTFUL)
    if met and any(run.known_alone for run in runs):
        return Text("met, but for known findings", style=GOOD)
    return Text("met", style=GOOD) if met else Text("not met", style=BAD)


def report_lines(results: Sequence[RunResult]) -> list[str]:
    """The path of each run's report (or of its directory, when there is none)."""
    lines = []
    for result in results:
        if result.run_dir:
            report = result.run_dir / RunFile.REPORT
            lines.append(f"{result.planned.test.name}: {report if report.exists() else result.run_dir}")
    return lines


def as_json(result: RunResult) -> dict[str, Any]:
    """One run for machines."""
    return {
        "test": result.planned.test.name,
        "seed": result.planned.seed,
        "expect": list(result.planned.test.expect),
        "directory": str(result.run_dir) if result.run_dir else None,
        "run": result.verdict.get("run"),
        "verdict": result.verdict.get("verdict"),
        "expectation_met": None if result.undecided else result.met,
        "violated": result.violated,
        "findings": forbidden_findings(result.verdict),
        "operations": result.verdict.get("counts", {}).get("operations", 0),
        "error": result.error,
        "took_s": round(result.took_s, 1),
        "command": result.planned.command,
    }
