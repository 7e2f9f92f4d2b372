"""Every number that a built-in plug-in takes has bounds, and what lies outside is refused by name before anything starts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal, get_args, get_type_hints

import pytest

from fencepost.harness.api import Between, Wait
from fencepost.harness.api.bounds import bounds_of, demand_bounds
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.registry import attempt, load, names, option_fields

NEEDED = {  # options without a default
    "external": {"bootstrap": "a:1"},
    "application": {"command": "true"},
    "command": {"command": "true"},
    "stages": {"commands": ["true", "true"]},
}


def numbers():
    """Each option of a built-in cluster, workload or fault that is a number, or several."""
    for group in ("cluster", "workload", "nemesis"):
        for name in names(group):
            cls = load(group, name)
            hints = get_type_hints(cls)
            for field in option_fields(cls):
                kinds = {hints[field.name], *get_args(hints[field.name])}
                if kinds & {int, float} and bool not in kinds and dict not in kinds and "Mapping" not in str(hints[field.name]):
                    yield pytest.param(cls, NEEDED.get(name, {}), field.name, id=f"{name}.{field.name}")


@pytest.mark.parametrize(("cls", "needed", "option"), list(numbers()))
def test_a_number_is_refused_outside_its_bounds(cls, needed, option):
    bounds = bounds_of(cls)[option]
    several = get_type_hints(cls)[option] not in (int, float)
    for wrong in (math.nan, math.inf, -math.inf, -1e300, 10**400, -1, 2**62, 10**9):
        if wrong == -1 and bounds.least <= -1:
            continue
        _, mistakes = attempt(cls, {**needed, option: [wrong, wrong] if several else wrong})
        assert option in [key.partition("[")[0] for key, _ in mistakes], f"{option} = {wrong} is accepted: {mistakes}"


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """Three options."""

    count: Annotated[int, Between(1, 5)] = 1  # how many
    share: Annotated[float, Between(0, 1, above=True)] = 0.5
    wait_s: Wait = 1.0

    def __post_init__(self):
        demand_bounds(self)
        if self.count > self.wait_s * 5:
            raise ValueError("too many for so short a time")


@dataclass(frozen=True, kw_only=True)
class Directed:
    """An option with a few values."""

    direction: Literal["in", "out"] = "in"

    def __post_init__(self):
        demand_bounds(self)


def test_each_option_outside_its_bounds_is_named_with_them():
    assert attempt(Bounded, {"count": 0, "share": 0, "wait_s": 1e9})[1] == [
        ("count", "must be between 1 and 5, not 0"),
        ("share", "must be above 0 and at most 1, not 0"),
        ("wait_s", "must be between 0 and 3600, not 1000000000"),
    ]


def test_what_the_class_refuses_besides_is_found_too():
    assert attempt(Bounded, {"count": 3, "share": 2, "wait_s": 0.2})[1] == [
        ("share", "must be above 0 and at most 1, not 2"),
        ("", "too many for so short a time"),
    ]


def test_an_instance_made_without_the_registry_keeps_its_bounds():
    with pytest.raises(ValueError, match="count = 6: must be between 1 and 5"):
        Bounded(count=6)


def test_an_instance_made_without_the_registry_keeps_its_choices():
    with pytest.raises(ValueError, match='direction = "up": must be one of in, out'):
        Directed(direction="up")


def test_a_value_that_is_none_of_the_choices_is_named_once():
    [(option, _)] = attempt(Directed, {"direction": "up"})[1]
    assert option == "direction"


def test_the_bounds_are_no_part_of_the_type():
    assert next((option.name, option.type, option.doc) for option in registry.options(Bounded)) == (
        "count",
        "a whole number, 1 to 5",
        "how many",
    )
