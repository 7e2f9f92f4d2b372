"""Bounds of a plug-in's options: a field declares them in its type, and what lies outside is refused before the start.

`writers: Annotated[int, Between(1, 500)] = 8`. They are checked where options are read (`harness.plugins.registry`), shown by
`fencepost plugins NAME`, and stand on the reference page (docs/campaign-reference.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

HOUR_S = 3600.0
"""An hour in seconds: the longest that an option may wait."""
WEEK_S = 604_800.0
MOST_EXACT = 2**53 - 1  # the greatest whole number that every reader of JSON keeps


@dataclass(frozen=True)
class Between:
    """Bounds of a number; of several numbers, those of each.

    least: the least value.
    most: the greatest value.
    above: the least value itself is excluded.
    """

    least: float
    most: float
    above: bool = False

    def refusal(self, value: Any) -> str:
        """The reason why a value is refused; empty when it lies inside, or is no number."""
        numbers = value if isinstance(value, list | tuple) else [value]
        outside = any(isinstance(number, int | float) and not self._holds(number) for number in numbers)
        return f"must be {self}, not {plain(value)}" if outside else ""

    def _holds(self, number: float) -> bool:
        return self.least <= number <= self.most and not (self.above and number == self.least)

    def __str__(self) -> str:
        if self.above:
            return f"above {plain(self.least)} and at most {plain(self.most)}"
        return f"between {plain(self.least)} and {plain(self.most)}"


Wait = Annotated[float, Between(0, HOUR_S)]
"""Seconds to wait for something, an hour at most."""


def plain(value: Any) -> str:
    """A number without an exponent and without a needless fraction: 604800, 0.5; anything else as it is."""
    if isinstance(value, float) and math.isfinite(value) and value.is_integer() and abs(value) < MOST_EXACT:
        return str(int(value))
    return str(value)


def bounds_of(cls: Any) -> Mapping[str, Between]:
    """The bounds that the fields of a dataclass declare."""
    return _bounds_of(cls)


@lru_cache(maxsize=500)
def _bounds_of(cls: Any) -> Mapping[str, Between]:
    hints = get_type_hints(cls, include_extras=True)
    annotations = {field.name: getattr(hints[field.name], "__metadata__", ()) for field in fields(cls)}
    return {name: note for name, notes in annotations.items() for note in notes if isinstance(note, Between)}


def out_of_bounds(instance: Any) -> list[str]:
    """Fields of an instance that lie outside their declared bounds, a sentence each."""
    return [
        f"{name} = {plain(value)}: {text}"
        for name, bounds in bounds_of(type(instance)).items()
        for value in [getattr(instance, name)]
        if (text := bounds.refusal(value).partition(", not ")[0])
    ]


def unknown_choices(instance: Any) -> list[str]:
    """The fields of an instance that have none of the values of their `Literal`, a sentence each."""
    cls: Any = type(instance)
    return [
        f'{name} = "{value}": must be one of {", ".join(map(str, choices))}'
        for name, choices in _choices_of(cls).items()
        for value in [getattr(instance, name)]
        if value not in choices
    ]


@lru_cache(maxsize=500)
def _choices_of(cls: Any) -> Mapping[str, tuple[Any, ...]]:
    hints = get_type_hints(cls)
    return {field.name: get_args(hints[field.name]) for field in fields(cls) if get_origin(hints[field.name]) is Literal}


def demand_bounds(instance: Any) -> None:
    """Raise ValueError with everything of an instance that lies outside its declared bounds, or is none of its choices."""
    if wrong := out_of_bounds(instance) + unknown_choices(instance):
        raise ValueError("; ".join(wrong))


def unusable_numbers(value: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Numbers in a value as TOML gives it that mean no amount: pairs of an inner key (`[1]`) and a sentence."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from unusable_numbers(inner, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for index, element in enumerate(value):
            yield from unusable_numbers(element, f"{where}[{index}]")
    elif isinstance(value, float) and not math.isfinite(value):
        yield where, f"must be a finite number, not {value}"
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        yield where, "must be a number of at most 64 bits"
