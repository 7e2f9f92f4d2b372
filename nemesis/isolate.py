"""Isolate: a broker is cut from all other servers, but not from its clients."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import ClassVar

from fencepost.harness.api import Receipt
from fencepost.nemesis.support import network_partition, targets
from fencepost.nemesis.support.cluster_types import PartitionableCluster
from fencepost.nemesis.support.no_effect import catch_no_effect


@dataclass(frozen=True, kw_only=True)
class Isolate(network_partition.PartitionFault):
    """Drops every packet between one broker and all other brokers and controllers, in both directions.

    Clients still reach it: a leader that does not know yet that it was replaced answers them. With the target `all`,
    no two servers can talk.
    """

    least_servers: ClassVar[int] = 2  # brokers and controllers

    target: str = "random"  # the role that is cut off

    def __post_init__(self) -> None:
        targets.check(self.target, targets.BROKERS)

    @catch_no_effect
    def inject(self, cluster: PartitionableCluster, rng: Random) -> Receipt:
        """Cut off the broker that has the role now."""
        nodes = targets.find(self.target, cluster, rng)
        return network_partition.cut(
            cluster, self.target, nodes, network_partition.both_ways(nodes, network_partition.servers(cluster, nodes))
        )
