"""Latency: packets of links are delayed, as between continents or through a switch that is full."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from statistics import median
from typing import Any, ClassVar

from harness.api import PacketTimes, Receipt, Slowable
from nemesis.support import network_partition, targets
from nemesis.support.attempts import undo_on_error
from nemesis.support.cluster_types import SlowableCluster
from nemesis.support.network_partition import LinkScope

PACKETS = 5
MOST_MS = 30_000


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Delays every packet on a node's links, in both directions; a request and its answer take twice the delay longer.

    Packets keep their order. Evidence: what datagrams took over every link before, during and after.
    """

    needs: ClassVar[tuple[type, ...]] = (Slowable,)

    target: str = "random"  # the role whose links are delayed
    links: LinkScope = "all"  # its links to servers, clients, or all
    delay_ms: float = 200.0  # of each packet, in each direction
    jitter_ms: float = 20.0  # so much more or less, at random

    def __post_init__(self) -> None:
        targets.check(self.target, targets.ANY)
        network_partition.check_links(self.links)
        if not 5 <= self.delay_ms <= MOST_MS:
            raise ValueError(f"delay_ms = {self.delay_ms:g}: must be between 5 and {MOST_MS}")
        if not 0 <= self.jitter_ms <= self.delay_ms / 2:
            raise ValueError(f"jitter_ms = {self.jitter_ms:g}: must be between 0 and half of delay_ms")

    def inject(self, cluster: SlowableCluster, rng: Random) -> Receipt:
        """Delay the packets of the node that has the role now."""
        receipt, pairs = network_partition.target_links(cluster, self.target, self.links, rng)
        if not pairs:
            return receipt
        before = typical(cluster.measure(pairs, PACKETS))
        number = cluster.slow(pairs, delay_ms=self.delay_ms, jitter_ms=self.jitter_ms)
        with undo_on_error(lambda: cluster.unslow(number)):
            during = typical(cluster.measure(pairs, PACKETS, within_s=(self.delay_ms + self.jitter_ms) / 1000 + 1))
        evidence = {"number": number, "before": before, "during": during}
        quick = [link for link, took in during.items() if took is not None and took < self.delay_ms - self.jitter_ms]
        silent = [link for link, took in during.items() if took is None]
        problems = [f"not slow: {', '.join(quick)}"] if quick else []
        problems += [f"nothing arrived, so the delay is not known: {', '.join(silent)}"] if silent else []
        return replace(receipt, evidence=evidence, effective=not quick and len(silent) < len(pairs), note="; ".join(problems))

    def heal(self, cluster: SlowableCluster, receipt: Receipt) -> Receipt:
        """Delay nothing more."""
        return end(cluster, receipt)


def end(cluster: SlowableCluster, receipt: Receipt) -> Receipt:
    """End the change that the evidence names by number, and measure again. Does nothing when it has ended already."""
    number = receipt.evidence.get("number")
    counted = {} if number is None else cluster.unslow(number)
    if not counted:
        return receipt
    packets = {network_partition.pair_name(pair): {"seen": seen, "dropped": dropped} for pair, (seen, dropped) in counted.items()}
    return replace(receipt, healing={"counted": packets, "after": typical(cluster.measure(list(counted), PACKETS))})


def typical(measured: dict[Any, PacketTimes]) -> dict[str, float | None]:
    """The median of the milliseconds that datagrams took over each link, as plain JSON; None where none arrived."""
    arrived = {network_partition.pair_name(pair): [one for one in took if one is not None] for pair, took in measured.items()}
    return {link: round(median(took), 1) if took else None for link, took in arrived.items()}
