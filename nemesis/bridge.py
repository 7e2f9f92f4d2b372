"""Bridge: two groups of servers are cut from each other, and one broker still reaches both."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import ClassVar

from fencepost.harness.api import HarnessError, Partitionable, Receipt
from fencepost.nemesis.support import network_partition, targets
from fencepost.nemesis.support.attempts import no_target
from fencepost.nemesis.support.cluster_types import PartitionableCluster


@dataclass(frozen=True, kw_only=True)
class Bridge:
    """Splits all servers but one into random halves that cannot talk; the one left out talks to both.

    So the halves see different majorities, both with the bridge in them. `evidence.sides` holds the halves.
    """

    needs: ClassVar[tuple[type, ...]] = (Partitionable,)
    least_servers: ClassVar[int] = 3  # brokers and controllers

    target: str = "random"  # the role of the broker that both halves still see

    def __post_init__(self) -> None:
        targets.check(self.target, targets.ONE_BROKER)

    def inject(self, cluster: PartitionableCluster, rng: Random) -> Receipt:
        """Split all but the broker that has the role now."""
        try:
            (middle,) = targets.find(self.target, cluster, rng)
        except HarnessError as error:
            return no_target(self.target, error)
        sides = network_partition.split([node for node in network_partition.servers(cluster, [middle]) if node != middle], rng)
        return network_partition.cut(cluster, self.target, (middle,), network_partition.both_ways(*sides), {"sides": sides})

    def heal(self, cluster: PartitionableCluster, receipt: Receipt) -> Receipt:
        """Let the halves talk again."""
        return network_partition.mend(cluster, receipt)
