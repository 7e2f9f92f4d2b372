"""`fencepost clean`: leftovers of runs that are over."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.console import Results, print_line


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(clean)


def clean(
    runs: Annotated[float | None, typer.Option("--runs", metavar="DAYS", min=0, help="Also remove runs older than this.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove runs without asking.")] = False,
    results: Results = None,
) -> None:
    """Remove leftovers: broken-off downloads, brokers' data of runs that are over, sandboxes whose harness died, and what dead
    runs have in Docker.

    There should be none. What belongs to a run that may still live is named and left alone. With --runs, old runs go as well,
    after a question.
    """
    from harness.runs import leftovers
    from harness.runs.store import results_root

    root, running = results_root(results), leftovers.processes()
    orphans = leftovers.orphaned_sandboxes(running)
    for process in orphans:
        leftovers.end(process)
        print_line(f"ended process {process.pid}: {process.command}")
    in_docker = leftovers.in_docker()
    for left in in_docker:
        if left.live:
            print_line(f"left alone: {left}; its run is alive")
        else:
            left.remove()
            print_line(f"removed {left}")
    removable = [*leftovers.stale_fetches(), *leftovers.data_directories(root, running)]
    old = leftovers.old_runs(root, runs, running) if runs is not None else []
    if old and (yes or typer.confirm(f"Remove {len(old)} runs older than {runs:g} days below {root}?")):
        removable = [*(path for path in removable if path.parent not in old), *old]
    for directory in removable:
        leftovers.remove(directory)
        print_line(f"removed {directory}")
    if not (orphans or removable or any(not left.live for left in in_docker)):
        print_line("nothing removed")
