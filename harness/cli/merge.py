"""`fencepost merge`: the rounds of several shards as one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fencepost.harness.cli.console import EXIT_CODES, Json, Results
from fencepost.harness.cli.round_output import Junit, OnRed, leave

EXAMPLES = """\b
Examples:
  fencepost merge results/nightly/rounds/20261125T021700Z-1of2 results/nightly/rounds/20261125T021703Z-2of2
  fencepost merge artifacts --results results"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(
        help="Merge the rounds of the shards of a campaign (`fencepost campaign FILE --shard 2/5`) into one: one table, one"
        " junit.xml, one summary.md, one exit code. What a missing shard should have performed counts as left out.\n\n"
        f"{EXIT_CODES}",
        epilog=EXAMPLES,
    )(merge)


def merge(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH",
            help="Folders of rounds, results folders, or folders into which such were copied; of several rounds of a shard below"
            " one of them the latest counts.",
        ),
    ],
    on_red: OnRed = None,
    junit: Junit = None,
    results: Results = None,
    json_: Json = False,
) -> None:
    from fencepost.harness.rounds.merging import merge_rounds
    from fencepost.harness.runs.store import writable_root

    leave(merge_rounds(writable_root(results), paths), json_, on_red or "", junit)
