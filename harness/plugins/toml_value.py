"""A single value as TOML writes it: of an option on a command line, and in a campaign's text."""

from __future__ import annotations

import importlib
import sys
from typing import Any

toml: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


def toml_value(text: str) -> Any:
    """`8` -> 8, `true` -> True, `[3, 6]` -> a list; what is no such value is a text."""
    try:
        value = toml.loads(f"value = {text}")["value"]
    except ValueError:  # a number of thousands of digits, too
        return text
    return value if isinstance(value, bool | int | float | str | list | dict) else text
