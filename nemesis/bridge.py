"""Bridge: two groups of servers are cut from each other, and one broker still reaches both."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import ClassVar

from fencepost.harness.api import Receipt
from fencepost.nemesis.support import network_partition, targets
from fencepost.nemesis.support.cluster_types import PartitionableCluster
from fencepost.nemesis.support.no_effect import catch_no_effect


@dataclass(frozen=True, kw_only=True)
class Bridge(network_partition.PartitionFault):
    """Splits all servers but one into random halves that cannot talk; the one left out talks to both.

    So the halves see different majorities, both with the bridge in them. `evidence.sides` holds the halves.
    """

    least_servers: ClassVar[int] = 3  # brokers and controllers

    target: str = "random"  # the role of the broker that both halves still see

    def __post_init__(self) -> None:
        targets.check(self.target, targets.ONE_BROKER)

    @catch_no_effect
    def inject(self, cluster: PartitionableCluster, rng: Random) -> Receipt:
        """Split all but the broker that has the role now."""
        (middle,) = targets.find(self.target, cluster, rng)
        sides = network_partition.split([node for node in network_partition.servers(cluster, [middle]) if node != middle], rng)
        return network_partition.cut(cluster, self.target, (middle,), network_partition.both_ways(*sides), {"sides": sides})
