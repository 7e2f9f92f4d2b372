"""`fencepost example`: the programs that come with fencepost, run by its own interpreter."""

from __future__ import annotations

import ast
import os
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from fencepost.harness.api import CampaignError
from fencepost.harness.cli.console import print_line
from fencepost.harness.system.package_files import EXAMPLES, example_programs

EXAMPLES_OF_USE = """\b
Examples:
  fencepost example
  fencepost example streams fetch
  fencepost example swallowed_write --tries 5"""


OF_RUNS = ("applications", "sinks")  # folders of programs that are instances of a run
BOOTSTRAP = "FENCEPOST_BOOTSTRAP"  # what each instance is given (docs/your-application.md)


def register(app: typer.Typer) -> None:
    """Add the command to the application; what follows the program's name is the program's."""
    settings = {"ignore_unknown_options": True, "allow_interspersed_args": False}
    app.command(epilog=EXAMPLES_OF_USE, context_settings=settings)(example)


def _beginning(incomplete: str) -> list[str]:
    return [name for name in example_programs() if name.startswith(incomplete)]


def example(
    name: Annotated[str, typer.Argument(help="The program's name. Without: list them.", autocompletion=_beginning)] = "",
    arguments: Annotated[list[str] | None, typer.Argument(help="Words for the program.")] = None,
) -> None:
    """Run a program that comes with fencepost: an application, a broker, what fetches their libraries, or a reproducer.

    Exit codes: the program's own; 254 there is no such program, or only a run can start it.
    """
    programs = example_programs()
    if not name:
        width = max(map(len, programs))
        for program, path in programs.items():
            print_line(f"{program:{width}}  {_summary(path)}")
        print_line(f"\nThey lie, with others, in {EXAMPLES}")
        return
    if name not in programs:
        from fencepost.harness.plugins.registry import unknown

        raise CampaignError([unknown("program", name, programs)])
    if programs[name].parent.name in OF_RUNS and not ({"fetch", "list"} & set(arguments or ()) or BOOTSTRAP in os.environ):
        raise CampaignError([f"{name} is started by a run, which gives it brokers and topics:\n{_usage(programs[name])}"])
    os.execv(sys.executable, [sys.executable, str(programs[name]), *(arguments or ())])


def _paragraphs(path: Path) -> list[str]:
    """The paragraphs of a program's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n\n")


def _summary(path: Path) -> str:
    """What a program is, in a sentence or two."""
    return " ".join(_paragraphs(path)[0].split())


def _usage(path: Path) -> str:
    """The commands that run it, each in a line."""
    commands = "\n".join(part for part in _paragraphs(path) if part.startswith("fencepost "))
    return re.sub(r" (\\\n)? +", " ", commands)
