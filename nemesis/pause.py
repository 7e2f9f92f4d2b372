"""Pause: nodes freeze and later go on, as in a long garbage collection or on a suspended machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Annotated, ClassVar

from fencepost.harness.api import Between, Pausable, Receipt
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support import targets
from fencepost.nemesis.support.attempts import attempt_each
from fencepost.nemesis.support.cluster_types import PausableCluster
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.no_effect import catch_no_effect
from fencepost.nemesis.support.open_transactions import struck_in_transaction
from fencepost.nemesis.support.processes import known_pids
from fencepost.nemesis.support.strike import strike
from fencepost.nemesis.support.waiting import poll_until

FROZEN = "T"
SEEN_WITHIN_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Pause:
    """Sends SIGSTOP to nodes. Healing sends SIGCONT to those that this fault froze.

    Evidence: the kernel's letter for each process before, during (T: frozen) and after, and the process ids: one that died
    meanwhile was not frozen all the time; of an instance:in-transaction whether it has left a record in an open transaction
    (`in_transaction`). A client that goes on after a freeze is the zombie of KIP-98.
    """

    needs: ClassVar[tuple[type, ...]] = (Pausable,)

    target: str = "random"  # the role that freezes
    count: Annotated[int, Between(1, 500)] = 1  # how many, with the targets random and client

    def __post_init__(self) -> None:
        targets.check(self.target, count=self.count)
        demand_bounds(self)

    @catch_no_effect
    def inject(self, cluster: PausableCluster, rng: Random) -> Receipt:
        """Freeze the nodes that have the role now."""
        nodes = targets.find(self.target, cluster, rng, self.count)
        running = known_pids(cluster, nodes)
        struck = strike(
            nodes,
            cluster.pause,
            look=cluster.process_state,
            is_healthy=lambda state: state not in ("", FROZEN),
            is_hit=lambda _, state: state == FROZEN,
            undo=cluster.resume,
            within_s=SEEN_WITHIN_S,
        )
        problems = [f"{node} was {'frozen' if struck.before[node] else 'dead'} already" for node in struck.unhealthy]
        problems += [f'{node} did not freeze (state "{struck.during[node]}")' for node in struck.missed]
        left = struck_in_transaction(self.target, cluster, struck.hit)
        return struck.receipt(self.target, problems, {"pids": running, **left})

    def heal(self, cluster: PausableCluster, receipt: Receipt) -> Receipt:
        """Thaw what is still frozen, and look whether it woke up."""
        before: dict[str, str] = dict(receipt.evidence.get("before", {}))
        ours = [node for node in receipt.targets if before.get(node, "") not in ("", FROZEN)]
        early = _not_frozen_all_the_time(cluster, receipt, ours)
        same = [node for node in ours if not _replaced(receipt, known_pids(cluster, [node]))]
        problems = attempt_each(cluster.resume, [node for node in same if cluster.process_state(node) == FROZEN])
        after = poll_until(lambda: _states(cluster, ours), lambda now: FROZEN not in [now[n] for n in same], SEEN_WITHIN_S)
        left = [node for node in same if after[node] == FROZEN]
        problems += [f"{node} is still frozen after healing" for node in left]
        return healed(receipt, {"after": after, "pids": known_pids(cluster, ours)}, problems, left, early)


def _replaced(receipt: Receipt, now: Mapping[str, int | None]) -> dict[str, str]:
    """Nodes whose process is another one than the fault found, or gone; and what became of it."""
    pids: dict[str, int | None] = dict(receipt.evidence.get("pids", {}))
    changed = {node: pid for node, pid in now.items() if node in pids and pid != pids[node]}
    return {node: f"process {pids[node]} is gone" + (f", {pid} runs" if pid else "") for node, pid in changed.items()}


def _not_frozen_all_the_time(cluster: PausableCluster, receipt: Receipt, ours: Iterable[str]) -> dict[str, str]:
    """Nodes that froze and were no longer frozen when the fault was to be healed for the first time, and why."""
    during = dict(receipt.evidence.get("during", {}))
    froze = [] if receipt.healing else [node for node in ours if during.get(node) == FROZEN]
    replaced, now = _replaced(receipt, known_pids(cluster, froze)), _states(cluster, froze)
    awake = {node: "it was awake already" for node in froze if now[node] != FROZEN}
    return {node: f"{node} did not stay frozen: {why}" for node, why in {**awake, **replaced}.items()}


def _states(cluster: PausableCluster, nodes: Iterable[str]) -> dict[str, str]:
    return {node: cluster.process_state(node) for node in nodes}
