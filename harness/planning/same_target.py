"""`target = "same"`: a fault that strikes together with another one, at the node that the first of their group has struck."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fencepost.harness.api import Cluster, Counted, Receipt, Targeted
from fencepost.harness.api.clusters import second_of
from fencepost.harness.api.plans import SAME, FaultChoice, Injection
from fencepost.harness.api.words import enumeration
from fencepost.harness.plugins import registry

ALONE = (
    f'"{SAME}" is the node that the first fault of a group strikes, and this one has no group before it: give the two the same '
    "word in `together`, in one lane"
)
_CLIENTS = ("client", "instance", "connect-leader", "connect-task", "service")  # targets that are no brokers


def is_same(choice: FaultChoice | Injection) -> bool:
    return choice.options.get("target") == SAME


def first_of(choice: FaultChoice, nemeses: Sequence[FaultChoice]) -> FaultChoice | None:
    """The first fault of a choice's `together` group; None where that is itself, or there is none."""
    group = [other for other in nemeses if choice.together and (other.lane, other.together) == (choice.lane, choice.together)]
    return group[0] if group and group[0] is not choice else None


def firsts(schedule: Iterable[Injection]) -> dict[int, int]:
    """The injections that strike the same node as the first one of their group, each with that one."""
    groups: dict[tuple[str, float], list[Injection]] = defaultdict(list)
    for injection in schedule:
        groups[injection.lane, injection.at_s].append(injection)
    return {other.id: first.id for first, *others in groups.values() for other in others if is_same(other)}


def faults_of(nemeses: Sequence[FaultChoice]) -> list[Any]:
    """The faults of a test's choices, those for the same node as another with one that stands in. Raises CampaignError."""
    faults: list[Any] = []
    for choice in nemeses:
        first = first_of(choice, nemeses) if is_same(choice) else None
        options = choice.options if first is None else standing_in(choice.options, faults[nemeses.index(first)])
        faults.append(registry.build(registry.load("fencepost.nemesis", choice.kind), options, "nemesis"))
    return faults


def standing_in(options: Mapping[str, Any], first: Any) -> dict[str, Any]:
    """Options with a node of every test in the place of `same`, so that the fault can be judged before anything is struck.

    first: the fault that is struck first, made of its options.
    """
    target = str(first.target) if isinstance(first, Targeted) else ""
    return {**options, "target": "client:c0" if target.partition(":")[0] in _CLIENTS else "broker:n1"}


def unclear(grouped: bool, first: Any) -> str:
    """The reason why nobody knows which node is meant; empty when the first fault of a group strikes one."""
    if not grouped:
        return ALONE
    if isinstance(first, Targeted) and "all" in str(first.target).split(":"):
        return f'"{SAME}" is one node, and the first fault of the group strikes all'
    count = first.count if isinstance(first, Counted) else 1
    return f'"{SAME}" is one node, and the first fault of the group strikes {count}' if count > 1 else ""


def refused(cls: Any, options: Mapping[str, Any], first: Any) -> str:
    """The reason why a fault cannot strike such a node; empty when it can."""
    aimed_at = standing_in(options, first)
    beside = {name: value for name, value in options.items() if name != "target"}
    others = {text for _, text in registry.attempt(cls, beside)[1]}
    wrong = [text for _, text in registry.attempt(cls, aimed_at)[1] if text not in others]
    what = "a client" if aimed_at["target"].startswith("client") else "a broker"
    return f'"{SAME}" is {what} here: {wrong[0]}' if wrong else ""


def aimed(injection: Injection, first: Receipt | None, cluster: Cluster) -> tuple[Injection | None, str]:
    """The injection with the node that the first fault of its group has struck as its target; or None, and why there is none."""
    nodes = struck(first) if first else ()
    if len(nodes) != 1:
        return None, f"the first fault of its group struck {enumeration(nodes) or 'nothing'}"
    if not (target := _spelled(nodes[0], cluster)):
        return None, f"no target leads to {nodes[0]}, which the first fault of its group struck"
    return replace(injection, options={**injection.options, "target": target}), ""


def struck(receipt: Receipt) -> tuple[str, ...]:
    """The nodes that a fault has struck."""
    hit = receipt.evidence.get("hit")
    return () if receipt.effective is False else tuple(map(str, hit if isinstance(hit, list | tuple) else receipt.targets))


def _spelled(node: str, cluster: Cluster) -> str:
    second = second_of(cluster)
    if second and node in second.brokers:
        return f"second:broker:{node}"
    return f"broker:{node}" if node in cluster.brokers else f"client:{node}" if node in cluster.clients else ""
