"""Runs for a moment in a node's helper, as our own user: a function of ours on directories that only containers see.

`python -m clusters.docker.helper_function MODULE:FUNCTION DIRECTORY...` writes what it returns, as a Python literal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def name(work: Callable[..., Any]) -> str:
    """A function as the errand's first argument."""
    return f"{work.__module__}:{work.__qualname__}"


def main(work: str, *directories: str) -> None:
    module, _, function = work.partition(":")
    sys.stdout.write(repr(getattr(import_module(module), function)(*map(Path, directories))))


if __name__ == "__main__":
    main(*sys.argv[1:])
