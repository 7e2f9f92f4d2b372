"""Every call of a capability declares what it does to a cluster, and its signature fits that."""

from __future__ import annotations

import inspect
from typing import get_type_hints

import pytest

from fencepost.harness import api
from fencepost.harness.api import Admin
from fencepost.harness.api.capabilities import CAPABILITIES
from fencepost.harness.api.effects import Effect, calls_of, effects_of, ends_of

DECLARING = (*CAPABILITIES, Admin)
CALLS = [(interface, name) for interface in DECLARING for name in calls_of([interface])]
FIRST_ARGUMENT = {
    Effect.HURTS_NODE: "node",
    Effect.RESTORES_NODE: "node",
    Effect.CUTS_LINKS: "pairs",
    Effect.MENDS_LINKS: "pairs",
    Effect.ENDS_CHANGE: "number",
}


def in_words(value):
    return value.__name__ if isinstance(value, type) else value


def test_every_capability_of_the_api_is_known():
    exported = [getattr(api, name) for name in api.__all__]
    protocols = {protocol for protocol in exported if isinstance(protocol, type) and getattr(protocol, "_is_protocol", False)}
    assert {protocol for protocol in protocols if protocol.__module__ == "fencepost.harness.api.capabilities"} == set(
        CAPABILITIES
    )


@pytest.mark.parametrize(("interface", "name"), CALLS, ids=in_words)
def test_every_call_declares_its_effect(interface, name):
    assert name in effects_of([interface]), f"decorate {interface.__name__}.{name} with what it does (harness/api/effects.py)"


@pytest.mark.parametrize(("interface", "name"), CALLS, ids=in_words)
def test_a_call_takes_what_its_effect_acts_on(interface, name):
    call, effect = calls_of([interface])[name], effects_of([interface])[name]
    first = list(inspect.signature(call).parameters)[1:2]
    if effect in FIRST_ARGUMENT:
        assert first == [FIRST_ARGUMENT[effect]]
    if effect is Effect.LOOKS:
        assert get_type_hints(call)["return"] is not type(None), "a look that shows nothing"


@pytest.mark.parametrize("interface", DECLARING, ids=in_words)
def test_what_a_call_begins_is_ended_by_a_call_of_the_same_capability(interface):
    for begin, end in ends_of([interface]).items():
        assert effects_of([interface])[end] is Effect.ENDS_CHANGE
        assert get_type_hints(calls_of([interface])[begin])["return"] is int


def test_a_call_of_several_capabilities_has_one_effect():
    declared: dict[str, set[Effect]] = {}
    for interface in DECLARING:
        for name, effect in effects_of([interface]).items():
            declared.setdefault(name, set()).add(effect)
    assert {name: effects for name, effects in declared.items() if len(effects) > 1} == {}


def test_the_calls_that_hurt():
    """Written out once more: a wrong decorator lets a fault take more nodes than its test allows."""
    effects = effects_of(DECLARING)
    assert {name for name, effect in effects.items() if effect is Effect.HURTS_NODE} == {
        *("kill", "stop", "pause", "wipe", "lose_unsynced", "fill_disk", "retire"),
    }
    assert {name for name, effect in effects.items() if effect is Effect.RESTORES_NODE} == {
        *("start", "resume", "clear_disk", "recall"),
    }
    assert {name for name, effect in effects.items() if effect is Effect.CHANGES} == {
        *("skew", "lose", "slow", "throttle", "reassign", "elect", "unregister", "set_topic_settings", "set_feature"),
        *("delete_topic", "fence_producer", "end_transaction", "abort_on_partition", "revoke"),
    }
