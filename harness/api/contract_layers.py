"""Reading of contracts, and their overlay: values by the table (`harness/api/contract.py`), and what they imply.

A given contract (`--contract`, `[test.contract]`) is refused when a key or a value is unknown, or when no client
could keep it together with what it is laid over. The contract of a plan was made by the harness: only its values are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from fencepost.harness.api.contract import CONTRACT_KEYS, ContractKey
from fencepost.harness.api.errors import CampaignError
from fencepost.harness.api.values import from_digits
from fencepost.harness.api.words import enumeration

Mistakes = list[tuple[str, str]]  # (key, what is wrong with its value)
MOST_IN_FLIGHT = 5  # requests of an idempotent producer: a broker remembers so many batches of it (KIP-98)
SPELLINGS = {("acks", "-1"): "all"}


# --------------------------------------------------------------------------------------------------
# Values
# --------------------------------------------------------------------------------------------------
def canonical(name: str, value: object) -> str | None:
    """A value as the table writes it, whatever its case; None when the key has no such value."""
    key, text = CONTRACT_KEYS[name], str(value).strip()
    if not key.listed:
        return _one_of(key, SPELLINGS.get((name, text), text))
    some = [_one_of(key, part.strip()) for part in text.split(",") if part.strip()]
    return None if None in some else ",".join(part for part in some if part)


def _one_of(key: ContractKey, text: str) -> str | None:
    for value in key.values:
        if value.lower() == text.lower():
            return value
        pattern = re.sub(r"\b[A-Z]{4,}\b", "[0-9]{1,18}", value)
        if pattern != value and re.fullmatch(pattern, text):
            return text
    return None


def allowed_values(key: ContractKey) -> str:
    """The values of a key, in words: `0, 1 or all`."""
    values = enumeration(key.values, "or")
    numbers = any(re.search(r"\b[A-Z]{4,}\b", value) for value in key.values)
    return values + (", or several of them with commas" if key.listed else " (a word in capitals is a whole number)" * numbers)


def value_mistakes(contract: Mapping[str, object]) -> Mistakes:
    """Values that the table does not have; keys that it does not have are not looked at."""
    given = [(name, value) for name, value in contract.items() if name in CONTRACT_KEYS]
    return [
        (name, f'must be {allowed_values(CONTRACT_KEYS[name])}, not "{value}"')
        for name, value in given
        if canonical(name, value) is None
    ]


def _read(contract: Mapping[str, object]) -> dict[str, str]:
    """The known keys of a contract without mistakes, in the table's spelling."""
    return {name: canonical(name, value) or "" for name, value in contract.items() if name in CONTRACT_KEYS}


# --------------------------------------------------------------------------------------------------
# Layers
# --------------------------------------------------------------------------------------------------
def default_contract() -> dict[str, str]:
    """Every key with its default."""
    return {name: key.default for name, key in CONTRACT_KEYS.items()}


def contract_mistakes(given: Mapping[str, object], beneath: Mapping[str, str] | None = None) -> Mistakes:
    """Mistakes in a given contract that is laid over another: its values, or contradictions between the two."""
    return value_mistakes(given) or _contradictions(beneath or {}, _read(given))


def overlaid_contract(beneath: Mapping[str, str], given: Mapping[str, object]) -> dict[str, str]:
    """A given contract, laid over another; what it implies follows. Raises CampaignError with every mistake."""
    wrong = [f"contract: {name}: there is no such key" for name in given if name not in CONTRACT_KEYS]
    wrong += [f"contract: {name}: {text}" for name, text in contract_mistakes(given, beneath)]
    if wrong:
        raise CampaignError(wrong)
    return _laid_over(beneath, _read(given))


def planned_contract(contract: Mapping[str, object]) -> dict[str, str]:
    """A plan's contract with every key. Keys of other versions count for nothing; without acks=all no producer is idempotent.

    Raises CampaignError with every value that the table does not have.
    """
    if wrong := value_mistakes(contract):
        raise CampaignError([f"contract: {name}: {text}" for name, text in wrong])
    whole = _laid_over(default_contract(), _read(contract))
    return whole if whole["acks"] == "all" else {**whole, "idempotence": "false"}


def _laid_over(beneath: Mapping[str, str], above: Mapping[str, str]) -> dict[str, str]:
    """One contract over another, with what the upper one implies."""
    whole = {**beneath, **_implied(above), **above}
    if _too_many_in_flight(whole) and "max_in_flight" not in above:
        whole["max_in_flight"] = str(MOST_IN_FLIGHT)
    return whole


def _too_many_in_flight(whole: Mapping[str, str]) -> bool:
    requests = whole.get("max_in_flight", "")
    return whole.get("idempotence") == "true" and requests.isdecimal() and from_digits(requests) > MOST_IN_FLIGHT


def _implied(contract: Mapping[str, str]) -> dict[str, str]:
    """Keys and values that a contract implies, directly or by what it implies."""
    implied: dict[str, str] = {}
    rest = list(contract.items())
    while rest:
        name, value = rest.pop()
        new = {key: demanded for key, demanded in CONTRACT_KEYS[name].implies.get(value, {}).items() if key not in implied}
        implied.update(new)
        rest += new.items()
    return implied


def _contradictions(beneath: Mapping[str, str], above: Mapping[str, str]) -> Mistakes:
    """Contradictions of `above` laid over `beneath`, each under a key of `above`, without those of `beneath` in itself."""
    before, whole = _broken_implications(beneath), _laid_over(beneath, above)
    remedy = "here; no client keeps both, so name every key that is to change"
    return [
        (_given_key(keys, above), f"{text} {remedy}") for keys, text in _broken_implications(whole).items() if keys not in before
    ]


def _given_key(keys: tuple[str, str], above: Mapping[str, str]) -> str:
    """The key of a contract by which a contradiction between two keys came into it."""
    causes = (name for name, value in above.items() if name in keys or _implied({name: value}).keys() & set(keys))
    return next((key for key in keys if key in above), next(causes, next(iter(above))))


def _broken_implications(whole: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """Pairs of keys of a contract that cannot stand together, each with the reason."""
    broken = {}
    for name, value in whole.items():
        for other, demanded in CONTRACT_KEYS[name].implies.get(value, {}).items() if name in CONTRACT_KEYS else ():
            if whole.get(other, demanded) != demanded:
                broken[name, other] = f"{_pair(name, value)} implies {_pair(other, demanded)}, but {_pair(other, whole[other])}"
    if _too_many_in_flight(whole):
        text = f"{_pair('idempotence', 'true')} allows at most {MOST_IN_FLIGHT} requests in flight"
        broken["max_in_flight", "idempotence"] = f"{text}, but {_pair('max_in_flight', whole['max_in_flight'])}"
    return broken


def _pair(name: str, value: str) -> str:
    return f'{name} = "{value}"'
