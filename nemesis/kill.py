"""Kill: nodes die at once, as by `kill -9` or a lost machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Annotated, ClassVar

from fencepost.harness.api import Between, Killable, Receipt, Wait
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support import targets
from fencepost.nemesis.support.cluster_types import KillableCluster
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.no_effect import catch_no_effect
from fencepost.nemesis.support.open_transactions import struck_in_transaction
from fencepost.nemesis.support.processes import alive, end_processes, lives_already, pids, restart

GONE_WITHIN_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Kill:
    """Sends SIGKILL to nodes. Healing starts those that this fault killed and that are still dead.

    Evidence: process ids before, during (null: gone) and after, whether each broker answers again, and of an
    instance:in-transaction whether it has left a record in an open transaction (`in_transaction`).
    A killed client is replaced by the harness, not by this fault.
    """

    needs: ClassVar[tuple[type, ...]] = (Killable,)

    target: str = "random"  # the role that dies
    count: Annotated[int, Between(1, 500)] = 1  # how many, with the targets random and client
    answer_within_s: Wait = 30.0  # how long healing waits for the started brokers to answer

    def __post_init__(self) -> None:
        targets.check(self.target, count=self.count)
        demand_bounds(self)

    @catch_no_effect
    def inject(self, cluster: KillableCluster, rng: Random) -> Receipt:
        """Kill the nodes that have the role now."""
        return self.strike(cluster, targets.find(self.target, cluster, rng, self.count))

    def strike(self, cluster: KillableCluster, nodes: Sequence[str]) -> Receipt:
        """Kill these nodes."""
        struck = end_processes(cluster, nodes, cluster.kill, GONE_WITHIN_S)
        problems = [f"{node} was dead already" for node in struck.unhealthy]
        problems += [f"{node} survived" for node in struck.missed]
        return struck.receipt(self.target, problems, struck_in_transaction(self.target, cluster, struck.hit))

    def heal(self, cluster: KillableCluster, receipt: Receipt) -> Receipt:
        """Start what is still dead, and wait until it answers or the time for that is over."""
        ours = alive(receipt.targets, receipt.evidence.get("before", {}))
        brokers = [node for node in ours if node not in cluster.clients]
        killed = [node for node in brokers if _died(node, receipt)]
        early = lives_already(receipt, pids(cluster, killed))
        restarted = restart(cluster, brokers, self.answer_within_s)
        healing = {**restarted.healing, "after": pids(cluster, ours)}
        return healed(receipt, healing, restarted.problems, restarted.left, early)


def _died(node: str, receipt: Receipt) -> bool:
    """True when the fault saw the node die."""
    return receipt.evidence.get("during", {}).get(node, 0) is None
