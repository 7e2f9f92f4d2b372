"""Pause: nodes freeze and later go on, as in a long garbage collection or on a suspended machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Annotated, ClassVar

from fencepost.harness.api import Between, HarnessError, Pausable, Receipt
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support import targets
from fencepost.nemesis.support.attempts import attempt_each, attempt_within_budget, hit_evidence, no_target, undo_on_error
from fencepost.nemesis.support.cluster_types import PausableCluster
from fencepost.nemesis.support.healing import healed, pids
from fencepost.nemesis.support.waiting import poll_until

FROZEN = "T"
SEEN_WITHIN_S = 2.0


@dataclass(frozen=True, kw_only=True)
class Pause:
    """Sends SIGSTOP to nodes. Healing sends SIGCONT to those that this fault froze.

    Evidence: the kernel's letter for each process before, during (T: frozen) and after, and the process ids: one that died
    meanwhile was not frozen all the time. A client that goes on after a freeze is the zombie of KIP-98.
    """

    needs: ClassVar[tuple[type, ...]] = (Pausable,)

    target: str = "random"  # the role that freezes
    count: Annotated[int, Between(1, 500)] = 1  # how many, with the targets random and client

    def __post_init__(self) -> None:
        targets.check(self.target, count=self.count)
        demand_bounds(self)

    def inject(self, cluster: PausableCluster, rng: Random) -> Receipt:
        """Freeze the nodes that have the role now."""
        try:
            nodes = targets.find(self.target, cluster, rng, self.count)
        except HarnessError as error:
            return no_target(self.target, error)
        before, found = _states(cluster, nodes), pids(cluster, nodes)
        ours = [node for node in nodes if before[node] not in ("", FROZEN)]
        with undo_on_error(lambda: attempt_each(cluster.resume, ours)):
            tried, problems = attempt_within_budget(cluster.pause, ours)
            during = poll_until(
                lambda: _states(cluster, nodes), lambda now: all(now[node] == FROZEN for node in tried), SEEN_WITHIN_S
            )
        awake = [node for node in ours if during[node] != FROZEN]
        problems += [f"{node} was {'frozen' if before[node] else 'dead'} already" for node in nodes if node not in ours]
        problems += [f'{node} did not freeze (state "{during[node]}")' for node in awake if node in tried]
        aimed_at = tuple(node for node in nodes if node in tried or node not in ours)
        froze = [node for node in ours if node not in awake]
        return Receipt(
            role=self.target,
            targets=aimed_at,
            evidence={"before": before, "during": during, "pids": found, **hit_evidence(aimed_at, froze)},
            effective=bool(froze),
            note="; ".join(problems),
        )

    def heal(self, cluster: PausableCluster, receipt: Receipt) -> Receipt:
        """Thaw what is still frozen, and look whether it woke up."""
        before: dict[str, str] = dict(receipt.evidence.get("before", {}))
        ours = [node for node in receipt.targets if before.get(node, "") not in ("", FROZEN)]
        early = _not_frozen_all_the_time(cluster, receipt, ours)
        same = [node for node in ours if not _replaced(receipt, pids(cluster, [node]))]
        problems = attempt_each(cluster.resume, [node for node in same if cluster.process_state(node) == FROZEN])
        after = poll_until(lambda: _states(cluster, ours), lambda now: FROZEN not in [now[n] for n in same], SEEN_WITHIN_S)
        left = [node for node in same if after[node] == FROZEN]
        problems += [f"{node} is still frozen after healing" for node in left]
        return healed(receipt, {"after": after, "pids": pids(cluster, ours)}, problems, left, early)


def _replaced(receipt: Receipt, now: Mapping[str, int | None]) -> dict[str, str]:
    """Nodes whose process is another one than the fault found, or gone; and what became of it."""
    found: dict[str, int | None] = dict(receipt.evidence.get("pids", {}))
    changed = {node: pid for node, pid in now.items() if node in found and pid != found[node]}
    return {node: f"process {found[node]} is gone" + (f", {pid} runs" if pid else "") for node, pid in changed.items()}


def _not_frozen_all_the_time(cluster: PausableCluster, receipt: Receipt, ours: Iterable[str]) -> dict[str, str]:
    """Nodes that froze and were no longer frozen when the fault was to be healed for the first time, and why."""
    during = dict(receipt.evidence.get("during", {}))
    froze = [] if receipt.healing else [node for node in ours if during.get(node) == FROZEN]
    replaced, now = _replaced(receipt, pids(cluster, froze)), _states(cluster, froze)
    awake = {node: "it was awake already" for node in froze if now[node] != FROZEN}
    return {node: f"{node} did not stay frozen: {why}" for node, why in {**awake, **replaced}.items()}


def _states(cluster: PausableCluster, nodes: Iterable[str]) -> dict[str, str]:
    return {node: cluster.process_state(node) for node in nodes}
