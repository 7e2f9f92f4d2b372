"""Requirements on each kind of plug-in, checked when it is loaded: every breach is a sentence that says what to change.

`breaches` looks at a class (or, for checkers, at the check itself) and runs nothing of it. `flaws` looks at an instance with its
options: a workload is asked for its topics, its roles and its first operations, which the interface requires to be pure.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from random import Random
from typing import Any

from fencepost.harness.api import (
    CALLS,
    CAPABILITIES,
    ONLY_READ,
    Client,
    ClusterProvider,
    Conductor,
    ConnectInstance,
    Isolation,
    Member,
    PlannedOperation,
    ProgramInstance,
    Reader,
    Role,
    TopicSpec,
    Workload,
    Writer,
)
from fencepost.harness.plugins import fault_validation, services
from fencepost.harness.plugins.optional_names import misspelt

PROTOCOLS: dict[str, type] = {"workload": Workload, "cluster": ClusterProvider, "client": Client}
CONFIGURED = ("workload", "cluster")  # frozen dataclasses, whose fields are the options
ROLES = (Writer, Member, Reader, ProgramInstance, ConnectInstance, Conductor)
FUNCTIONS = ("txn", "send", "poll", "seek", "committed", "initialise", "misuse", "rest")
LOOKED_AT = 25  # operations of each role
MARKS: Mapping[str, tuple[str, str]] = {  # methods by which a class of each kind is known
    "nemesis": ("inject", "heal"),
    "workload": ("operations", "perform"),
    "cluster": ("up", "sandbox"),
    "client": ("poll", "send"),
}


def breaches(group: str, plug_in: Any) -> list[str]:
    """Every way in which what was loaded breaks its kind's interface; none when it is sound, or its kind has none."""
    if group == "nemesis":
        return fault_validation.breaches(plug_in)
    if group == "checker":
        return services.judge().breaches(plug_in)
    return _of_class(group, plug_in) if group in PROTOCOLS else []


def guess(plug_in: Any) -> str:
    """The kind that a plug-in given by its import path looks like; empty when it looks like none."""
    if not isinstance(plug_in, type):
        return "checker" if all(hasattr(plug_in, name) for name in ("scope", "function")) else ""
    return next((group for group, names in MARKS.items() if any(hasattr(plug_in, name) for name in names)), "")


def flaws(group: str, instance: Any) -> list[str]:
    """Mistakes of a plug-in made with these options, a sentence each. Whatever the plug-in raises is one as well."""
    return _of_workload(instance) if group == "workload" else []


# --------------------------------------------------------------------------------------------------
# Classes
# --------------------------------------------------------------------------------------------------
def _of_class(group: str, cls: Any) -> list[str]:
    if not isinstance(cls, type):
        interface = f"fencepost.harness.api.{PROTOCOLS[group].__name__}"
        return [f"{getattr(cls, '__name__', repr(cls))} is not a class; a {group} is one ({interface})"]
    wrong = []
    if group in CONFIGURED and not _is_frozen(cls):
        wrong.append(f"{cls.__name__} must be decorated with @dataclass(frozen=True, kw_only=True): its fields are the options")
    if group == "client" and not isinstance(getattr(cls, "version", None), str):
        wrong.append(f"{cls.__name__}.version must be a text that names the library and its release: `version: ClassVar[str]`")
    if group == "client" and (mistake := _wrong_capabilities(cls)):
        return [*wrong, mistake]
    names = [name for name, member in vars(PROTOCOLS[group]).items() if inspect.isfunction(member) and not name.startswith("_")]
    optional = {call for capability in CALLS if capability not in getattr(cls, "capabilities", ()) for call in CALLS[capability]}
    lost = [name for name in names if not callable(getattr(cls, name, None)) and not (group == "client" and name in optional)]
    if lost:
        wrong.append(
            f"{cls.__name__} is no {group}: it lacks {', '.join(lost)} (see {PROTOCOLS[group].__name__} in harness/api/)"
        )
    there = [name for name in names if callable(getattr(cls, name, None))]
    wrong += [text for name in there for text in _wrong_parameters(cls, name, PROTOCOLS[group])]
    return wrong + misspelt(group, cls, names)


def _wrong_capabilities(cls: type) -> str:
    """The mistake in the declared capabilities of a client; empty when there is none."""
    given = getattr(cls, "capabilities", None)
    if isinstance(given, frozenset) and given <= CAPABILITIES.keys():
        return ""
    return f"{cls.__name__}.capabilities must be a frozenset of names among {', '.join(CAPABILITIES)}, not {given!r}"


_signature = lru_cache(maxsize=512)(inspect.signature)  # of the same methods for each test of a campaign


def _is_frozen(cls: type) -> bool:
    return dataclasses.is_dataclass(cls) and bool(getattr(cls, "__dataclass_params__").frozen)  # noqa: B009


def _wrong_parameters(cls: type, name: str, protocol: type) -> list[str]:
    """A method that cannot be called with the arguments that the protocol's own takes."""
    wanted = _signature(getattr(protocol, name))
    method = inspect.getattr_static(cls, name)
    try:
        given = _signature(getattr(cls, name))
    except (TypeError, ValueError):  # written in C: nothing is known of it
        return []
    count = len(wanted.parameters) - isinstance(method, staticmethod | classmethod)
    try:
        given.bind(*[None] * count)
    except TypeError:
        shape = ", ".join(wanted.parameters)
        return [f"{cls.__name__}.{name} must take ({shape}), not {given}"]
    return []


# --------------------------------------------------------------------------------------------------
# Workloads
# --------------------------------------------------------------------------------------------------
def _of_workload(workload: Any) -> list[str]:
    name = type(workload).__name__
    topics = _result_of(f"{name}.topics()", workload.topics)
    roles = _result_of(f"{name}.roles()", workload.roles)
    settings = _result_of(f"{name}.producer_settings()", workload.producer_settings)
    wrong = [result.text for result in (topics, roles, settings) if isinstance(result, _Raised)]
    if not wrong:
        wrong = [*_wrong_topics(name, topics), *_wrong_roles(name, roles), *_wrong_settings(name, settings)]
    if wrong:
        return wrong
    partitions = [f"{topic}-{number}" for topic, spec in topics.items() for number in range(spec.partitions)]
    return [text for role in dict.fromkeys(roles) if not role.runs for text in _wrong_operations(workload, role, partitions)]


@dataclasses.dataclass(frozen=True)
class _Raised:
    text: str


def _result_of(what: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plug-in may raise anything; it is a flaw of the plug-in
        return _Raised(f"{what} raised {type(error).__name__}: {error}; it must answer without a cluster")


def _wrong_topics(name: str, topics: Any) -> Iterator[str]:
    if not isinstance(topics, Mapping) or not topics or not all(isinstance(spec, TopicSpec) for spec in topics.values()):
        yield f'{name}.topics() must return at least one topic, {{"t": TopicSpec(partitions=4)}}, not {topics!r}'
        return
    yield from (f"{name}.topics(): {topic} needs at least one partition" for topic, spec in topics.items() if spec.partitions < 1)


def _wrong_roles(name: str, roles: Any) -> Iterator[str]:
    if not isinstance(roles, tuple) or not all(isinstance(role, Role) for role in roles):
        yield f"{name}.roles() must return a tuple of roles, one per slot: (Writer(), Reader(), ...), not {roles!r}"
        return
    odd = {type(role).__name__ for role in roles if type(role) not in ROLES}
    kinds = ", ".join(kind.__name__ for kind in ROLES)
    yield from (f"{name}.roles(): {kind} is no kind of role; there are {kinds} (final readers are added)" for kind in odd)
    yield from dict.fromkeys(f"{name}.roles(): {text}" for role in roles for text in _wrong_fields(role))
    if not any(role.name == "writer" or role.connect for role in roles):
        yield f"{name}.roles(): at least one role must be a writer, or a worker of Connect"


def _wrong_fields(role: Role) -> Iterator[str]:
    """Fields of a role whose values are of another type than their defaults."""
    for name, given in vars(role).items():
        default = getattr(Role, name, None)
        kind = type(default)
        if default is not None and type(given) is not kind:
            allowed = ", ".join(map(str, Isolation)) if kind is Isolation else f"of type {kind.__name__}"
            yield f"{type(role).__name__}.{name} must be {allowed}, not {given!r}"


def _wrong_settings(name: str, settings: Any) -> Iterator[str]:
    if not isinstance(settings, Mapping):
        yield f'{name}.producer_settings() must return a mapping of client settings, {{"acks": "all"}}, not {settings!r}'


def _wrong_operations(workload: Any, role: Role, partitions: Sequence[str]) -> list[str]:
    """The first operations of a role: planned, endless, and the same again from the same seed."""
    where = f"{type(workload).__name__}.operations (role {role.name})"
    first = _result_of(where, lambda: _drawn(workload, role, partitions))
    if isinstance(first, _Raised):
        return [first.text]
    if isinstance(first, str):
        return [f"{where} {first}"]
    wrong = list(dict.fromkeys(text for planned in first for text in _wrong_planned(planned, role, partitions)))
    if len(first) < LOOKED_AT:
        wrong.append(f"must never end, but ended after {len(first)}: put the yield into `while True`")
    if not wrong and _drawn(workload, role, partitions) != first:
        wrong.append("must do the same again from the same seed: draw every choice from `rng`, and from nothing else")
    return [f"{where} {text}" for text in wrong]


def _drawn(workload: Any, role: Role, partitions: Sequence[str]) -> list[Any] | str:
    """The first operations; a sentence when what was returned cannot be gone through."""
    operations = workload.operations(role, list(partitions), Random(7))
    if not isinstance(operations, Iterator):
        return f"must be a generator (yield one PlannedOperation after the other), but returned {type(operations).__name__}"
    return list(islice(operations, LOOKED_AT))


def _wrong_planned(planned: Any, role: Role, partitions: Sequence[str]) -> Iterator[str]:
    if not isinstance(planned, PlannedOperation):
        yield f"must yield PlannedOperation(f=..., mops=...), not {planned!r}"
        return
    if planned.f not in FUNCTIONS:
        yield f'plans f = "{planned.f}"; the history knows {", ".join(FUNCTIONS)} (docs/history.md)'
    for mop in planned.mops:
        if tuple(mop) != ("poll",) and not (len(mop) == 2 and mop[0] == "send" and mop[1] in partitions):
            yield f'plans {mop!r}; a micro-operation is ("poll",) or ("send", one of the partitions it was given)'
    yield from _wrong_transaction(planned, role)


def _wrong_transaction(planned: PlannedOperation, role: Role) -> Iterator[str]:
    if planned.f == "txn" and planned.intent not in ("commit", "abort"):
        yield f'plans a transaction with intent = {planned.intent!r}; it must be "commit" or "abort"'
    if planned.f == "txn" and not role.transactional:
        yield "plans transactions; say so in its role: Writer(transactional=True)"
    if role.conducts:
        if planned.f != "rest" or not {"method", "path"} <= planned.request.keys():
            yield f"plans f = {planned.f!r} for a conductor; it asks: PlannedOperation(f='rest', mops=(), request={{...}})"
        return
    if planned.f not in (("poll", "committed") if role.group else ("poll",)) and role.name in ONLY_READ:
        yield f'plans f = "{planned.f}" for a reader, which has no producer; readers only poll, or ask for their group\'s offsets'
