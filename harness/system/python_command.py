"""Command lines of Python programs of ours, which import nothing from the working directory."""

from __future__ import annotations

import sys
from pathlib import Path

START = str(Path(__file__).with_name("start_module.py"))


def module_command(module: str, *arguments: str) -> list[str]:
    """The command line that runs `module` on this interpreter, as `python -m` does, without the working directory."""
    return [sys.executable, START, module, *arguments]


def interpreter_script() -> str:
    """A shell script that stands for this interpreter where somebody calls `python -m MODULE ARGUMENTS`."""
    return f"#!/bin/sh\nexec '{sys.executable}' '{START}' \"$@\"\n"
