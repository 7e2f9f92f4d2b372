"""`fencepost report`: a run's report, written again."""

from __future__ import annotations

from pathlib import Path

import typer

from fencepost.harness.cli.console import Results, RunArgument, print_line


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(report)


def report(run: RunArgument, results: Results = None) -> None:
    """Write a run's report again, and print where it is. RUN may also be the directory of another judgement of the run."""
    from fencepost.harness.memory.known import known_of
    from fencepost.harness.memory.remembered import remembered_of
    from fencepost.harness.report import render
    from fencepost.harness.runs.judgements import judgement_at
    from fencepost.harness.runs.store import find, results_root
    from fencepost.harness.system import liveness

    root, known = results_root(results), known_of()
    judged = judgement_at(Path(run)) or find(root, run)
    with liveness.hold(judged.directory):
        print_line(str(render(judged, remembered_of(judged, root, known))))
