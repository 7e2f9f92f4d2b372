"""The rules and the table of contract keys."""

from __future__ import annotations

import pytest
from support.installed import INSTALLED

from fencepost.checkers.contract.rules import full_contract
from fencepost.checkers.model.lawful_history import CONTRACT
from fencepost.harness.api.contract import CONTRACT_KEYS
from fencepost.harness.api.contract_layers import canonical, contract_mistakes

CONDITIONS = sorted({condition for check in INSTALLED.values() for rule in check.rules for condition in rule.when.items()})


@pytest.mark.parametrize(("name", "value"), CONDITIONS)
def test_a_condition_of_a_rule_is_a_key_and_a_value_of_the_contract_table(name, value):
    bare = value.removeprefix("!").removeprefix("has:")
    assert canonical(name, bare) == bare
    assert CONTRACT_KEYS[name].listed == value.startswith("has:")


def test_a_key_without_a_value_has_the_default_of_the_table():
    assert full_contract({"acks": "0"}) == {**{name: key.default for name, key in CONTRACT_KEYS.items()}, "acks": "0"} | {
        "idempotence": "false"
    }


def test_every_default_is_a_value_of_its_key():
    for key in CONTRACT_KEYS.values():
        assert canonical(key.name, key.default) == key.default, key.name
        assert key.elsewhere is None or canonical(key.name, key.elsewhere) == key.elsewhere, key.name


def test_the_contract_of_lawful_histories_is_one_of_the_table():
    assert contract_mistakes(CONTRACT) == []
    assert list(CONTRACT) == [name for name, key in CONTRACT_KEYS.items() if key.planned]
