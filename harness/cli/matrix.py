"""`fencepost matrix`: which steps of the protocol were struck, and what was seen."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from fencepost.harness.cli.console import Json, Results, print_json, print_line, print_table

EXAMPLES = (
    "\b\nExamples:\n  fencepost campaign matrix\n  fencepost matrix\n  fencepost matrix --html matrix.html --svg matrix.svg"
)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(epilog=EXAMPLES)(matrix)


def matrix(
    html: Annotated[Path | None, typer.Option("--html", help="Write the page, with a heat map, to this file.")] = None,
    svg: Annotated[Path | None, typer.Option("--svg", help="Write the heat map alone.")] = None,
    campaign: Annotated[str, typer.Option("--campaign", help="Only runs of this campaign.")] = "",
    all_: Annotated[
        bool, typer.Option("--all", help="List also the cells that no run has planned, and those that cannot be.")
    ] = False,
    results: Results = None,
    json_: Json = False,
) -> None:
    """Faults at the steps of the transaction protocol (docs/proxy.md): what was held, violated, and not exercised.

    Reads the runs below the results folder whose faults name a cell of the matrix, as those of `campaigns/matrix.toml` do.
    """
    from fencepost.harness.api.beneath import write_text
    from fencepost.harness.api.run import RunFile
    from fencepost.harness.matrix import page, picture
    from fencepost.harness.matrix.results import STATES
    from fencepost.harness.matrix.results import results as results_of
    from fencepost.harness.runs.store import list_runs, results_root

    root = results_root(results)
    runs = [run for run in list_runs(root) if campaign in ("", run.campaign)]
    found = results_of(runs)
    if html is not None:
        reports = {run.id: run.path(RunFile.REPORT).absolute().as_uri() for run in runs}
        write_text(html.absolute().parent, html.name, page.page(found, reports))
    if svg is not None:
        write_text(svg.absolute().parent, svg.name, picture.svg(found))
    counts = Counter(result.state for result in found)
    if json_:
        cells = [
            {"cell": str(r.cell), "state": r.state, "words": r.words, "strikes": [vars(s) for s in r.strikes]} for r in found
        ]
        print_json({"counts": dict(counts), "cells": cells})
        return
    shown = [result for result in found if all_ or result.strikes]
    print_table(("cell", "result"), [(str(result.cell), result.words) for result in shown])
    print_line(", ".join(f"{counts[state]} {state}" for state in STATES))
