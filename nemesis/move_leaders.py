"""Move leaders: another broker becomes the leader of partitions, although no broker failed, as when a cluster is balanced."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Annotated, ClassVar

from fencepost.harness.api import Between, ClusterView, Receipt
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support import placement
from fencepost.nemesis.support.no_effect import catch_no_effect


@dataclass(frozen=True, kw_only=True)
class MoveLeaders(placement.LeaderMove):
    """Has another in-sync replica elected as the leader of partitions; healing gives them their old order of replicas back.

    Clients that still ask the old leader are told NOT_LEADER_OR_FOLLOWER. Evidence: leader, replicas and in-sync replicas before,
    during and after.
    """

    counts: ClassVar[str] = "partitions"  # what `count` counts, where it is not brokers

    target: str = "random"  # the partitions: random, all (of the workload), partition:orders-0, internal:connect-offsets
    count: Annotated[int, Between(1, 5000)] = 1  # how many, with the targets random and internal:NAME

    def __post_init__(self) -> None:
        demand_bounds(self)
        placement.check(self.target, self.count)

    @catch_no_effect
    def inject(self, cluster: ClusterView, rng: Random) -> Receipt:
        """Move the leaders now."""
        partitions = placement.find(self.target, cluster, rng, self.count)
        return placement.change_leaders(cluster, self.target, partitions, rng)
