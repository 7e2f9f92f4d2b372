"""`fencepost report`: a run's report, written again; or the page over all runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fencepost.harness.api import CampaignError
from fencepost.harness.api.words import plural
from fencepost.harness.cli import completions
from fencepost.harness.cli.console import RUN_HELP, Json, KnownFile, Results, err, print_json, print_line

EXAMPLES = "\b\nExamples:\n  fencepost report latest\n  fencepost report --site public"
MOST_MIB = 2_048


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(epilog=EXAMPLES)(report)


def report(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help=RUN_HELP, autocompletion=completions.runs, show_default=False)
    ] = None,
    site: Annotated[
        Path | None,
        typer.Option("--site", metavar="DIR", help="Write the page over all runs there, with copies of their reports."),
    ] = None,
    most_mib: Annotated[
        int, typer.Option("--most-mib", min=0, help="With --site: the most that the copies may hold, red runs first.")
    ] = MOST_MIB,
    known: KnownFile = None,
    results: Results = None,
    json_: Json = False,
) -> None:
    """Write a run's report again, and print where it is. RUN may also be the directory of another judgement of the run.

    With --site DIR: the page over all runs, as files that any web server, a CI job's artifacts or a disk can hold.
    """
    if (run is None) == (site is None):
        raise CampaignError(["name a run, or --site DIR for the page over all runs"])
    if run is not None:
        place = _report(run, results)
        print_json({"report": place}) if json_ else print_line(place)
    elif site is not None:
        _site(site, most_mib, known, results, json_)


def _report(run: str, results: Path | None) -> str:
    from fencepost.harness.system.blas import import_numpy_without_threads
    from fencepost.harness.system.deferred_pandas import defer_pandas

    import_numpy_without_threads()
    defer_pandas()  # before Arrow's tables are imported, which ask for it
    from fencepost.harness.memory.known import known_of
    from fencepost.harness.memory.remembered import remembered_of
    from fencepost.harness.report import render
    from fencepost.harness.runs.judgements import judgement_at
    from fencepost.harness.runs.store import find, results_root
    from fencepost.harness.system import liveness

    root, known = results_root(results), known_of()
    judged = judgement_at(Path(run)) or find(root, run)
    with liveness.hold(judged.directory):
        return str(render(judged, remembered_of(judged, root, known)))


def _site(directory: Path, most_mib: int, known: Path | None, results: Path | None, json_: bool) -> None:
    from fencepost.harness.memory.known import known_of
    from fencepost.harness.runs.store import results_root
    from fencepost.harness.site import static

    written = static.write_site(results_root(results), directory, most_mib, known_of(known))
    shown = static.summary(written)
    for note in written.notes:
        err().print(note, soft_wrap=True)
    if json_:
        print_json(shown)
    else:
        files = f"{plural(written.copied, 'file')} of runs copied, {written.unchanged:,} unchanged"
        names = [plural(count, name) for count, name in ((written.left, "report"), (written.files_left, "file")) if count]
        left = f", {' and '.join(names)} left out for lack of room (--most-mib)" if names else ""
        print_line(str(shown["site"]))
        print_line(f"{plural(len(written.entries), 'run')}, {shown['red']:,} to look at; {files}{left}")
