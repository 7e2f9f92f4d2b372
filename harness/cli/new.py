"""`fencepost new`: a plug-in written from the example."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from fencepost.harness.cli.console import print_line

EXAMPLES = """\b
Examples:
  fencepost new nemesis slow_disk
  fencepost new transactional-workload swap
  fencepost new checker no_gaps --dir checks
  fencepost new client my_driver"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(epilog=EXAMPLES)(new)


class Kind(str, Enum):
    """The kinds of plug-ins that can be scaffolded."""

    NEMESIS, WORKLOAD, TRANSACTIONAL = "nemesis", "workload", "transactional-workload"
    CHECKER, CLUSTER, CLIENT = "checker", "cluster", "client"


def new(
    kind: Annotated[Kind, typer.Argument(help="What it is to be.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, like slow_disk; it becomes a module NAME.py.")],
    directory: Annotated[Path, typer.Option("--dir", help="Where to.")] = Path(),
) -> None:
    """Write a plug-in that works at once, and its test. What is there already is never overwritten (docs/plugins.md).

    Exit codes: 0 written; 254 a name or a place that cannot be used, nothing was written.
    """
    from fencepost.harness.plugins import scaffold

    files, commands = scaffold.new(kind.value, name, directory)
    for path in files:
        print_line(f"wrote {path}")
    print_line(f"\n{files[0].name} is a working example under your name: change it into what you need. Try:")
    for command in commands:
        print_line(f"  {command}")
