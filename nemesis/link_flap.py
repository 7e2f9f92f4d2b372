"""Link flap: a broker's links go down and up several times, as with a loose cable or a router that restarts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Annotated

from fencepost.harness.api import Between, HarnessError, Pair, Receipt, Wait, clock
from fencepost.harness.api.bounds import demand_bounds
from fencepost.harness.api.words import plural
from fencepost.nemesis.support import network_partition, targets
from fencepost.nemesis.support.cluster_types import PartitionableCluster
from fencepost.nemesis.support.network_partition import LinkScope
from fencepost.nemesis.support.no_effect import catch_no_effect


@dataclass(frozen=True, kw_only=True)
class LinkFlap(network_partition.PartitionFault):
    """Cuts a broker's links, mends them, cuts them again, ... in both directions; the last cut lasts until it is healed.

    Connections are half made, sessions expire while others begin, and elections are held while the last one is not over.
    Evidence: every pair probed before and in every cut, and after every mend.
    """

    target: str = "random"  # the role whose links flap
    links: LinkScope = "all"  # its links to servers, clients, or all
    times: Annotated[int, Between(1, 10_000)] = 3  # how often they go down
    down_s: Wait = 1.0  # how long they are down each time
    up_s: Wait = 0.5  # how long they are up in between

    def __post_init__(self) -> None:
        targets.check(self.target, (*targets.BROKERS, "service"))
        demand_bounds(self)

    @catch_no_effect
    def inject(self, cluster: PartitionableCluster, rng: Random) -> Receipt:
        """Cut and mend the links of the broker that has the role now; leave them cut."""
        nodes = targets.find(self.target, cluster, rng)
        pairs = network_partition.links(cluster, nodes, self.links)
        downs: list[dict[str, bool]] = []
        ups: list[dict[str, bool]] = []
        try:
            for _ in range(self.times - 1 if pairs else 0):
                downs.append(self._down(cluster, pairs))
                ups.append(self._up(cluster, pairs))
        except (HarnessError, OSError) as error:  # the pairs, so that healing mends them
            note = f"broke off after {plural(len(downs), 'cut')}: {error}"
            return Receipt(role=self.target, targets=nodes, pairs=pairs, effective=False, note=note)
        receipt = network_partition.cut(cluster, self.target, nodes, pairs, {"downs": downs, "ups": ups})
        stayed_open = sum(any(down.values()) for down in downs)
        stayed_closed = sum(not any(up.values()) for up in ups)
        problems = [f"{stayed_open} of {self.times} cuts left a link open"] if stayed_open else []
        problems += [f"{stayed_closed} of {len(ups)} mends opened nothing"] if stayed_closed else []
        return replace(receipt, note="; ".join(filter(None, [receipt.note, *problems])))

    def _down(self, cluster: PartitionableCluster, pairs: tuple[Pair, ...]) -> dict[str, bool]:
        cluster.drop(pairs)
        clock.sleep(self.down_s)
        return network_partition.matrix(cluster.probe(pairs))

    def _up(self, cluster: PartitionableCluster, pairs: tuple[Pair, ...]) -> dict[str, bool]:
        cluster.undrop(pairs)
        clock.sleep(self.up_s)
        return network_partition.matrix(network_partition.open_pairs(cluster, pairs))
