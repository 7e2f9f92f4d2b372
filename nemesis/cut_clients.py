"""Cut clients: all clients are cut from one broker; the servers still reach each other."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

from fencepost.harness.api import ClusterError, Pair, Receipt
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support import network_partition, targets
from fencepost.nemesis.support.cluster_types import PartitionableCluster
from fencepost.nemesis.support.no_effect import catch_no_effect, no_target_on_error

Direction = Literal["to-broker", "from-broker", "both"]


@dataclass(frozen=True, kw_only=True)
class CutClients(network_partition.PartitionFault):
    """Drops every client's packets towards one broker (or back, or both ways).

    With `to-broker`, what the broker sends still arrives: this is the fault that made KAFKA-17754 visible, where a request
    written before the cut is retransmitted after it and ends the next transaction.
    """

    target: str = "random"  # the role of the broker that loses its clients
    direction: Direction = "to-broker"  # to-broker, from-broker or both

    def __post_init__(self) -> None:
        targets.check(self.target, targets.BROKERS)
        demand_bounds(self)

    @catch_no_effect
    def inject(self, cluster: PartitionableCluster, rng: Random) -> Receipt:
        """Cut all clients that run now from the broker that has the role now."""
        with no_target_on_error(self.target):
            nodes = targets.find(self.target, cluster, rng)
            if not cluster.clients:
                raise ClusterError("no client runs")
        return network_partition.cut(cluster, self.target, nodes, between(cluster.clients, nodes, self.direction))


def between(clients: tuple[str, ...], brokers: tuple[str, ...], direction: Direction) -> tuple[Pair, ...]:
    """The pairs between clients and brokers that a direction means."""
    if direction == "both":
        return network_partition.both_ways(clients, brokers)
    return (
        network_partition.one_way(clients, brokers) if direction == "to-broker" else network_partition.one_way(brokers, clients)
    )
