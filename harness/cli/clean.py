"""`fencepost clean`: leftovers of runs that are over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.harness.api import ClusterError
from fencepost.harness.api.words import plural
from fencepost.harness.cli.console import Results, print_line

if TYPE_CHECKING:
    from fencepost.harness.runs.leftovers import Leftover, Process


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(clean)


def clean(
    runs: Annotated[float | None, typer.Option("--runs", metavar="DAYS", min=0, help="Also remove runs older than this.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove runs without asking.")] = False,
    results: Results = None,
) -> None:
    """Remove leftovers: broken-off downloads, brokers' data of runs that are over, sandboxes whose harness died, temporary
    directories of killed sessions, and what dead runs have in Docker.

    There should be none. What is in use is named with its user and left alone. With --runs, old runs go as well, after a
    question.
    """
    from fencepost.harness.runs import leftovers
    from fencepost.harness.runs.store import results_root

    root, running = results_root(results), leftovers.processes()
    removed = sum([_end_sandboxes(running), _clean_docker()])
    old = leftovers.old_runs(root, runs) if runs is not None else []
    if old and not (yes or typer.confirm(f"Remove {plural(len(old), 'run')} older than {runs:g} days below {root}?")):
        old = []
    gone = {leftover.directory for leftover in old}
    data = [leftover for leftover in leftovers.data_directories(root) if leftover.locked not in gone]
    for leftover in [*leftovers.downloads(), *leftovers.temporary_directories(), *data, *old]:
        removed += _remove(leftover, running)
    if not removed:
        print_line("nothing removed")


def _end_sandboxes(running: Sequence[Process]) -> int:
    """End the sandboxes that have lost their harness; how many."""
    from fencepost.harness.runs import leftovers

    orphans = leftovers.orphaned_sandboxes(running)
    for process in orphans:
        leftovers.end(process)
        print_line(f"ended process {process.pid}: {process.command}")
    return len(orphans)


def _clean_docker() -> int:
    """Remove what dead runs have in Docker; of how many."""
    from fencepost.harness.runs import leftovers

    removed = 0
    try:
        for left in leftovers.in_docker():
            if left.live:
                print_line(f"left alone: {left}; {left.user}")
            else:
                left.remove()
                print_line(f"removed {left}")
                removed += 1
    except ClusterError as error:
        print_line(f"what may be left in Docker is not known: {error}")
    return removed


def _remove(leftover: Leftover, running: Sequence[Process]) -> int:
    """Remove a directory that nobody uses; how many were."""
    from fencepost.harness.runs import leftovers

    with leftover.unused(running) as user:
        if user:
            print_line(f"left alone: {leftover.directory}, in use by {user}")
            return 0
        try:
            leftovers.remove(leftover.directory)
        except OSError as error:
            print_line(f"left alone: {leftover.directory} cannot be removed: {error.strerror or error}")
            return 0
        print_line(f"removed {leftover.directory}")
        return 1
