"""Optional names are declared, and a misspelt one is named when the plug-in is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.harness import api
from fencepost.harness.api.optional import OPTIONAL, names_of, optional_names
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.optional_names import FIELDS, SHORTEST, misspelt
from fencepost.harness.plugins.validation import breaches

ALL = [(group, name) for group in OPTIONAL for name in optional_names(group)]
LOOKED_FOR = [(group, name) for group, name in ALL if len(name) >= SHORTEST and name not in FIELDS]
GUIDE = Path(__file__).parents[3] / "docs" / "plugin-reference.md"


def of(group, **members):
    """A built-in plug-in of this kind with members of these names beside its own."""
    sound = {"workload": "idempotent", "cluster": "local", "nemesis": "halves"}[group]
    base = registry.load(group, sound)
    return type("Mine", (base,), members)


@pytest.mark.parametrize(
    ("group", "name"), [(group, name) for group, name in ALL if len(name) >= SHORTEST and name not in FIELDS]
)
def test_a_misspelt_optional_name_is_named_with_the_right_one(group, name):
    wrong = name[:-1] + "x" + name[-1]
    (text,) = misspelt(group, type("Mine", (), {wrong: None}))
    assert text.startswith(f'Mine.{wrong} is no name that is looked at; did you mean "{name}"?')


def test_the_misspellings_that_are_to_be_expected():
    for wrong, right in (("settle", "settle_s"), ("first_epochs", "first_epoch"), ("member_setting", "member_settings")):
        (text,) = misspelt("workload", type("Mine", (), {wrong: None}))
        assert f'did you mean "{right}"?' in text


@pytest.mark.parametrize(("group", "name"), ALL)
def test_an_optional_name_that_is_right_is_no_breach(group, name):
    together = next(names for names in map(names_of, OPTIONAL[group]) if name in names)
    assert misspelt(group, type("Mine", (), dict.fromkeys(together))) == []


@pytest.mark.parametrize(
    ("group", "wrong", "right"),
    [
        ("workload", "first_epochs", "first_epoch"),
        ("workload", "member_setting", "member_settings"),
        ("nemesis", "of_transaction", "of_transactions"),
        ("cluster", "default_nemeses", "default_nemesis"),
    ],
)
def test_it_is_a_breach_of_the_plug_in(group, wrong, right):
    assert f'Mine.{wrong} is no name that is looked at; did you mean "{right}"?' in breaches(group, of(group, **{wrong: None}))[0]


def test_a_field_is_an_option_and_never_taken_for_misspelt():
    assert "settle_s" in registry.load("workload", "transactions").__dataclass_fields__
    assert misspelt("workload", registry.load("workload", "transactions")) == []


def test_a_private_name_and_one_beside_the_right_name_are_let_through():
    assert misspelt("workload", type("Mine", (), {"_settle": None})) == []
    assert misspelt("cluster", type("Mine", (), {"prefix": "a", "prefixes": None})) == []


def test_one_half_of_an_interface_is_named():
    (text,) = misspelt("workload", type("Mine", (), {"entry": None}))
    assert text == "Mine has entry, and lacks logs: they are one interface (ReadsBack)"


@pytest.mark.parametrize(("group", "name"), ALL)
def test_every_optional_name_is_exported_and_in_the_guide(group, name):
    protocol = next(protocol for protocol in OPTIONAL[group] if name in names_of(protocol))
    assert getattr(api, protocol.__name__) is protocol
    assert f"`{protocol.__name__}`" in GUIDE.read_text()
    assert f"`{name}`" in GUIDE.read_text() or f"`{name}(" in GUIDE.read_text()
