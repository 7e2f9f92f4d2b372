"""Pause: nodes freeze and later go on, as in a long garbage collection or on a suspended machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

from harness.api import HarnessError, Pausable, Receipt
from nemesis.support import targets
from nemesis.support.attempts import attempt_each, attempt_within_budget, no_target, undo_on_error
from nemesis.support.cluster_types import PausableCluster
from nemesis.support.waiting import poll_until

FROZEN = "T"
SEEN_WITHIN_S = 2.0


@dataclass(frozen=True, kw_only=True)
class Pause:
    """Sends SIGSTOP to nodes. Healing sends SIGCONT to those that this fault froze.

    Evidence: the kernel's letter for each process before, during (T: frozen) and after. A client that
    goes on after a freeze is the zombie of KIP-98.
    """

    needs: ClassVar[tuple[type, ...]] = (Pausable,)

    target: str = "random"  # the role that freezes
    count: int = 1  # how many, with the targets random and client

    def __post_init__(self) -> None:
        targets.check(self.target, count=self.count)

    def inject(self, cluster: PausableCluster, rng: Random) -> Receipt:
        """Freeze the nodes that have the role now."""
        try:
            nodes = targets.find(self.target, cluster, rng, self.count)
        except HarnessError as error:
            return no_target(self.target, error)
        before = _states(cluster, nodes)
        ours = [node for node in nodes if before[node] not in ("", FROZEN)]
        with undo_on_error(lambda: attempt_each(cluster.resume, ours)):
            tried, problems = attempt_within_budget(cluster.pause, ours)
            during = poll_until(
                lambda: _states(cluster, nodes), lambda now: all(now[node] == FROZEN for node in tried), SEEN_WITHIN_S
            )
        awake = [node for node in ours if during[node] != FROZEN]
        problems += [f"{node} was {'frozen' if before[node] else 'dead'} already" for node in nodes if node not in ours]
        problems += [f'{node} did not freeze (state "{during[node]}")' for node in awake if node in tried]
        return Receipt(
            role=self.target,
            targets=tuple(node for node in nodes if node in tried or node not in ours),
            evidence={"before": before, "during": during},
            effective=bool(ours) and not awake,
            note="; ".join(problems),
        )

    def heal(self, cluster: PausableCluster, receipt: Receipt) -> Receipt:
        """Thaw what is still frozen, and look whether it woke up."""
        before: dict[str, str] = dict(receipt.evidence.get("before", {}))
        ours = [node for node in receipt.targets if before.get(node, "") not in ("", FROZEN)]
        problems = attempt_each(cluster.resume, [node for node in ours if cluster.process_state(node) == FROZEN])
        after = poll_until(lambda: _states(cluster, ours), lambda now: FROZEN not in now.values(), SEEN_WITHIN_S)
        problems += [f"{node} is still frozen after healing" for node in ours if after[node] == FROZEN]
        return replace(receipt, healing={"after": after}, note="; ".join(filter(None, [receipt.note, *problems])))


def _states(cluster: PausableCluster, nodes: Iterable[str]) -> dict[str, str]:
    return {node: cluster.process_state(node) for node in nodes}
