"""Cut client: one client is cut from one broker; no other node is affected."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from fencepost.harness.api import ClusterError, Receipt
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.cut_clients import Direction, between
from fencepost.nemesis.support import network_partition, targets
from fencepost.nemesis.support.cluster_types import PartitionableCluster
from fencepost.nemesis.support.no_effect import catch_no_effect, no_target_on_error


@dataclass(frozen=True, kw_only=True)
class CutClient(network_partition.PartitionFault):
    """Drops the packets of one client towards one broker (or back, or both ways). Targets: the broker, then the client.

    With a client as target too two clients are cut from each other: `target = "connect-leader"`, `client = "connect-task"`;
    with `target = "service:postgres"` a client loses an outside service that the test declares.
    """

    target: str = "random"  # the role of the broker, of another client, or of an outside service
    client: str = "random"  # a client's node (c3), random, instance, connect-leader or connect-task[:NUMBER]
    direction: Direction = "to-broker"  # to-broker, from-broker or both

    def __post_init__(self) -> None:
        targets.check(self.target, targets.WITH_LINKS)
        targets.check(self._client_role(), targets.ONE_CLIENT)
        demand_bounds(self)

    @catch_no_effect
    def inject(self, cluster: PartitionableCluster, rng: Random) -> Receipt:
        """Cut the client from the broker that has the role now."""
        with no_target_on_error(self.target):
            brokers = targets.find(self.target, cluster, rng)
            client = targets.find(self._client_role(), cluster, rng)
            if brokers == client:
                raise ClusterError(f"{client[0]} is both {self.target} and {self.client}")
        return network_partition.cut(cluster, self.target, brokers + client, between(client, brokers, self.direction))

    def _client_role(self) -> str:
        if self.client == "random":
            return "client"
        return self.client if self.client.partition(":")[0] in targets.ONE_CLIENT else f"client:{self.client}"
