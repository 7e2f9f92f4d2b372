"""Strikes: an attempt to hurt several nodes, of which some may be hurt already, and some be spared by the budget."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from fencepost.harness.api import Receipt
from fencepost.nemesis.support.attempts import attempt_each, attempt_within_budget, undo_on_error
from fencepost.nemesis.support.waiting import poll_until

State = TypeVar("State")


@dataclass(frozen=True)
class Strike(Generic[State]):
    """The outcome of an attempt to hurt several nodes.

    nodes: all of them.
    before: the state of each before the attempt.
    during: the state of each after it, measured alike.
    healthy: those that were healthy before; only these are hurt, for the others belong to another fault.
    tried: those of them that the test's budget allowed to be hurt.
    hit: those of them that were hurt, by whomever.
    problems: the texts of calls that failed.
    """

    nodes: Sequence[str]
    before: dict[str, State]
    during: dict[str, State]
    healthy: list[str]
    tried: list[str]
    hit: list[str]
    problems: list[str] = field(default_factory=list)

    @property
    def unhealthy(self) -> list[str]:
        """The nodes that were left alone, because they were not healthy before."""
        return [node for node in self.nodes if node not in self.healthy]

    @property
    def missed(self) -> list[str]:
        """The nodes that were to be hurt, and were not."""
        return [node for node in self.tried if node not in self.hit]

    def receipt(self, role: str, problems: Sequence[str] = (), evidence: Mapping[str, Any] | None = None) -> Receipt:
        """The receipt. problems: more of them, in words; evidence: more of it."""
        aimed_at = tuple(node for node in self.nodes if node in self.tried or node in self.unhealthy)
        return Receipt(
            role=role,
            targets=aimed_at,
            evidence={"before": self.before, "during": self.during, **(evidence or {}), **hit_among(aimed_at, self.hit)},
            effective=bool(self.hit),
            note="; ".join([*self.problems, *problems]),
        )


def hit_among(targets: Sequence[str], hurt: Collection[str]) -> dict[str, list[str]]:
    """The part `hit` of a receipt's evidence: the targets that were hurt, where those are only some."""
    some = [node for node in targets if node in hurt]
    return {"hit": some} if some and len(some) < len(targets) else {}


def strike(
    nodes: Sequence[str],
    hurt: Callable[[str], None],
    *,
    look: Callable[[str], State],
    is_healthy: Callable[[State], bool],
    is_hit: Callable[[State, State], bool],
    undo: Callable[[str], None],
    within_s: float,
) -> Strike[State]:
    """Hurt those of the nodes that are healthy, within the budget, and look until all of them are hit, or for `within_s` seconds.

    look: the state of a node. is_healthy: of a state before; is_hit: of a state before and one during.
    undo: called for every node that was healthy when this breaks off.
    """
    before = {node: look(node) for node in nodes}
    healthy = [node for node in nodes if is_healthy(before[node])]
    with undo_on_error(lambda: attempt_each(undo, healthy)):
        tried, problems = attempt_within_budget(hurt, healthy)
        during = poll_until(
            lambda: {node: look(node) for node in nodes},
            lambda now: all(is_hit(before[node], now[node]) for node in tried),
            within_s,
        )
    hit = [node for node in healthy if is_hit(before[node], during[node])]
    return Strike(nodes, before, during, healthy, tried, hit, problems)
