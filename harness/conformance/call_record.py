"""What a fault does to the cluster, call by call, and what of it is in force when `inject` has returned.

A fault's own words are not asked. The kit hands it a cluster that records every call that hurts, and every call that undoes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.harness.api import Admin, Cluster
from fencepost.harness.api.capabilities import CAPABILITIES
from fencepost.harness.api.effects import Effect, calls_of, effects_of, ends_of
from fencepost.harness.conformance.doubles import Double

ENDS = ends_of(CAPABILITIES)  # a call that returns a number -> the call that ends what it began
_EFFECTS = effects_of([*CAPABILITIES, Admin])
_UNDOES = {  # a call that restores a node -> what is over then
    "start": ("kill", "stop", "wipe", "lose_unsynced", "unregister"),
    "resume": ("pause",),
    "recall": ("retire",),
    "clear_disk": ("fill_disk",),
}


@dataclass(frozen=True)
class Change:
    """One call that hurts, or a part of one. subject: a node, a pair as `n1>n2`, a topic, partitions; number: what it returned.

    arguments: of a call that returns a number, by name.
    """

    call: str
    subject: str
    number: int | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        return f"{self.call} {self.subject}".strip()


class CallRecord:
    """The calls of one strike that hurt, and those that undo. Calls that raised are left out."""

    def __init__(self) -> None:
        self.made: list[Change] = []
        self.undone: list[Change] = []

    @property
    def in_force(self) -> list[Change]:
        """What was done and not undone by the fault itself, the oldest first."""
        return [one for one in dict.fromkeys(self.made) if one not in self.undone]

    @property
    def begun(self) -> list[tuple[str, int]]:
        """Every call that returned a number, with the number: no look at the cluster shows whether such a change has ended."""
        return [(one.call, one.number) for one in self.made if one.number is not None and one.call in ENDS]

    def note(self, call: str, effect: Effect, arguments: Mapping[str, Any], answer: Any) -> None:
        """A call has returned."""
        first = next(iter(arguments.values()), "")
        if effect is Effect.ENDS_CHANGE:
            self._undo(one for one in self.made if ENDS.get(one.call) == call and one.number == first)
        elif effect is Effect.RESTORES_NODE:
            self._undo(one for one in self.made if one.subject == first and one.call in _UNDOES.get(call, ()))
        elif effect is Effect.MENDS_LINKS:
            mended = _names(first)
            self._undo(one for one in self.made if one.call == "drop" and one.subject in mended)
        elif call == "skew" and not arguments.get("ahead_s"):
            self._undo(one for one in self.made if one.call == call and one.subject == first)
        elif effect.hurts:
            self._do(_changes(call, effect, arguments, answer))

    def _do(self, changes: Iterable[Change]) -> None:
        for one in changes:
            self.made.append(one)
            self.undone = [other for other in self.undone if other != one]

    def _undo(self, changes: Iterable[Change]) -> None:
        self.undone += [one for one in dict.fromkeys(changes) if one not in self.undone]


class RecordingCluster(Double):
    """The cluster; every call that changes something is recorded once it has returned.

    A call of a capability that a plug-in brings is taken to hurt if it declares no effect and returns nothing.
    """

    def __init__(self, cluster: Cluster, needs: Iterable[type], record: CallRecord) -> None:
        super().__init__(cluster)
        own = [need for need in needs if need not in CAPABILITIES]
        undeclared = {name for name, call in calls_of(own).items() if "effect" not in vars(call) and _returns_nothing(call)}
        self._effects = {**dict.fromkeys(undeclared, Effect.CHANGES), **effects_of(own), **_EFFECTS}
        self._record = record

    def __getattr__(self, name: str) -> Any:
        return self.recorded(name, super().__getattr__(name))

    def admin(self) -> Any:
        return _RecordingAdmin(self, self._cluster.admin())

    def recorded(self, name: str, call: Any) -> Any:
        """The call, such that it is recorded if it changes something."""
        effect = self._effects.get(name)
        if effect is None or effect in (Effect.LOOKS, Effect.PREPARES):
            return call

        def made(*arguments: Any, **options: Any) -> Any:
            arguments = tuple(_as_list(one) for one in arguments)
            answer = call(*arguments, **options)
            self._record.note(name, effect, _by_name(name, arguments, options), answer)
            return answer

        return made


class _RecordingAdmin:
    def __init__(self, recording: RecordingCluster, admin: Any) -> None:
        self._recording, self._admin = recording, admin

    def __getattr__(self, name: str) -> Any:
        return self._recording.recorded(name, getattr(self._admin, name))


def _changes(call: str, effect: Effect, arguments: Mapping[str, Any], answer: Any) -> Iterator[Change]:
    first = next(iter(arguments.values()), "")
    if effect is Effect.CUTS_LINKS:
        yield from (Change(call, name) for name in _names(first))
    elif call in ENDS:
        yield Change(call, ", ".join(_names(first)), answer, arguments)
    elif isinstance(first, str):
        yield Change(call, first)
    else:
        yield Change(call, ", ".join(map(str, first)))


def _names(subjects: Iterable[Any]) -> list[str]:
    return [one if isinstance(one, str) else ">".join(one) for one in subjects]


def _as_list(argument: Any) -> Any:
    """An argument that can be read twice."""
    return list(argument) if isinstance(argument, Iterator) else argument


def _by_name(call: str, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> dict[str, Any]:
    known = calls_of([*CAPABILITIES, Admin]).get(call)
    names = list(known.__code__.co_varnames[1 : known.__code__.co_argcount]) if known else []
    names += [f"argument {number}" for number in range(len(names), len(arguments))]
    return {**dict(zip(names, arguments, strict=False)), **options}


def _returns_nothing(call: Callable[..., Any]) -> bool:
    return call.__annotations__.get("return") in (None, "None")
