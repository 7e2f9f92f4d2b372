"""`fencepost matrix`: which steps of the protocol were struck, and what was seen."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.harness.cli.console import Json, Results, err, print_json, print_line, print_table

if TYPE_CHECKING:
    from fencepost.harness.matrix.crossings import Crossings

MOST_LINES = 12  # of pairs that were not met
EXAMPLES = (
    "\b\nExamples:\n  fencepost campaign matrix\n  fencepost campaign matrix-crossed\n  fencepost matrix\n"
    "  fencepost matrix --html matrix.html --svg matrix.svg"
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
    """Faults at the steps of the transaction protocol (docs/protocol-faults.md): what was held, violated, and not exercised.

    Reads the runs below the results folder whose faults name a cell of the matrix, as those of `campaigns/matrix.toml` do.
    """
    from fencepost.harness.api.beneath import write_text
    from fencepost.harness.api.run import RunFile
    from fencepost.harness.matrix import page, picture
    from fencepost.harness.matrix.crossings import crossings
    from fencepost.harness.matrix.results import STATES, of_strikes, strikes_of
    from fencepost.harness.runs.store import list_runs, results_root

    root = results_root(results)
    runs = [run for run in list_runs(root) if campaign in ("", run.campaign)]
    strikes = [strike for run in runs for strike in strikes_of(run)]
    if not strikes:
        err().print(f"no run below {root} has a fault of a cell")
    found, crossed = of_strikes(strikes), crossings(strikes)
    if html is not None:
        reports = {run.id: run.path(RunFile.REPORT).absolute().as_uri() for run in runs}
        write_text(html.absolute().parent, html.name, page.page(found, crossed, reports))
    if svg is not None:
        write_text(svg.absolute().parent, svg.name, picture.svg(found))
    counts = Counter(result.state for result in found)
    if json_:
        cells = [
            {"cell": str(r.cell), "state": r.state, "words": r.words, "strikes": [vars(s) for s in r.strikes]} for r in found
        ]
        print_json({"counts": dict(counts), "cells": cells, "crossings": _as_json(crossed)})
        return
    shown = [result for result in found if all_ or result.strikes]
    print_table(("cell", "result"), [(str(result.cell), result.words) for result in shown])
    print_line(", ".join(f"{counts[state]} {state}" for state in STATES))
    _print_crossings(crossed, all_)


def _as_json(crossed: Crossings) -> dict[str, Any]:
    return {
        "counts": {f"{factor} {value}": dict(counts) for (factor, value), counts in crossed.counts().items()},
        "results": [{"crossing": str(result.crossing), "words": result.words} for result in crossed.results],
        "pairs": {"covered": len(crossed.covered), "uncovered": crossed.uncovered},
    }


def _print_crossings(crossed: Crossings, all_: bool) -> None:
    """A table by factor, the crossings that were violated or not met, and the pairs of values that were not met."""
    from fencepost.harness.matrix.crossings import CROSSING_STATES, uncovered_lines
    from fencepost.harness.matrix.results import UNEXERCISED, VIOLATED

    print_line("")
    rows = [
        (factor, value, *(str(counts[state]) for state in CROSSING_STATES))
        for (factor, value), counts in crossed.counts().items()
    ]
    print_table(("factor", "value", *CROSSING_STATES), rows)
    shown = (VIOLATED, UNEXERCISED) if all_ else (VIOLATED,)
    told = [result for result in crossed.results if result.state in shown]
    if told:
        print_table(("crossing", "result"), [(str(result.crossing), result.words) for result in told])
    lines = uncovered_lines(crossed)
    counts = Counter(result.state for result in crossed.results)
    print_line("Crossings: " + ", ".join(f"{counts[state]} {state}" for state in CROSSING_STATES))
    print_line(f"Pairs of two factors' values: {len(crossed.covered)} met, {len(crossed.uncovered)} not met")
    for line in lines if all_ else lines[:MOST_LINES]:
        print_line(f"  {line}")
    if not all_ and len(lines) > MOST_LINES:
        print_line(f"  and {len(lines) - MOST_LINES} lines more: --all")
