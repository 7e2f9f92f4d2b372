"""Requirements on a fault's class (`harness.api.Fault`), and on the cluster for it: checked before anything starts."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable
from typing import Any, get_type_hints

from fencepost.harness.api import (
    ChangesTopicSettings,
    Cluster,
    ClusterProvider,
    Fault,
    Interceptable,
    JudgesSettings,
    Receipt,
    Scalable,
    Targeted,
)
from fencepost.harness.api.declarations import mistakes
from fencepost.harness.api.optional import only_clients_of
from fencepost.harness.plugins.optional_names import misspelt

SIGNATURES = {"inject": "(self, cluster, rng)", "heal": "(self, cluster, receipt)"}


def breaches(cls: Any) -> list[str]:
    """Every way in which `cls` breaks the interface of a fault, in words; none when it is sound."""
    if not isinstance(cls, type):
        return [f"{cls!r} is not a class; a fault is a frozen dataclass"]
    wrong = [] if _is_frozen(cls) else [f"{cls.__name__} must be a frozen dataclass: its fields are the options"]
    wrong += _wrong_needs(cls)
    for method in SIGNATURES:
        wrong += _wrong_method(cls, method)
    return wrong + misspelt("nemesis", cls, (*SIGNATURES, "needs"))


def lacks(fault: Fault, cluster: Cluster) -> dict[str, str]:
    """Capabilities that `fault` needs and `cluster` has not: name -> reason."""
    missing = unavailable([fault], cluster.unavailable)
    for capability in fault.needs:
        if capability.__name__ not in missing and not isinstance(cluster, capability):
            missing[capability.__name__] = f"{type(cluster).__name__} is not {capability.__name__}"
    if (reason := only_clients_of(cluster)) and not aims_at_clients(fault):
        missing = {capability.__name__: reason for capability in fault.needs} | missing
    return missing


def foreseen(fault: Fault, provider: ClusterProvider) -> dict[str, str]:
    """Capabilities that `fault` will lack on the provider's cluster, as far as is known before it starts: name -> reason."""
    missing = unavailable([fault], provider.missing().get)
    only = only_clients_of(provider)
    return {name: reason for name, reason in missing.items() if not (aims_at_clients(fault) and reason == only)}


def aims_at_clients(fault: Fault) -> bool:
    """True if its target is a client, any of them (`nemesis.support.targets`), instances of a program, or what clients send."""
    return bool({Scalable, Interceptable} & set(fault.needs)) or (
        isinstance(fault, Targeted) and str(fault.target).partition(":")[0] == "client"
    )


def unavailable(faults: Iterable[Fault], why: Callable[[type], str | None]) -> dict[str, str]:
    """Capabilities that some fault needs and that cannot be had: name -> reason, as in the plan.

    why: a capability -> the reason it is missing, or None; `cluster.unavailable`, or `provider.missing().get` before the start.
    """
    needed = {capability for fault in faults for capability in fault.needs}
    reasons = {capability.__name__: why(capability) for capability in sorted(needed, key=lambda need: need.__name__)}
    return {name: reason for name, reason in reasons.items() if reason}


def refused_topic_settings(fault: Fault, provider: ClusterProvider) -> list[tuple[str, str]]:
    """Topic settings of a fault that Kafka refuses: pairs of a setting and a sentence.

    None where the fault changes no such settings, or the provider does not know them yet (`judged_settings`).
    """
    if not isinstance(fault, ChangesTopicSettings) or not isinstance(provider, JudgesSettings):
        return []
    judged, _ = provider.judged_settings(fault.changed_topic_settings())
    return [(name, text) for table, name, text in judged if table == "topic"]


def _is_frozen(cls: type) -> bool:
    return dataclasses.is_dataclass(cls) and bool(getattr(cls, "__dataclass_params__").frozen)  # noqa: B009


def _wrong_needs(cls: type) -> list[str]:
    needs = getattr(cls, "needs", None)
    if not isinstance(needs, tuple) or not all(isinstance(need, type) for need in needs):
        return [f"{cls.__name__}.needs must be a tuple of capabilities: `needs: ClassVar[tuple[type, ...]] = (Killable,)`"]
    unchecked = [
        f"{cls.__name__}.needs: {need.__name__} must be @runtime_checkable" for need in needs if not _is_runtime_checkable(need)
    ]
    return [*unchecked, *(f"{cls.__name__}.needs: {text}" for need in needs for text in mistakes(need))]


def _is_runtime_checkable(capability: type) -> bool:
    try:
        isinstance(None, capability)
    except TypeError:
        return False
    return True


def _wrong_method(cls: type, name: str) -> list[str]:
    method = inspect.getattr_static(cls, name, None)
    if not inspect.isfunction(method):
        return [f"{cls.__name__}.{name}{SIGNATURES[name]} is missing"]
    try:
        inspect.signature(method).bind(None, None, None)
    except TypeError:
        return [f"{cls.__name__}.{name} must take {SIGNATURES[name]}, not {inspect.signature(method)}"]
    returns = _returned_type(method)
    return [] if returns in (None, Receipt) else [f"{cls.__name__}.{name} must return a Receipt, not {returns!r}"]


def _returned_type(method: Callable[..., Any]) -> Any:
    """The annotated return type; None when there is no annotation that can be looked up."""
    annotation = method.__annotations__.get("return")
    if annotation is None and "return" in method.__annotations__:
        return "None"
    if isinstance(annotation, str):
        try:
            return get_type_hints(method).get("return")
        except NameError:  # a name that only type checkers import
            return None
    return annotation
