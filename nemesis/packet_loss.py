"""Packet loss: links lose some of their packets, as over a bad cable or a crowded switch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Annotated, ClassVar

from fencepost.harness.api import Between, Losable, Pair, Receipt
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support import link_changes, network_partition, targets
from fencepost.nemesis.support.attempts import undo_on_error
from fencepost.nemesis.support.cluster_types import LosableCluster
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.network_partition import LinkScope
from fencepost.nemesis.support.no_effect import catch_no_effect

Counts = Mapping[str, Mapping[str, int]]

ENOUGH = 10  # losses to be expected among the datagrams that measure
FEWEST, MOST = 10, 500  # datagrams for each pair


@dataclass(frozen=True, kw_only=True)
class PacketLoss:
    """Drops a random share of the packets on a node's links, in both directions, each packet independently.

    TCP repairs what is lost and becomes slow and jerky; at a third or more, connections die. Evidence: datagrams over
    every link before, during and after, and the packets that the kernel saw and dropped meanwhile.
    """

    needs: ClassVar[tuple[type, ...]] = (Losable,)

    target: str = "random"  # the role whose links lose packets
    links: LinkScope = "all"  # its links to servers, clients, or all
    share: Annotated[float, Between(0.0001, 0.95)] = 0.1  # of the packets, in each direction; for all there is isolate

    def __post_init__(self) -> None:
        targets.check(self.target, targets.WITH_LINKS)
        demand_bounds(self)

    @catch_no_effect
    def inject(self, cluster: LosableCluster, rng: Random) -> Receipt:
        """Drop packets of the node that has the role now."""
        receipt, pairs = network_partition.target_links(cluster, self.target, self.links, rng)
        before = self._measured(cluster, pairs)
        number = link_changes.begin(cluster, "lose", cluster.lose(pairs, self.share), pairs)
        with undo_on_error(lambda: link_changes.end(cluster, "lose", number, cluster.unlose)):
            during = self._measured(cluster, pairs)
        evidence = {"number": number, "before": before, "during": during, "share": self.share}
        lost, lost_before = _lost_share(during), _lost_share(before)
        note = "" if lost else f"no datagram of {_sent(during)} was lost"
        note = note or (f"{lost_before:.1%} of the datagrams were lost before already" if lost_before else "")
        return replace(receipt, evidence=evidence, effective=lost > lost_before, note=note)

    def heal(self, cluster: LosableCluster, receipt: Receipt) -> Receipt:
        """Drop nothing more, and look. The kernel's count decides whether anything was lost."""
        counted = link_changes.end(cluster, "lose", receipt.evidence.get("number"), cluster.unlose)
        if link_changes.is_over(receipt, counted):
            return receipt
        links, before = link_changes.links_of(receipt), receipt.evidence["before"]
        after = self._measured(cluster, links)
        own = {link: count for link, count in after.items() if link in link_changes.still_hurt(cluster, after)}
        goes_on = _lost_share(own) > max(self.share / 2, 2 * _lost_share({link: before[link] for link in own}))
        left = [link for link, count in own.items() if goes_on and count["lost"]]
        problems = [f"packets are still lost: {', '.join(left)}"] if left else []
        lost = link_changes.as_json(counted, "lost")
        healing = healed(receipt, {"counted": lost, "after": after}, problems, left)
        if not lost:  # ended before, and nobody has the count
            return healing
        effective = any(count["lost"] for count in lost.values())
        note = healing.note if effective else "the kernel dropped no packet on these links"
        return replace(healing, effective=effective, note=note)

    def _measured(self, cluster: LosableCluster, pairs: Sequence[Pair]) -> dict[str, dict[str, int]]:
        """Datagrams sent and lost over each link, as plain JSON; so many that the loss shows."""
        packets = min(MOST, max(FEWEST, round(ENOUGH / self.share / len(pairs))))
        return {
            network_partition.pair_name(pair): {"sent": len(took), "lost": sum(ms is None for ms in took)}
            for pair, took in cluster.measure(pairs, packets).items()
        }


def _sent(counts: Counts) -> int:
    return sum(count["sent"] for count in counts.values())


def _lost_share(counts: Counts) -> float:
    """The share of datagrams lost over all these links; 0 when none was sent."""
    return sum(count["lost"] for count in counts.values()) / max(1, _sent(counts))
