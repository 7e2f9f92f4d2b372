"""`fencepost compare`: two runs side by side."""

from __future__ import annotations

from typing import Annotated

import typer

from fencepost.harness.api.words import plural
from fencepost.harness.cli.console import Json, Results, RunArgument, print_json, print_line, print_table

EXAMPLES = "\b\nExamples:\n  fencepost compare latest k3f9x2"

LONGEST = 60  # characters of a value in the table; `--json` has all of it


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(epilog=EXAMPLES)(compare)


def compare(
    run: RunArgument,
    other: RunArgument,
    all_: Annotated[bool, typer.Option("--all", help="Also what is alike.")] = False,
    results: Results = None,
    json_: Json = False,
) -> None:
    """What differs between two runs: outcome, versions, findings, rates and settings."""
    from fencepost.harness.memory.rows import row_of
    from fencepost.harness.page_text import shortened
    from fencepost.harness.runs.store import find, results_root
    from fencepost.harness.site.comparison import compared
    from fencepost.harness.site.settings import settings_of

    root = results_root(results)
    runs = [find(root, text) for text in (run, other)]
    rows = [row_of(found, found.directory.parent.parent) for found in runs]
    lines = compared(rows[0], rows[1], *(settings_of(found.directory) for found in runs))
    shown = [line for line in lines if all_ or line.differs]
    alike = sum(not line.differs for line in lines)
    if json_:
        named = [{"part": line.part, "name": line.name, "a": line.a, "b": line.b, "differs": line.differs} for line in shown]
        print_json({"a": runs[0].directory, "b": runs[1].directory, "alike": alike, "lines": named})
        return
    cells = [(line.part, line.name, shortened(line.a, LONGEST), shortened(line.b, LONGEST)) for line in shown]
    print_table(("", "", f"A: {runs[0].id}", f"B: {runs[1].id}"), cells)
    if not all_:
        print_line(f"{plural(alike, 'thing is', 'things are')} alike (--all)")
