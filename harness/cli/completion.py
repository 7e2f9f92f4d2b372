"""`fencepost completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

from enum import Enum
from importlib import import_module
from typing import Annotated, Any

import typer

from fencepost.harness.cli.console import print_text

EXAMPLES = """\b
Examples:
  fencepost completion bash > ~/.local/share/bash-completion/completions/fencepost
  fencepost completion zsh > ~/.zfunc/_fencepost
  fencepost completion fish > ~/.config/fish/completions/fencepost.fish"""
VARIABLE = "_FENCEPOST_COMPLETE"  # by which the shell asks `fencepost` for completions


class Shell(str, Enum):
    """Shells that can be completed for."""

    BASH, ZSH, FISH = "bash", "zsh", "fish"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    _shells().completion_init()
    app.command(epilog=EXAMPLES)(completion)


def completion(shell: Annotated[Shell, typer.Argument(help="Which shell.")]) -> None:
    """Print the script that completes commands, options and the names of plug-ins in a shell."""
    print_text(_shells().get_completion_script(prog_name="fencepost", complete_var=VARIABLE, shell=shell.value))


def _shells() -> Any:
    """Typer's own completion, which it offers as options of the program only."""
    return import_module("typer.completion")
