"""`fencepost export`: a run for other programs: Jepsen's own checker, Perfetto, whatever reads graphs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.harness.api import CampaignError
from fencepost.harness.api.words import unknown_word
from fencepost.harness.cli.console import Results, RunArgument, print_line, print_text
from fencepost.harness.system import liveness

if TYPE_CHECKING:
    from fencepost.harness.api.run import Run

EXAMPLES = """\b
Examples:
  fencepost export latest --format jepsen-edn --out merge.edn
  fencepost export latest --format perfetto --out trace.json.gz
  fencepost export latest --format graphml --finding 1
  fencepost export --schema"""
FORMATS = ("jepsen-edn", "jepsen-json", "perfetto", "graphml")
Writer = Callable[["Run", "Path | None"], int]  # what it wrote, counted


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(epilog=EXAMPLES)(export)


def print_schema(wanted: bool) -> None:
    """Print the JSON schema of `verdict.json` instead of all else."""
    if wanted:
        from fencepost.harness.api.verdict_schema import schema_text

        print_text(schema_text())
        raise typer.Exit


def export(
    run: RunArgument,
    format_: Annotated[str, typer.Option("--format", help=f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}.")] = FORMATS[0],
    to: Annotated[
        Path | None, typer.Option("--out", help="Where to; default: in the run's directory. A name that ends in .gz is packed.")
    ] = None,
    finding: Annotated[int | None, typer.Option("--finding", help="graphml: only what lies around this finding.")] = None,
    radius: Annotated[int, typer.Option("--radius", min=0, help="graphml: so many edges around the finding.")] = 1,
    results: Results = None,
    schema: Annotated[
        bool, typer.Option("--schema", is_eager=True, callback=print_schema, help="Print the JSON schema of verdict.json.")
    ] = False,
) -> None:
    """Write a run as other programs read it, and print where it is.

    jepsen-edn, jepsen-json: its history, for Jepsen's own checker. perfetto: its operations, faults and findings, as a trace for
    https://ui.perfetto.dev. graphml: its history graph, or what lies around a finding (docs/run-as-data.md).
    """
    from fencepost.harness.history import merge
    from fencepost.harness.runs.merging import merged
    from fencepost.harness.runs.store import find, results_root

    name, write, counted = _writer(format_, finding, radius)
    recorded = find(results_root(results), run)
    if to is not None and not to.parent.is_dir():
        raise CampaignError([f"--out {to}: there is no directory {to.parent}"])
    merge.demand_local(recorded)
    with liveness.hold(recorded.directory):
        run_with_history = merged(recorded)
        try:
            count = write(run_with_history, to)
        except OSError as error:
            raise CampaignError([f"--out {to}: cannot be written: {error.strerror}"]) from error
    print_line(f"{to or recorded.path(name)} ({count} {counted})")


def _writer(format: str, finding: int | None, radius: int) -> tuple[str, Writer, str]:
    """The name of a format's file in the run's directory, what writes it, and what that counts."""
    if format not in FORMATS:
        raise CampaignError([unknown_word("format", format, FORMATS)])
    if format == "graphml":
        from fencepost.harness.data import graphml_export

        return graphml_export.file_of(finding), partial(graphml_export.export, finding=finding, radius=radius), "nodes and edges"
    if finding is not None:
        raise CampaignError([f"--finding {finding}: only for --format graphml; {format} has the whole run"])
    if format == "perfetto":
        from fencepost.harness.interop.perfetto import export as perfetto

        return perfetto.FILE, perfetto.export, "events"
    from fencepost.harness.interop.jepsen import export as jepsen

    return jepsen.file_of(format), lambda run, out: jepsen.export(run, format, out), "lines"
