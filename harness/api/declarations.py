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
    """A call that hurts, or the part of it that concerns one subject.

    call: its name.
    subject: a node, a pair as `n1>n2`, a topic, partitions.
    number: the number that it returned; None: it returns none.
    arguments: its arguments, by name.
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

    calls: the functions.
    effects: the effect of each call.
    ends: for calls that return a number, the call that ends what they began.
    undone_by: the call that undoes a call.
    shown_by: the aspects in which a call shows; empty: no look shows it.
    counted_by: for calls that return a number, the look that counts what the change has done.
    aspects: the aspects, by their own names.
    """

    calls: Mapping[str, Callable[..., Any]]
    effects: Mapping[str, Effect]
    ends: Mapping[str, str]
    undone_by: Mapping[str, UndoneBy]
    shown_by: Mapping[str, tuple[ShownBy, ...]]
    counted_by: Mapping[str, CountedBy]
    aspects: Mapping[str, Aspect]

    def is_shown(self, call: str) -> bool:
        """True if some look shows the effect of a call."""
        return bool(self.shown_by.get(call))

    def hurts_nodes(self, call: str) -> bool:
        """True if nodes count as hurt by what shows the effect of a call."""
        aspects = [self.aspects[shown.aspect] for shown in self.shown_by.get(call, ()) if shown.aspect in self.aspects]
        return bool(aspects) and all(aspect.hurts_node for aspect in aspects)

    def calls_shown_in(self, aspect: str) -> set[str]:
        return {call for call, aspects in self.shown_by.items() if aspect in [shown.aspect for shown in aspects]}

    def state_after(self, shown: ShownBy, arguments: Mapping[str, Any]) -> Any:
        """The state in which an aspect shows a call; CHANGED where only another state than before is declared."""
        becomes = self.answer_after(shown, arguments)
        return CHANGED if becomes is CHANGED else self.aspects[shown.aspect].state(becomes)

    def answer_after(self, shown: ShownBy, arguments: Mapping[str, Any]) -> Any:
        """The answer of the look after a call; CHANGED where that is not declared."""
        return arguments.get(shown.becomes.name, CHANGED) if isinstance(shown.becomes, Argument) else shown.becomes

    def undoes(self, call: str, arguments: Mapping[str, Any], change: Change) -> bool:
        """True if the call with these arguments undoes a change."""
        first = next(iter(arguments.values()), "")
        if change.call in self.ends:
            return self.ends[change.call] == call and change.number == first
        return self._fits(change.call, call, arguments) and change.subject in names_of(first)

    def undoes_its_own(self, call: str, arguments: Mapping[str, Any]) -> bool:
        """True if the call with these arguments undoes calls of its own name, though it hurts with others."""
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
    """Mistakes in the declarations of an interface: names that do not exist, a sentence each."""
    declared, wrong = declarations([interface]), []
    for name in calls_of([interface]):
        shows, undo = declared.shown_by.get(name, ()), declared.undone_by.get(name)
        parameters = signature(declared.calls[name]).parameters
        aspects = [shown.aspect for shown in shows if shown.aspect not in declared.aspects]
        wrong += [f'{name} is shown by "{aspect}", which no look shows' for aspect in aspects]
        becomes = [shown.becomes.name for shown in shows if isinstance(shown.becomes, Argument)]
        wrong += [f"{name} has no argument {word}, which its aspect becomes" for word in becomes if word not in parameters]
        counting = [declared.counted_by[name].look] if name in declared.counted_by else []
        wrong += [f"{name} is counted by {call}, which is no call" for call in counting if call not in declared.calls]
        undoing = [undo.call] if undo else [declared.ends[name]] if name in declared.ends else []
        wrong += [f"{name} is undone by {call}, which is no call" for call in undoing if call not in declared.calls]
    return [f"{interface.__name__}.{text}" for text in wrong]


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
