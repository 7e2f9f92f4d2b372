"""Every call of a capability declares what it does to a cluster, and its signature fits that."""

from __future__ import annotations

import inspect
from typing import get_type_hints

import pytest

from fencepost.harness import api
from fencepost.harness.api import Admin
from fencepost.harness.api.capabilities import CAPABILITIES
from fencepost.harness.api.declarations import declarations, mistakes
from fencepost.harness.api.effects import Effect, calls_of, effects_of, ends_of
from fencepost.harness.api.observation import ABSENT, UNKNOWN
from fencepost.harness.conformance.effect_checks import MEASURED

DECLARING = (*CAPABILITIES, Admin)
CALLS = [(interface, name) for interface in DECLARING for name in calls_of([interface])]
DECLARED = declarations()
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


@pytest.mark.parametrize("call", sorted(name for name, effect in DECLARED.effects.items() if effect.hurts))
def test_what_hurts_says_what_shows_it_and_what_undoes_it(call):
    assert call in DECLARED.shown_by or call in MEASURED, f"decorate {call} with shown_by, or unobservable"
    if DECLARED.effects[call] in (Effect.HURTS_NODE, Effect.CUTS_LINKS):
        assert call in DECLARED.undone_by, f"decorate {call} with undone_by"


@pytest.mark.parametrize("interface", DECLARING, ids=in_words)
def test_declarations_name_what_is_there(interface):
    assert mistakes(interface) == []


@pytest.mark.parametrize(("call", "undo"), DECLARED.undone_by.items(), ids=str)
def test_what_undoes_a_call_does_not_hurt_and_has_the_arguments(call, undo):
    assert undo.call == call or not DECLARED.effects[undo.call].hurts
    assert undo.arguments.keys() <= inspect.signature(DECLARED.calls[undo.call]).parameters.keys()


@pytest.mark.parametrize("aspect", DECLARED.aspects.values(), ids=lambda aspect: aspect.name)
def test_an_aspect_is_shown_by_a_look_whose_whole_state_is_known(aspect):
    assert DECLARED.effects[aspect.call] is Effect.LOOKS
    if aspect.whole is not ABSENT:
        assert aspect.state(aspect.whole) is not UNKNOWN


def test_the_calls_that_hurt():
    """Written out once more: a wrong decorator lets a fault take more nodes than its test allows.

    A call that is new is held by the tests above: a call that takes a node has a call that gives it back.
    """
    effects = effects_of(DECLARING)
    written = {
        Effect.HURTS_NODE: {"kill", "stop", "pause", "wipe", "lose_unsynced", "fill_disk", "retire"},
        Effect.RESTORES_NODE: {"start", "resume", "clear_disk", "recall"},
        Effect.CHANGES: {
            *("skew", "lose", "slow", "throttle", "reassign", "elect", "unregister", "set_topic_settings", "set_feature"),
            *("delete_topic", "fence_producer", "end_transaction", "abort_on_partition", "revoke"),
        },
    }
    expected = {name: effect for effect, names in written.items() for name in names}
    assert {name: effect for name, effect in effects.items() if name in expected} == expected


def test_a_call_that_hurts_takes_the_node_that_another_call_restores():
    """Of calls that are new, too."""
    for call, undo in DECLARED.undone_by.items():
        if DECLARED.effects[undo.call] is Effect.RESTORES_NODE and undo.call != "start":
            assert DECLARED.effects[call] is Effect.HURTS_NODE
