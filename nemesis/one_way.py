"""One way: packets between a broker and the other servers are dropped in one direction."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import ClassVar, Literal

from fencepost.harness.api import Receipt
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support import network_partition, targets
from fencepost.nemesis.support.cluster_types import PartitionableCluster
from fencepost.nemesis.support.no_effect import catch_no_effect

Direction = Literal["in", "out", "random"]


@dataclass(frozen=True, kw_only=True)
class OneWay(network_partition.PartitionFault):
    """Drops packets between one broker and all other servers in one direction only.

    `in`: what the others send to it is dropped; `out`: what it sends to them. `evidence.direction` says which it was.
    """

    least_servers: ClassVar[int] = 2  # brokers and controllers

    target: str = "random"  # the role whose packets are dropped in one direction
    direction: Direction = "random"  # in, out, or one of them at random each time

    def __post_init__(self) -> None:
        targets.check(self.target, targets.ONE_BROKER)
        demand_bounds(self)

    @catch_no_effect
    def inject(self, cluster: PartitionableCluster, rng: Random) -> Receipt:
        """Cut one direction of the broker that has the role now."""
        direction = rng.choice(["in", "out"]) if self.direction == "random" else self.direction
        (target,) = targets.find(self.target, cluster, rng)
        servers = network_partition.servers(cluster, [target])
        pairs = (
            network_partition.one_way([target], servers) if direction == "out" else network_partition.one_way(servers, [target])
        )
        return network_partition.cut(cluster, self.target, [target], pairs, {"direction": direction})
