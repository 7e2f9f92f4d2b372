"""Contracts as they are read and laid over each other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fencepost.harness.api import CampaignError
from fencepost.harness.api.contract import CONTRACT_KEYS
from fencepost.harness.api.contract_layers import (
    canonical,
    contract_mistakes,
    default_contract,
    overlaid_contract,
    planned_contract,
)

ROOT = Path(__file__).parents[3]
TRANSACTIONS = overlaid_contract(default_contract(), {"transactional": "true"})
WEAK = overlaid_contract(default_contract(), {"acks": "1"})


@pytest.mark.parametrize(
    ("beneath", "given", "changed"),
    [
        (default_contract(), {"acks": "1"}, {"acks": "1", "idempotence": "false"}),
        (default_contract(), {"acks": "0"}, {"acks": "0", "idempotence": "false"}),
        (default_contract(), {"acks": -1}, {}),
        (default_contract(), {"transactional": True}, {"transactional": "true"}),
        (WEAK, {"acks": "all"}, {"acks": "all"}),
        (WEAK, {"idempotence": "true"}, {"acks": "all", "idempotence": "true"}),
        (WEAK, {"transactional": "true"}, {"acks": "all", "idempotence": "true", "transactional": "true"}),
        (
            {**WEAK, "max_in_flight": "1000000"},
            {"idempotence": "TRUE"},
            {"acks": "all", "idempotence": "true", "max_in_flight": "5"},
        ),
        (TRANSACTIONS, {"transactional": "false", "acks": "1"}, {"transactional": "false", "acks": "1", "idempotence": "false"}),
        (default_contract(), {"judge_uncommitted_readers": "true"}, {"judge_uncommitted_readers": "true", "readers": "all"}),
        (default_contract(), {"cycles": "g0, G-Single"}, {"cycles": "G0,G-single"}),
        (default_contract(), {"retention": "5 bytes"}, {"retention": "5 bytes"}),
    ],
)
def test_what_a_key_implies_follows_it(beneath, given, changed):
    assert overlaid_contract(beneath, given) == {**beneath, **changed}


@pytest.mark.parametrize(
    ("beneath", "given", "key", "sentence"),
    [
        (default_contract(), {"acks": "blub"}, "acks", 'must be 0, 1 or all, not "blub"'),
        (default_contract(), {"cycles": "G0,G9"}, "cycles", "or several of them with commas"),
        (default_contract(), {"retention": "2 days"}, "retention", "none, MILLISECONDS or SIZE bytes"),
        (
            default_contract(),
            {"min_insync_replicas": "-1"},
            "min_insync_replicas",
            "NUMBER (a word in capitals is a whole number)",
        ),
        (
            default_contract(),
            {"acks": "1", "idempotence": "true"},
            "idempotence",
            'idempotence = "true" implies acks = "all", but',
        ),
        (default_contract(), {"idempotence": "true", "max_in_flight": "6"}, "max_in_flight", "at most 5 requests in flight"),
        (TRANSACTIONS, {"values": "per key", "acks": "1"}, "acks", 'transactional = "true" implies idempotence = "true", but'),
        (TRANSACTIONS, {"idempotence": "false"}, "idempotence", "no client keeps both, so name every key that is to change"),
    ],
)
def test_a_contract_that_no_run_can_meet_is_refused(beneath, given, key, sentence):
    assert key in [key for key, text in contract_mistakes(given, beneath) if sentence in text]
    with pytest.raises(CampaignError, match=re.escape(sentence)):
        overlaid_contract(beneath, given)


def test_an_unknown_key_is_refused_in_what_somebody_gives_and_counts_for_nothing_in_a_plan():
    with pytest.raises(CampaignError, match="contract: akcs: there is no such key"):
        overlaid_contract({}, {"akcs": "all"})
    assert planned_contract({"akcs": "all"}) == default_contract()


def test_a_plan_recorded_with_acks_below_all_promises_no_idempotence():
    """Such plans were written before keys were derived together."""
    assert planned_contract({"acks": "1", "idempotence": "true"})["idempotence"] == "false"
    with pytest.raises(CampaignError, match='contract: acks: must be 0, 1 or all, not "blub"'):
        planned_contract({"acks": "blub"})


def test_every_value_of_the_table_is_canonical_and_implies_known_values_only():
    for key in CONTRACT_KEYS.values():
        assert all(re.search("[A-Z]{4}", value) or canonical(key.name, value) == value for value in key.values), key.name
        for value, others in key.implies.items():
            assert value in key.values
            assert all(canonical(other, wanted) == wanted for other, wanted in others.items()), key.name


def _written_contracts():
    """`--contract key=value` and `key = "value"` behind `contract` or in code spans of keys, of every page and campaign."""
    pages = [*ROOT.glob("docs/*.md"), ROOT / "README.md", *ROOT.glob("campaigns/*.toml"), *ROOT.glob("harness/cli/*.py")]
    for page in pages:
        text = page.read_text()
        for name, value in re.findall(r"--contract ([a-z_]+)=([^\s`\"']+)", text):
            if (name, value) != ("key", "value"):
                yield page.name, name, value
        for inside in re.findall(r"contract = \{([^}]*)\}", text):
            for name, value in re.findall(r'([a-z_]+) = "([^"]*)"', inside):
                yield page.name, name, value
        for name, value in re.findall(r'`([a-z_]+) = "([^"`]*)"`', text):
            if name in CONTRACT_KEYS:
                yield page.name, name, value


@pytest.mark.parametrize(("page", "name", "value"), sorted(set(_written_contracts())))
def test_every_contract_that_a_page_or_a_campaign_writes_is_accepted(page, name, value):
    assert name in CONTRACT_KEYS, page
    assert contract_mistakes({name: value}) == [], page
