"""The rules and the table of contract keys."""

from __future__ import annotations

import pytest

from checkers.verdict.rules import RULES, full_contract
from harness.api import CONTRACT_KEYS

CONDITIONS = sorted({condition for rules in RULES.values() for rule in rules for condition in rule.when.items()})
PLACEHOLDERS = ("NUMBER", "CLASSES", "KINDS")


@pytest.mark.parametrize(("name", "value"), CONDITIONS)
def test_a_condition_of_a_rule_is_a_key_and_a_value_of_the_contract_table(name, value):
    values = CONTRACT_KEYS[name].values
    assert value.removeprefix("!") in values or {*values} & {*PLACEHOLDERS}


def test_a_key_without_a_value_has_the_default_of_the_table():
    assert full_contract({"acks": "1"}) == {**{name: key.default for name, key in CONTRACT_KEYS.items()}, "acks": "1"}


def test_every_default_is_a_value_of_its_key():
    for key in CONTRACT_KEYS.values():
        assert key.default in key.values or not key.default or key.values == ("NUMBER",), key.name
        assert key.elsewhere is None or key.elsewhere in key.values or key.values == ("NUMBER",), key.name
