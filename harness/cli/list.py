"""`fencepost list`: the runs in the results folder."""

from __future__ import annotations

import typer

from harness.cli.console import Json, Results, out, print_json, print_line, table


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("list")(list_runs)


def list_runs(results: Results = None, json_: Json = False) -> None:
    """Every run that lies in the results, with its verdict; the newest last."""
    from harness.runs import store

    runs = store.list_runs(store.results_root(results))
    if json_:
        print_json([vars(run) for run in runs])
        return
    if not runs:
        print_line(f"no runs below {store.results_root(results)}")
        return
    rows = [(run.id, run.campaign, run.test, run.created, _outcome(run.verdict, run.expectation_met)) for run in runs]
    out().print(table(("run", "campaign", "test", "created", "verdict"), rows))


def _outcome(verdict: str, met: bool | None) -> str:
    if not verdict:
        return "not judged"
    return verdict if met is None else f"{verdict}, {'as expected' if met else 'against expectation'}"
