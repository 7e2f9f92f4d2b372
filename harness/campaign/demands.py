"""Promises that a fault breaks by itself, and that a test's contract still makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fencepost.harness.api import CampaignError
from fencepost.harness.api.contract import CONTRACT_KEYS
from fencepost.harness.api.contract_layers import canonical
from fencepost.harness.api.plans import Test
from fencepost.harness.planning.plan import foreseen_contract
from fencepost.harness.plugins import services


def unsaid_demands(demanded: Mapping[str, str], test: Test, provider: Any, workload: Any) -> list[str]:
    """What a fault's test has to say in its contract, and does not. provider, workload: None where their options are wrong.

    What a weakening key names need not be said where the contract that the test will have permits nothing more with it.
    """
    wrong = []
    for name, value in demanded.items():
        key = CONTRACT_KEYS[name]
        if _says(test.contract, name, value) or (key.weakening and not _permits_more({name: value}, test, provider, workload)):
            continue
        otherwise = f' (it is permitted then), or "{key.default}" (it is found then)' if key.weakening else ""
        where = "in [test.contract], or by --contract"
        wrong.append(f'breaks a promise by itself, so the test has to say {where}: {name} = "{value}"{otherwise}')
    return wrong


def _says(contract: Mapping[str, object], name: str, value: str) -> bool:
    """Return whether a given contract has a value of a key, or has of a weakening one its first value, or a weaker one."""
    given, key = canonical(name, contract.get(name, "")), CONTRACT_KEYS[name]
    if not given or not key.weakening:
        return value in (given or "").split(",")
    return given == key.default or key.values.index(given) >= key.values.index(value)


def _permits_more(above: Mapping[str, str], test: Test, provider: Any, workload: Any) -> bool:
    if workload is None or provider is None:
        return False
    try:
        contract = foreseen_contract(test, provider, workload)
    except CampaignError:  # a contract that cannot be meant, which is named already
        return False
    return contract is None or services.judge().permits_more(contract, above)
