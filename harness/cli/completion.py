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
# Bash splits words at `=` and `:`, and typer's own script takes what it gets. So the words are those of the line itself, and what
# bash takes for the beginning of the last one is cut off from the answers.
BASH = """\
_fencepost_completion() {
    local line="${COMP_LINE:0:COMP_POINT}" last reply IFS=$'\\n'
    local -a words
    IFS=$' \\t' read -r -a words <<< "$line"
    [[ "$line" == *[[:space:]] ]] && words+=("")
    last="${words[${#words[@]}-1]}"
    COMPREPLY=()
    for reply in $(env COMP_WORDS="$line" COMP_CWORD=$((${#words[@]} - 1)) _FENCEPOST_COMPLETE=complete_bash "$1"); do
        [[ "$last" == *[=:]* ]] && reply="${reply#"${last%"${last##*[=:]}"}"}"
        COMPREPLY+=("$reply")
    done
    [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == *[=:,] ]] && compopt -o nospace 2>/dev/null
    return 0
}

complete -o default -F _fencepost_completion fencepost"""
VARIABLE = "_FENCEPOST_COMPLETE"  # by which the shell asks `fencepost` for completions


class Shell(str, Enum):
    """Shells that can be completed for."""

    BASH, ZSH, FISH = "bash", "zsh", "fish"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    _shells().completion_init()
    app.command(epilog=EXAMPLES)(completion)


def completion(shell: Annotated[Shell, typer.Argument(help="Which shell.")]) -> None:
    """Print the script that completes commands, options and their values: plug-ins, settings, targets, tests, runs."""
    if shell is Shell.BASH:
        print_text(BASH)
        return
    print_text(_shells().get_completion_script(prog_name="fencepost", complete_var=VARIABLE, shell=shell.value))


def _shells() -> Any:
    """Typer's own completion, which it offers as options of the program only."""
    return import_module("typer.completion")
