"""Effects of calls on a cluster. Every call of a capability and of `Admin` declares it, with one of these decorators.

The budget of faults, the views that faults act through, and the conformance kit take what they know of calls from here. What
shows an effect, and what undoes it, is declared by `harness.api.observation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from inspect import isfunction
from typing import Any, TypeVar

Call = TypeVar("Call", bound=Callable[..., Any])


class Effect(str, Enum):
    """The effect of a call on a cluster."""

    HURTS_NODE = "hurts a node"  # its first argument; the node counts as hurt until a call restores it, or its fault is healed
    RESTORES_NODE = "restores a node"  # its first argument
    CUTS_LINKS = "cuts links"  # its first argument, pairs
    MENDS_LINKS = "mends links"  # its first argument, pairs
    CHANGES = "changes"  # something that takes no node: a clock, a link's quality, a setting
    ENDS_CHANGE = "ends a change"
    PREPARES = "prepares"  # changes what comes later and hurts nothing by itself: the version of a node's next start
    LOOKS = "looks"  # and changes nothing

    @property
    def hurts(self) -> bool:
        """True if a cluster can be worse off right after the call."""
        return self in (Effect.HURTS_NODE, Effect.CUTS_LINKS, Effect.CHANGES)


def hurts_node(call: Call) -> Call:
    return _declared(call, Effect.HURTS_NODE)


def restores_node(call: Call) -> Call:
    return _declared(call, Effect.RESTORES_NODE)


def cuts_links(call: Call) -> Call:
    return _declared(call, Effect.CUTS_LINKS)


def mends_links(call: Call) -> Call:
    return _declared(call, Effect.MENDS_LINKS)


def changes(call: Call) -> Call:
    return _declared(call, Effect.CHANGES)


def changes_until(end: str) -> Callable[[Call], Call]:
    """The call returns a number; the change lasts until the call named `end` gets that number."""

    def declare(call: Call) -> Call:
        vars(call)["end"] = end
        return _declared(call, Effect.CHANGES)

    return declare


def ends_change(call: Call) -> Call:
    return _declared(call, Effect.ENDS_CHANGE)


def prepares(call: Call) -> Call:
    return _declared(call, Effect.PREPARES)


def looks(call: Call) -> Call:
    return _declared(call, Effect.LOOKS)


def calls_of(interfaces: Iterable[type]) -> dict[str, Any]:
    """The calls of interfaces, those that they inherit included: name -> function."""
    return {
        name: member
        for interface in interfaces
        for base in reversed(interface.__mro__)
        if base is not object
        for name, member in vars(base).items()
        if isfunction(member) and not name.startswith("_")
    }


def effects_of(interfaces: Iterable[type]) -> dict[str, Effect]:
    """The effect of each call of interfaces, without calls that declare none."""
    return {name: vars(call)["effect"] for name, call in calls_of(interfaces).items() if "effect" in vars(call)}


def ends_of(interfaces: Iterable[type]) -> dict[str, str]:
    """Calls that return a number -> the call that ends what they began."""
    return {name: vars(call)["end"] for name, call in calls_of(interfaces).items() if "end" in vars(call)}


def _declared(call: Call, effect: Effect) -> Call:
    vars(call)["effect"] = effect
    return call
