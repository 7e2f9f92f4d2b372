"""Declarations of how the effect of a call is observed on a cluster, and of what undoes it, beside `harness.api.effects`.

A call that looks declares the aspect of a cluster that it shows (`shows`). A call that hurts declares the aspects in which its
effect shows (`shown_by`), or that no look shows it (`unobservable`), and the call that undoes it (`undone_by`). The conformance
kit's snapshots and effect checks, and the cluster in memory that faults are tested on, are derived from these declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from inspect import isfunction, signature
from typing import Any, TypeVar

Call = TypeVar("Call", bound=Callable[..., Any])


class Marker(Enum):
    """Values that stand for no answer and no state."""

    UNKNOWN = "the state is not known"
    ABSENT = "nothing is declared"
    CHANGED = "any state but the one before"


UNKNOWN, ABSENT, CHANGED = Marker.UNKNOWN, Marker.ABSENT, Marker.CHANGED


class Subjects(Enum):
    """Things of a cluster that are the arguments of a look."""

    BROKERS = "brokers"
    SERVERS = "brokers and controllers"
    NODES = "brokers, controllers and clients"
    LINKS = "pairs of nodes"
    TOPICS = "the workload's topics"
    TRANSACTIONAL_IDS = "the workload's transactional ids"
    ALL = "whatever the look tells of"

    def of(self, cluster: Any) -> list[Any]:
        """Those that a cluster has now; none for ALL."""
        if self is Subjects.BROKERS:
            return list(cluster.brokers)
        if self is Subjects.TOPICS:
            return sorted({name.rpartition("-")[0] for name in cluster.topics})
        if self is Subjects.TRANSACTIONAL_IDS:
            return list(cluster.transactional_ids)
        if self is Subjects.ALL:
            return []
        servers = list(dict.fromkeys((*cluster.brokers, *cluster.controllers)))
        nodes = servers if self is Subjects.SERVERS else [*servers, *cluster.clients]
        return nodes if self is not Subjects.LINKS else [(a, b) for a in nodes for b in nodes if a != b]


@dataclass(frozen=True)
class Argument:
    """The value of an argument of a call."""

    name: str


@dataclass(frozen=True)
class ShownBy:
    """An aspect in which a call shows.

    aspect: its name.
    becomes: the answer of the look after the call; CHANGED: another than before.
    """

    aspect: str
    becomes: Any = CHANGED


@dataclass(frozen=True)
class UndoneBy:
    """A call that undoes another call, for the same subject, or for the number that the other returned.

    call: its name.
    arguments: the arguments with which it does.
    """

    call: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


def is_there(answer: Any, arguments: Mapping[str, Any]) -> tuple[bool, str]:
    """True if an answer is more than nothing; and the answer in words."""
    return bool(answer), str(answer)


@dataclass(frozen=True)
class CountedBy:
    """A look that takes the number of a change, and counts what the change has done so far.

    look: the name of the look.
    shows: True if such an answer shows the effect of a call with these arguments; and the answer in words.
    becomes: an answer about a change in force, for the cluster in memory.
    """

    look: str
    shows: Callable[[Any, Mapping[str, Any]], tuple[bool, str]] = is_there
    becomes: Any = ABSENT


def known(answer: Any) -> Any:
    """An answer as a state; None: it is not known."""
    return UNKNOWN if answer is None else answer


def as_it_is(answer: Any) -> Any:
    """An answer as a state, None too."""
    return answer


@dataclass(frozen=True, kw_only=True)
class Aspect:
    """A part of a cluster's state that a look shows: subject (a node, a topic, `n1>n2`) -> state.

    name: its name in reports: `clock`.
    call: the name of the call that looks.
    interface: the capability that has the call, or `Admin`.
    subjects: the things that are arguments of the call.
    state: makes a state of the answer about one subject (UNKNOWN: leave it out), or for ALL the states of all subjects.
    look: looks at the whole cluster instead, where the answer needs more than one call.
    whole: an answer about a subject that nothing hurts; for the cluster in memory.
    down: an answer about a node that is dead or frozen; for the cluster in memory.
    restored: the state must be again what it was when all was well, after a fault has been healed.
    drifts: the state may change without a fault, or its change hurts no client.
    hurts_node: a node whose state changes counts as hurt.
    """

    name: str
    call: str
    interface: type
    subjects: Subjects = Subjects.ALL
    state: Callable[[Any], Any] = known
    look: Callable[[Any], Mapping[str, Any]] | None = None
    whole: Any = ABSENT
    down: Any = ABSENT
    restored: bool = True
    drifts: bool = False
    hurts_node: bool = False

    @property
    def takes_several(self) -> bool:
        """True if the call that looks takes several subjects, and answers with a mapping of them."""
        parameters = list(signature(getattr(self.interface, self.call)).parameters.values())[1:]
        return bool(parameters) and parameters[0].annotation not in (str, "str")


def shows(name: str, subjects: Subjects = Subjects.ALL, **fields: Any) -> Callable[[Call], Call]:
    """The call looks at an aspect of this name; `fields` are those of `Aspect`."""

    def declare(call: Call) -> Call:
        aspect = Aspect(name=name, call=call.__name__, interface=object, subjects=subjects, **fields)
        vars(call)["shows"] = (aspect, *vars(call).get("shows", ()))
        return call

    return declare


def shown_by(aspect: str, becomes: Any = CHANGED) -> Callable[[Call], Call]:
    """The call shows in this aspect. becomes: what the look answers then; an `Argument` of the call, or any value."""

    def declare(call: Call) -> Call:
        vars(call)["shown_by"] = (ShownBy(aspect, becomes), *vars(call).get("shown_by", ()))
        return call

    return declare


def unobservable(call: Call) -> Call:
    """No look shows the effect of the call."""
    vars(call)["shown_by"] = ()
    return call


def counted_by(
    look: str, shows: Callable[[Any, Mapping[str, Any]], tuple[bool, str]] = is_there, becomes: Any = ABSENT
) -> Callable[[Call], Call]:
    """The call returns a number, and the look of this name counts what the change has done (`CountedBy`)."""

    def declare(call: Call) -> Call:
        vars(call)["counted_by"] = CountedBy(look, shows, becomes)
        return call

    return declare


def undone_by(call_name: str, **arguments: Any) -> Callable[[Call], Call]:
    """The call is undone by the call of this name, if that one has these arguments."""

    def declare(call: Call) -> Call:
        vars(call)["undone_by"] = UndoneBy(call_name, arguments)
        return call

    return declare


def aspects_of(interfaces: Iterable[type]) -> dict[str, Aspect]:
    """The aspects that calls of interfaces show, inherited calls included: name -> aspect. The last of a name prevails."""
    return {
        aspect.name: replace(aspect, interface=_checkable(base, interface))
        for interface in interfaces
        for base in reversed(interface.__mro__)
        for call in vars(base).values()
        if isfunction(call)
        for aspect in vars(call).get("shows", ())
    }


def _checkable(base: type, interface: type) -> type:
    """The base that has the call, if a cluster can be asked whether it has that capability."""
    return base if getattr(base, "_is_runtime_protocol", False) else interface


def names_of(subjects: Any) -> list[str]:
    """The names of what a call is about: a node, several, pairs (as `n1>n2`)."""
    if isinstance(subjects, str):
        return [subjects]
    return [subject if isinstance(subject, str) else ">".join(subject) for subject in subjects]


def arguments_of(call: Callable[..., Any] | None, arguments: Iterable[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, without its defaults. call: as its interface declares it; None: not known."""
    names = list(signature(call).parameters)[1:] if call else []
    given = list(arguments)
    names += [f"argument {number}" for number in range(len(names), len(given))]
    return {**dict(zip(names, given, strict=False)), **options}
