"""Bandwidth: the links of a node carry a limited rate, as when a backup or a rebalance fills them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar

from harness.api import PacketTimes, Receipt, Slowable
from nemesis import latency
from nemesis.support import network_partition, targets
from nemesis.support.attempts import undo_on_error
from nemesis.support.cluster_types import SlowableCluster
from nemesis.support.network_partition import LinkScope

SIZE, HEADERS = 1400, 28  # bytes of a datagram that measures
MEASURE_S = 0.3  # how long the datagrams of one measurement take at the limit
FEWEST, MOST = 4, 300


@dataclass(frozen=True, kw_only=True)
class Bandwidth:
    """Limits the bandwidth of a node's links, in each direction. Faster packets wait; beyond half a second they are lost.

    Evidence: datagrams sent at once over every link, before and during; how much later the last arrived than the first.
    """

    needs: ClassVar[tuple[type, ...]] = (Slowable,)

    target: str = "random"  # the role whose links are limited
    links: LinkScope = "all"  # its links to servers, clients, or all
    kbit_s: float = 512.0  # of each link, in each direction

    def __post_init__(self) -> None:
        targets.check(self.target, targets.ANY)
        network_partition.check_links(self.links)
        if not 64 <= self.kbit_s <= 50_000:
            raise ValueError(f"kbit_s = {self.kbit_s:g}: must be between 64 and 50000")

    def inject(self, cluster: SlowableCluster, rng: Random) -> Receipt:
        """Limit the links of the node that has the role now."""
        receipt, pairs = network_partition.target_links(cluster, self.target, self.links, rng)
        if not pairs:
            return receipt
        packets = min(MOST, max(FEWEST, round(MEASURE_S * 1000 / self._packet_ms())))
        before = self._spreads(cluster.measure(pairs, packets, SIZE))
        number = cluster.slow(pairs, kbit_s=self.kbit_s)
        with undo_on_error(lambda: cluster.unslow(number)):
            during = self._spreads(cluster.measure(pairs, packets, SIZE, within_s=2.0))
        wide = [link for link, one in during.items() if one["spread_ms"] < 0.7 * one["expected_ms"]]
        silent = [link for link, one in during.items() if not one["expected_ms"]]
        problems = [f"as wide as before: {', '.join(wide)}"] if wide else []
        problems += [f"too little arrived to tell the width: {', '.join(silent)}"] if silent else []
        evidence = {"number": number, "before": before, "during": during}
        return replace(receipt, evidence=evidence, effective=not wide and len(silent) < len(pairs), note="; ".join(problems))

    def heal(self, cluster: SlowableCluster, receipt: Receipt) -> Receipt:
        """Lift the limit."""
        return latency.end(cluster, receipt)

    def _packet_ms(self) -> float:
        return (SIZE + HEADERS) * 8 / self.kbit_s

    def _spreads(self, measured: Mapping[Any, PacketTimes]) -> dict[str, dict[str, float]]:
        return {network_partition.pair_name(pair): self._spread(took) for pair, took in measured.items()}

    def _spread(self, took: PacketTimes) -> dict[str, float]:
        """How much later the last datagram arrived than the first, and how much later it should at the limit."""
        arrived = [(number, ms) for number, ms in enumerate(took) if ms is not None]
        if not arrived:
            return {"sent": len(took), "arrived": 0, "spread_ms": 0.0, "expected_ms": 0.0}
        (first, began_ms), (last, ended_ms) = arrived[0], arrived[-1]
        expected_ms = round((last - first) * self._packet_ms(), 1)
        return {
            "sent": len(took),
            "arrived": len(arrived),
            "spread_ms": round(ended_ms - began_ms, 1),
            "expected_ms": expected_ms,
        }
