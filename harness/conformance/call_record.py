"""A record of what a fault does to the cluster, call by call, and of what is in force when `inject` has returned.

The record does not rest on the receipt: the kit passes the fault a cluster that records every call that hurts or undoes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from fencepost.harness.api import Cluster
from fencepost.harness.api.capabilities import CAPABILITIES
from fencepost.harness.api.declarations import Change, Declarations, declarations
from fencepost.harness.api.effects import Effect, calls_of
from fencepost.harness.api.observation import arguments_of, names_of
from fencepost.harness.conformance.doubles import Double


class CallRecord:
    """The calls of one strike that hurt, and those that undo. Calls that raised are left out.

    declared: what the calls do, and what undoes them.
    """

    def __init__(self, declared: Declarations | None = None) -> None:
        self.declared = declared or declarations()
        self.made: list[Change] = []
        self.undone: list[Change] = []

    @property
    def in_force(self) -> list[Change]:
        """Changes that the fault made and did not undo itself, the oldest first."""
        return [change for change in dict.fromkeys(self.made) if change not in self.undone]

    @property
    def begun(self) -> list[tuple[str, int]]:
        """Calls that returned a number, with the number, of changes whose end no observation of the cluster shows."""
        unseen = [change for change in self.made if change.number is not None and not self.declared.is_shown(change.call)]
        return [
            (change.call, change.number) for change in unseen if change.number is not None and change.call in self.declared.ends
        ]

    def note(self, call: str, effect: Effect, arguments: Mapping[str, Any], answer: Any) -> None:
        """Record a call that has returned."""
        if undone := [change for change in dict.fromkeys(self.made) if self.declared.undoes(call, arguments, change)]:
            self.undone += [change for change in undone if change not in self.undone]
        elif effect.hurts and not self.declared.undoes_its_own(call, arguments):
            self._do(_changes(call, effect, arguments, answer, self.declared))

    def _do(self, changes: Iterable[Change]) -> None:
        for change in changes:
            self.made.append(change)
            self.undone = [other for other in self.undone if other != change]


class RecordingCluster(Double):
    """The cluster; every call that changes something is recorded once it has returned.

    A call of a capability that a plug-in brings is taken to hurt if it declares no effect and returns nothing.
    """

    def __init__(self, cluster: Cluster, needs: Iterable[type], record: CallRecord) -> None:
        super().__init__(cluster)
        own = [need for need in needs if need not in CAPABILITIES]
        undeclared = {name for name, call in calls_of(own).items() if "effect" not in vars(call) and _returns_nothing(call)}
        self._effects = {**dict.fromkeys(undeclared, Effect.CHANGES), **record.declared.effects}
        self._record = record

    def __getattr__(self, name: str) -> Any:
        return self.recorded(name, super().__getattr__(name))

    def admin(self) -> Any:
        return _RecordingAdmin(self, self._cluster.admin())

    def recorded(self, name: str, call: Any) -> Any:
        """The call, wrapped so that it is recorded if it changes something."""
        effect = self._effects.get(name)
        if effect is None or effect in (Effect.LOOKS, Effect.PREPARES):
            return call

        def made(*arguments: Any, **options: Any) -> Any:
            arguments = tuple(_as_list(argument) for argument in arguments)
            answer = call(*arguments, **options)
            self._record.note(name, effect, arguments_of(self._record.declared.calls.get(name), arguments, options), answer)
            return answer

        return made


class _RecordingAdmin:
    def __init__(self, recording: RecordingCluster, admin: Any) -> None:
        self._recording, self._admin = recording, admin

    def __getattr__(self, name: str) -> Any:
        return self._recording.recorded(name, getattr(self._admin, name))


def _changes(call: str, effect: Effect, arguments: Mapping[str, Any], answer: Any, declared: Declarations) -> Iterator[Change]:
    first = next(iter(arguments.values()), "")
    if effect is Effect.CUTS_LINKS:
        yield from (Change(call, name, None, arguments) for name in names_of(first))
    elif call in declared.ends:
        yield Change(call, ", ".join(names_of(first)), answer, arguments)
    else:
        yield Change(call, first if isinstance(first, str) else ", ".join(map(str, first)), None, arguments)


def _as_list(argument: Any) -> Any:
    """An argument that can be read twice."""
    return list(argument) if isinstance(argument, Iterator) else argument


def _returns_nothing(call: Callable[..., Any]) -> bool:
    return call.__annotations__.get("return") in (None, "None")
