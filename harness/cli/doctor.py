"""`fencepost doctor`: what this machine can do."""

from __future__ import annotations

import typer

from fencepost.harness.cli.console import Json, Results, print_json, print_line, print_table


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(doctor)


def doctor(results: Results = None, json_: Json = False) -> None:
    """What this machine can do, and what to do about what it cannot.

    Exit code: 0 when a run is possible, else 1.
    """
    from fencepost.harness.cli.machine import examine, possible
    from fencepost.harness.runs.store import results_root

    findings = examine(results_root(results))
    if json_:
        print_json([vars(finding) for finding in findings])
    else:
        marks = {True: "ok", False: "MISSING", None: "-"}
        rows = [
            (marks[finding.ok], finding.name, finding.text + (f"\n-> {finding.remedy}" if finding.remedy else ""))
            for finding in findings
        ]
        print_table(("", "what", "found"), rows)
        print_line("A run is possible here." if possible(findings) else "No run is possible here.")
    raise typer.Exit(0 if possible(findings) else 1)
