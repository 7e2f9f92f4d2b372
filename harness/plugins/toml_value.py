"""A single value as TOML writes it: of an option on a command line, and in a campaign's text."""

from __future__ import annotations

import importlib
import sys
from typing import Any

OPENING = ("[", "{", '"', "'")  # of values that may hold a comma
toml: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


def option_parts(text: str) -> list[str]:
    """The parts of `name[,key=value...]`: a comma inside `[3,6]`, `{a=1,b=2}` or `"a,b"` parts nothing, where that is closed."""
    name, *rest = text.split(",")
    parts = [name]
    while rest:
        sizes = range(1, len(rest) + 1)
        size = next((size for size in sizes if _is_whole(",".join(rest[:size]))), 1)
        parts.append(",".join(rest[:size]))
        del rest[:size]
    return parts


def _is_whole(part: str) -> bool:
    value = part.partition("=")[2].strip()
    return value[:1] not in OPENING or toml_value(value) != value


def toml_value(text: str) -> Any:
    """`8` -> 8, `true` -> True, `[3, 6]` -> a list; what is no such value is a text."""
    try:
        value = toml.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # a number of thousands of digits, a thousand brackets
        return text
    return value if isinstance(value, bool | int | float | str | list | dict) else text
