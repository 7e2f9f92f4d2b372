"""Declarations of calls in one place: of fencepost's capabilities, of `Admin`, and of capabilities that a plug-in brings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from inspect import signature
from typing import Any

from fencepost.harness.api.capabilities import CAPABILITIES
from fencepost.harness.api.clusters import Admin
from fencepost.harness.api.effects import Effect, calls_of, effects_of, ends_of
from fencepost.harness.api.observation import CHANGED, Argument, Aspect, CountedBy, ShownBy, UndoneBy, aspects_of, names_of

OWN = (*CAPABILITIES, Admin)


@dataclass(frozen=True)
class Change:
    """One call that hurts, or a part of one. subject: a node, a pair as `n1>n2`, a topic, partitions; number: what it returned.

    arguments: by name.
    """

    call: str
    subject: str
    number: int | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        return f"{self.call} {self.subject}".strip()


@dataclass(frozen=True)
class Declarations:
    """Declarations of some interfaces, by the names of their calls.

    effects: what a call does. ends: the call that ends what a call with a number began. undone_by: the call that undoes a call.
    shown_by: the aspects in which a call shows; empty: nothing shows it. counted_by: the look that counts what a call does that
    returns a number. aspects: by their names.
    """

    calls: Mapping[str, Callable[..., Any]]
    effects: Mapping[str, Effect]
    ends: Mapping[str, str]
    undone_by: Mapping[str, UndoneBy]
    shown_by: Mapping[str, tuple[ShownBy, ...]]
    counted_by: Mapping[str, CountedBy]
    aspects: Mapping[str, Aspect]

    def is_shown(self, call: str) -> bool:
        """Whether some look shows the effect of a call."""
        return bool(self.shown_by.get(call))

    def hurts_nodes(self, call: str) -> bool:
        """Whether nodes count as hurt by what shows the effect of a call."""
        shown = [self.aspects[one.aspect] for one in self.shown_by.get(call, ()) if one.aspect in self.aspects]
        return bool(shown) and all(one.hurts_node for one in shown)

    def calls_shown_in(self, aspect: str) -> set[str]:
        return {call for call, shown in self.shown_by.items() if aspect in [one.aspect for one in shown]}

    def state_after(self, shown: ShownBy, arguments: Mapping[str, Any]) -> Any:
        """The state in which an aspect shows a call; CHANGED where only another state than before is declared."""
        becomes = self.answer_after(shown, arguments)
        return CHANGED if becomes is CHANGED else self.aspects[shown.aspect].state(becomes)

    def answer_after(self, shown: ShownBy, arguments: Mapping[str, Any]) -> Any:
        """What the look answers after a call; CHANGED where that is not declared."""
        return arguments.get(shown.becomes.name, CHANGED) if isinstance(shown.becomes, Argument) else shown.becomes

    def undoes(self, call: str, arguments: Mapping[str, Any], change: Change) -> bool:
        """Whether the call with these arguments undoes a change."""
        first = next(iter(arguments.values()), "")
        if change.call in self.ends:
            return self.ends[change.call] == call and change.number == first
        return self._fits(change.call, call, arguments) and change.subject in names_of(first)

    def undoes_its_own(self, call: str, arguments: Mapping[str, Any]) -> bool:
        """Whether the call with these arguments undoes calls of its own name, though it hurts with others."""
        return self._fits(call, call, arguments)

    def _fits(self, hurting: str, call: str, arguments: Mapping[str, Any]) -> bool:
        undo = self.undone_by.get(hurting)
        if undo is None or undo.call != call:
            return False
        return all(name in arguments and arguments[name] == value for name, value in undo.arguments.items())


def declarations(needs: Iterable[type] = ()) -> Declarations:
    """Declarations of these capabilities, which a fault needs, and of fencepost's own, which prevail where both have a call."""
    return _declarations((*(need for need in needs if need not in OWN), *OWN))


def mistakes(interface: type) -> list[str]:
    """What the calls of an interface declare and nobody knows, a sentence each."""
    declared, found = declarations([interface]), []
    for name in calls_of([interface]):
        shown, undo = declared.shown_by.get(name, ()), declared.undone_by.get(name)
        parameters = signature(declared.calls[name]).parameters
        found += [
            f'{name} is shown by "{one.aspect}", which no look shows' for one in shown if one.aspect not in declared.aspects
        ]
        becomes = [one.becomes.name for one in shown if isinstance(one.becomes, Argument)]
        found += [f"{name} has no argument {one}, which its aspect becomes" for one in becomes if one not in parameters]
        counting = [declared.counted_by[name].look] if name in declared.counted_by else []
        found += [f"{name} is counted by {one}, which is no call" for one in counting if one not in declared.calls]
        undoing = [undo.call] if undo else [declared.ends[name]] if name in declared.ends else []
        found += [f"{name} is undone by {one}, which is no call" for one in undoing if one not in declared.calls]
    return [f"{interface.__name__}.{text}" for text in found]


@cache
def _declarations(interfaces: tuple[type, ...]) -> Declarations:
    calls = calls_of(interfaces)

    def each(key: str) -> dict[str, Any]:
        return {name: vars(call)[key] for name, call in calls.items() if key in vars(call)}

    return Declarations(
        calls,
        effects_of(interfaces),
        ends_of(interfaces),
        each("undone_by"),
        each("shown_by"),
        each("counted_by"),
        aspects_of(interfaces),
    )
