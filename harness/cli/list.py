"""`fencepost list`: the runs in the results folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from harness.api import Run
from harness.cli.console import Json, Results, out, print_json, print_line, table


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("list")(list_runs)


def list_runs(results: Results = None, json_: Json = False) -> None:
    """Every run that lies in the results, with its verdict; the newest last."""
    from harness.runs import store

    runs = store.list_runs(store.results_root(results))
    if json_:
        print_json([_document(run) for run in runs])
        return
    if not runs:
        print_line(f"no runs below {store.results_root(results)}")
        return
    rows = [(run.id, run.campaign, run.test, run.created, _outcome(run.verdict)) for run in runs]
    out().print(table(("run", "campaign", "test", "created", "verdict"), rows))


def _document(run: Run) -> dict[str, Any]:
    """A run as `--json` shows it; `verdict` is empty while there is none."""
    return {
        "directory": run.directory,
        "id": run.id,
        "campaign": run.campaign,
        "test": run.test,
        "created": run.created,
        "verdict": str(run.verdict.get("verdict", "")),
        "expectation_met": run.verdict.get("expectation_met"),
    }


def _outcome(verdict: Mapping[str, Any]) -> str:
    if not verdict.get("verdict"):
        return "not judged"
    met = verdict.get("expectation_met")
    return str(verdict["verdict"]) if met is None else f"{verdict['verdict']}, {'as expected' if met else 'against expectation'}"
