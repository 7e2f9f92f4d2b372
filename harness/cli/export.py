"""`fencepost export`: a run's history for Jepsen's own checker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fencepost.harness.api import CampaignError
from fencepost.harness.cli.console import Results, RunArgument, print_line
from fencepost.harness.system import liveness

EXAMPLES = "\b\nExamples:\n  fencepost export latest --format jepsen-edn --out merge.edn"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(epilog=EXAMPLES)(export)


def export(
    run: RunArgument,
    format_: Annotated[str, typer.Option("--format", help="jepsen-edn or jepsen-json.")] = "jepsen-edn",
    to: Annotated[Path | None, typer.Option("--out", help="Where to; default: in the run's directory.")] = None,
    results: Results = None,
) -> None:
    """Write a run's history as Jepsen's own checker reads it, and print where it is."""
    from fencepost.harness.history import merge
    from fencepost.harness.interop.jepsen import export as exporting
    from fencepost.harness.runs.merging import merged
    from fencepost.harness.runs.store import find, results_root

    recorded = find(results_root(results), run)
    if to is not None and not to.parent.is_dir():
        raise CampaignError([f"--out {to}: there is no directory {to.parent}"])
    merge.demand_local(recorded)
    with liveness.hold(recorded.directory):
        run_with_history = merged(recorded)
        try:
            lines = exporting.export(run_with_history, format_, to)
        except OSError as error:
            raise CampaignError([f"--out {to}: cannot be written: {error.strerror}"]) from error
    print_line(f"{to or recorded.path(exporting.file_of(format_))} ({lines} lines)")
