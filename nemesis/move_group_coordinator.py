"""Move group coordinator: another broker becomes the coordinator of a consumer group, although no broker failed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from fencepost.harness.api import ClusterView, Receipt
from fencepost.nemesis.support import placement, targets
from fencepost.nemesis.support.no_effect import catch_no_effect, no_target_on_error


@dataclass(frozen=True, kw_only=True)
class MoveGroupCoordinator(placement.LeaderMove):
    """Moves the leader of the partition of `__consumer_offsets` that a group falls on, and with it the coordinator.

    It meets everybody whose group falls on it: offsets are committed at a coordinator that has just loaded its log. Every client
    of a run has a group of its own; those of the workloads that come with fencepost look for its coordinator, and commit no
    offsets. Healing lets the preferred replica coordinate again. Evidence: leader and replicas.
    """

    target: str = "group-coordinator"  # that of one of the clients' groups, or group-coordinator:GROUP

    def __post_init__(self) -> None:
        targets.check(self.target, ("group-coordinator",))

    @catch_no_effect
    def inject(self, cluster: ClusterView, rng: Random) -> Receipt:
        """Move the coordinator of one of the workload's, or of this one."""
        name = targets.choose_name(self.target, cluster.groups, "consumer group", rng)
        with no_target_on_error(self.target):
            partition = cluster.roles().group_partition(name)
        receipt = placement.change_leaders(cluster, self.target, [partition], rng)
        return replace(receipt, evidence={"group": name, **receipt.evidence})
