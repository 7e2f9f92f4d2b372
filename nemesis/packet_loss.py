"""Packet loss: links lose some of their packets, as over a bad cable or a crowded switch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar

from harness.api import Losable, PacketTimes, Receipt
from nemesis.support import network_partition, targets
from nemesis.support.attempts import undo_on_error
from nemesis.support.cluster_types import LosableCluster
from nemesis.support.network_partition import LinkScope

ENOUGH = 10  # losses to be expected among the datagrams that measure
FEWEST, MOST = 10, 500  # datagrams for each pair


@dataclass(frozen=True, kw_only=True)
class PacketLoss:
    """Drops a random share of the packets on a node's links, in both directions, each packet independently.

    TCP repairs what is lost and becomes slow and jerky; at a third or more, connections die. Evidence: datagrams over
    every link before and during, and after healing the packets that the kernel saw and dropped.
    """

    needs: ClassVar[tuple[type, ...]] = (Losable,)

    target: str = "random"  # the role whose links lose packets
    links: LinkScope = "all"  # its links to servers, clients, or all
    share: float = 0.1  # of the packets, in each direction

    def __post_init__(self) -> None:
        targets.check(self.target, targets.ANY)
        network_partition.check_links(self.links)
        if not 0.0001 <= self.share <= 0.95:
            raise ValueError(
                f"share = {self.share}: must be between 0.0001 and 0.95; for all packets there are isolate and cut-clients"
            )

    def inject(self, cluster: LosableCluster, rng: Random) -> Receipt:
        """Drop packets of the node that has the role now."""
        receipt, pairs = network_partition.target_links(cluster, self.target, self.links, rng)
        if not pairs:
            return receipt
        packets = min(MOST, max(FEWEST, round(ENOUGH / self.share / len(pairs))))
        before = cluster.measure(pairs, FEWEST)
        number = cluster.lose(pairs, self.share)
        with undo_on_error(lambda: cluster.unlose(number)):
            during = cluster.measure(pairs, packets)
        evidence = {"number": number, "before": _counts(before), "during": _counts(during), "share": self.share}
        lost, lost_before = sum(map(_lost, during.values())), sum(map(_lost, before.values()))
        note = "" if lost else f"no datagram of {packets * len(pairs)} was lost"
        note = note or (f"{lost_before} datagrams were lost before already" if lost_before else "")
        return replace(receipt, evidence=evidence, effective=lost > 0, note=note)

    def heal(self, cluster: LosableCluster, receipt: Receipt) -> Receipt:
        """Drop nothing more. The kernel's count decides whether anything was lost."""
        number = receipt.evidence.get("number")
        if number is None:
            return receipt
        counted = cluster.unlose(number)
        if not counted:  # healed before, by us or by the cluster
            return receipt
        after = cluster.measure(list(counted), FEWEST)
        lost = {network_partition.pair_name(pair): {"seen": seen, "lost": lost} for pair, (seen, lost) in counted.items()}
        healing = {"counted": lost, "after": _counts(after)}
        if any(one["lost"] for one in lost.values()):
            return replace(receipt, healing=healing, effective=True)
        return replace(receipt, healing=healing, effective=False, note="the kernel dropped no packet on these links")


def _lost(took: PacketTimes) -> int:
    return sum(one is None for one in took)


def _counts(measured: dict[Any, PacketTimes]) -> dict[str, dict[str, int]]:
    """Datagrams sent and lost over each link, as plain JSON."""
    return {network_partition.pair_name(pair): {"sent": len(took), "lost": _lost(took)} for pair, took in measured.items()}
