"""Runs one of our functions in a node's helper, as our own user, on directories that only containers see.

`python -m fencepost.clusters.docker.helper_function MODULE:FUNCTION DIRECTORY...` writes what it returns, as a Python literal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def reference(function: Callable[..., Any]) -> str:
    """A function as the first argument of this program."""
    return f"{function.__module__}:{function.__qualname__}"


def main(reference: str, *directories: str) -> None:
    module, _, name = reference.partition(":")
    sys.stdout.write(repr(getattr(import_module(module), name)(*map(Path, directories))))


if __name__ == "__main__":
    main(*sys.argv[1:])
