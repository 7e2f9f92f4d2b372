"""Move coordinator: another broker becomes the coordinator of a transactional id, although no broker failed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from fencepost.harness.api import ClusterView, Receipt
from fencepost.nemesis.support import placement, targets
from fencepost.nemesis.support.no_effect import catch_no_effect, no_target_on_error


@dataclass(frozen=True, kw_only=True)
class MoveCoordinator(placement.LeaderMove):
    """Moves the leader of the partition of `__transaction_state` that a transactional id falls on, and with it the coordinator.

    It meets everybody whose transactional id falls on it: open transactions go on at a coordinator that has just loaded its log.
    Healing lets the preferred replica coordinate again. Evidence: leader and replicas.
    """

    target: str = "coordinator"  # coordinator, or coordinator:ID

    def __post_init__(self) -> None:
        targets.check(self.target, ("coordinator",))

    @catch_no_effect
    def inject(self, cluster: ClusterView, rng: Random) -> Receipt:
        """Move the coordinator of one of the workload's, or of this one."""
        name = targets.choose_name(self.target, cluster.transactional_ids, "transactional id", rng)
        with no_target_on_error(self.target):
            partition = cluster.roles().transaction_partition(name)
        receipt = placement.change_leaders(cluster, self.target, [partition], rng)
        return replace(receipt, evidence={"id": name, **receipt.evidence})
