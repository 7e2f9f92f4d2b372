"""Halves: the servers are split into two groups that cannot reach each other."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import ClassVar

from fencepost.harness.api import Receipt
from fencepost.nemesis.support import network_partition
from fencepost.nemesis.support.cluster_types import PartitionableCluster


@dataclass(frozen=True, kw_only=True)
class Halves(network_partition.PartitionFault):
    """Drops every packet between two random halves of the brokers and controllers.

    Clients see both halves, so that the side without a majority is asked as well. The receipt's targets are the
    smaller half; `evidence.sides` holds both.
    """

    least_servers: ClassVar[int] = 2  # brokers and controllers

    def inject(self, cluster: PartitionableCluster, rng: Random) -> Receipt:
        """Split the servers at random."""
        sides = network_partition.split(network_partition.servers(cluster), rng)
        return network_partition.cut(cluster, "", sides[0], network_partition.both_ways(*sides), {"sides": sides})
