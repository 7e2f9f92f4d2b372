"""Calls of capabilities on the cluster in memory, derived from what the calls declare (`harness.api.observation`).

A call that hurts sets what its look answers (`shown_by(..., becomes=...)`) until the call comes that undoes it; of all other
subjects the look answers what is `whole`. Calls that do more than that have a method of their own in `FakeCluster`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from typing import Any

from fencepost.harness.api.declarations import Change, declarations
from fencepost.harness.api.effects import Effect
from fencepost.harness.api.observation import ABSENT, CHANGED, Aspect, names_of

UNDERIVED = "FakeCluster has no {name}: declare {missing} (fencepost.harness.api.observation), or give it a method of that name"
NODES = ("node", "nodes")  # the first argument of calls about nodes


class DeclaredState:
    """Changes in force, and the answers of looks because of them.

    cluster: the cluster in memory that has the nodes.
    done: takes each call that changes something, and its first argument.
    capabilities: those of plug-ins, beside fencepost's own.
    answers: aspect -> subject -> the answer when nothing is hurt, where it is not the one declared.
    in_force: the changes in force, the oldest first.
    """

    def __init__(self, cluster: Any, done: Callable[[str, Any], None], capabilities: Iterable[type]) -> None:
        self._cluster, self._done, self._declared = cluster, done, declarations(capabilities)
        self._aspects = {aspect.call: aspect for aspect in self._declared.aspects.values() if aspect.look is None}
        self._counting = {count.look for count in self._declared.counted_by.values()}
        self._numbers = 0
        self.answers: dict[str, dict[str, Any]] = {}
        self.in_force: list[Change] = []

    def call(self, name: str) -> Callable[..., Any]:
        """The call of a capability of this name."""
        act = self._look if self._declared.effects.get(name) is Effect.LOOKS else self._act

        def made(*arguments: Any, **options: Any) -> Any:
            bound = signature(self._declared.calls[name]).bind(self, *arguments, **options)
            bound.apply_defaults()
            given = {key: _as_tuple(value) for key, value in list(bound.arguments.items())[1:]}
            if next(iter(given), "") in NODES:
                self._require_known(names_of(next(iter(given.values()))))
            return act(name, given)

        return made

    def undo(self, name: str, **arguments: Any) -> None:
        """Undo what this call undoes, without making it."""
        self.in_force = [change for change in self.in_force if not self._declared.undoes(name, arguments, change)]

    def _act(self, name: str, arguments: dict[str, Any]) -> Any:
        """Undo what the call undoes, or begin what it begins. A stubborn node can be healed, and not hurt."""
        first = next(iter(arguments.values()), "")
        self._done(name, first)
        ended = [change for change in self.in_force if self._declared.undoes(name, arguments, change)]
        self.undo(name, **arguments)
        if ended and ended[0].call in self._declared.counted_by:
            return self._count(ended[0].call)
        if not self._declared.effects[name].hurts or self._declared.undoes_its_own(name, arguments):
            return None
        if any(self._declared.answer_after(shown, arguments) is CHANGED for shown in self._declared.shown_by.get(name, ())):
            raise NotImplementedError(UNDERIVED.format(name=name, missing="what its look answers then (`becomes`)"))
        number = self._next_number() if name in self._declared.ends else None
        hurt = [subject for subject in names_of(first) if subject not in self._cluster.stubborn]
        self.in_force += [Change(name, subject, number, arguments) for subject in hurt]
        return number

    def _look(self, name: str, arguments: dict[str, Any]) -> Any:
        if name in self._counting:
            begun = [change for change in self.in_force if change.number == next(iter(arguments.values()))]
            return self._count(begun[0].call) if begun else None
        aspect = self._aspects.get(name)
        if aspect is None or aspect.whole is ABSENT:
            raise NotImplementedError(UNDERIVED.format(name=name, missing="the aspect that it shows, and what is `whole` there"))
        first = next(iter(arguments.values()), ())
        if isinstance(first, str):
            return self._answer(aspect, first)
        return {subject: self._answer(aspect, *names_of([subject])) for subject in first}

    def _answer(self, aspect: Aspect, subject: str) -> Any:
        if aspect.down is not ABSENT and not self._cluster.awake(subject):
            return aspect.down
        for change in reversed([begun for begun in self.in_force if begun.subject == subject]):
            for shown in self._declared.shown_by.get(change.call, ()):
                if shown.aspect == aspect.name:
                    return self._declared.answer_after(shown, change.arguments)
        return self.answers.get(aspect.name, {}).get(subject, aspect.whole)

    def _count(self, call: str) -> Any:
        """The effect so far of a change in force."""
        becomes = self._declared.counted_by[call].becomes
        if becomes is ABSENT:
            raise NotImplementedError(UNDERIVED.format(name=call, missing="what counts it (`becomes`)"))
        return becomes

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _require_known(self, nodes: Iterable[str]) -> None:
        """Raises ClusterError for an unknown node."""
        for node in nodes:
            self._cluster.pid(node)


def _as_tuple(argument: Any) -> Any:
    return tuple(argument) if isinstance(argument, Iterable) and not isinstance(argument, str | Mapping) else argument
