"""Types of options and keys in words, for `fencepost plugins` and the reference page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from fencepost.harness.api.bounds import Between, plain

_PLAIN: Mapping[Any, tuple[str, str]] = {  # one, several
    bool: ("true or false", "flags"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    str: ("a text", "texts"),
}
_COUNTS = ("no", "one", "two", "three", "four")


def in_words(hint: Any, bounds: Between | None = None) -> str:
    """`a whole number, 1 to 500`."""
    return _kind(hint) + (f", {_range(bounds)}" if bounds else "")


def _range(bounds: Between) -> str:
    least, most = plain(bounds.least), plain(bounds.most)
    return f"above {least}, at most {most}" if bounds.above else f"{least} to {most}"


def _kind(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if hint in _PLAIN:
        return _PLAIN[hint][0]
    if origin is Literal:
        return ", ".join(json.dumps(choice) for choice in inner)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_kind(member) for member in inner if member is not NoneType))
    if origin in (tuple, list):
        return _several(inner)
    if origin is Mapping or origin is dict or hint in (dict, Mapping):
        return "a table"
    return "a value"


def _several(inner: tuple[Any, ...]) -> str:
    """A list of any length, or so many of a kind."""
    plural = _PLAIN.get(inner[0], ("", "values"))[1] if inner else "values"
    if len(inner) == 2 and inner[1] is Ellipsis:
        return f"a list of {_kind(inner[0]) if get_origin(inner[0]) is Literal else plural}"
    return f"{_COUNTS[len(inner)] if len(inner) < len(_COUNTS) else len(inner)} {plural}"
