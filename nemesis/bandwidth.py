"""Bandwidth: the links of a node carry a limited rate, as when a backup or a rebalance fills them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Annotated, Any, ClassVar

from fencepost.harness.api import Between, PacketTimes, Pair, Receipt, Slowable
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support import link_changes, network_partition, targets
from fencepost.nemesis.support.attempts import undo_on_error
from fencepost.nemesis.support.cluster_types import SlowableCluster
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.network_partition import LinkScope
from fencepost.nemesis.support.no_effect import catch_no_effect

SIZE, HEADERS = 1400, 28  # bytes of a datagram that measures
MEASURE_S = 0.3  # how long the datagrams of one measurement take at the limit
FEWEST, MOST = 4, 300
AGAIN = 2  # how often links are measured again that seem to be as narrow already, or still
LIMITED, LESS = 0.7, 1.3  # of the spread at the limit; times the spread before


@dataclass(frozen=True, kw_only=True)
class Bandwidth:
    """Limits the bandwidth of a node's links, in each direction. Faster packets wait; beyond half a second they are lost.

    Evidence: datagrams sent at once over every link, before, during and after; how much later the last arrived than
    the first.
    """

    needs: ClassVar[tuple[type, ...]] = (Slowable,)

    target: str = "random"  # the role whose links are limited
    links: LinkScope = "all"  # its links to servers, clients, or all
    kbit_s: Annotated[float, Between(64, 50_000)] = 512.0  # of each link, in each direction

    def __post_init__(self) -> None:
        targets.check(self.target, targets.WITH_LINKS)
        demand_bounds(self)

    @catch_no_effect
    def inject(self, cluster: SlowableCluster, rng: Random) -> Receipt:
        """Limit the links of the node that has the role now."""
        receipt, pairs = network_partition.target_links(cluster, self.target, self.links, rng)
        before = self._widest(cluster, pairs, lambda spread, _: LESS * _width(spread) > LIMITED)
        number = link_changes.begin(cluster, "slow", cluster.slow(pairs, kbit_s=self.kbit_s), pairs)
        with undo_on_error(lambda: link_changes.end(cluster, "slow", number, cluster.unslow)):
            during = self._limited(cluster, pairs, before)
        silent = [link for link, spread in during.items() if not (spread["expected_ms"] and before[link]["expected_ms"])]
        wide = [link for link, spread in during.items() if link not in silent and not _narrower(spread, before[link])]
        problems = [f"as wide as before: {', '.join(wide)}"] if wide else []
        problems += [f"too little arrived to tell the width: {', '.join(silent)}"] if silent else []
        narrow = [link for link in during if link not in (*silent, *wide)]
        evidence = {"number": number, "before": before, "during": during}
        evidence |= network_partition.hit_by_links(receipt.targets, narrow)
        return replace(receipt, evidence=evidence, effective=bool(narrow), note="; ".join(problems))

    def heal(self, cluster: SlowableCluster, receipt: Receipt) -> Receipt:
        """Lift the limit, and look whether the links are as wide as before."""
        counted = link_changes.end(cluster, "slow", receipt.evidence.get("number"), cluster.unslow)
        if link_changes.is_over(receipt, counted):
            return receipt
        before = receipt.evidence["before"]
        after = self._widest(cluster, link_changes.links_of(receipt), lambda spread, link: _narrower(spread, before[link]))
        narrow = {link: spread for link, spread in after.items() if spread["expected_ms"] and _narrower(spread, before[link])}
        left = link_changes.still_hurt(cluster, narrow)
        problems = [f"{link} is still narrower than before" for link in left]
        return healed(receipt, {"counted": link_changes.as_json(counted, "dropped"), "after": after}, problems, left)

    def _widest(
        self, cluster: SlowableCluster, pairs: Sequence[Pair], narrow: Callable[[Mapping[str, float], str], bool]
    ) -> dict[str, dict[str, float]]:
        """Measure links that are not limited, again where they seem narrow: a pause of the machine spreads packets, too."""
        widest = self._measured(cluster, pairs)
        for _ in range(AGAIN):
            if not any(spread["expected_ms"] and narrow(spread, link) for link, spread in widest.items()):
                break
            for link, spread in self._measured(cluster, pairs).items():
                if spread["expected_ms"] and (not widest[link]["expected_ms"] or _width(spread) < _width(widest[link])):
                    widest[link] = spread
        return widest

    def _limited(
        self, cluster: SlowableCluster, pairs: Sequence[Pair], before: Mapping[str, Mapping[str, float]]
    ) -> dict[str, dict[str, float]]:
        """Measure links that are limited. Where one seems as wide as before, each link's middle one of three measurements counts.

        A pause between the first two datagrams, of who sends them or lets them pass, brings them closer together.
        """
        series = [self._measured(cluster, pairs)]
        if not all(_narrower(spread, before[link]) for link, spread in series[0].items()):
            series += [self._measured(cluster, pairs) for _ in range(AGAIN)]
        return {link: sorted((spreads[link] for spreads in series), key=_width)[len(series) // 2] for link in series[0]}

    def _measured(self, cluster: SlowableCluster, pairs: Sequence[Pair]) -> dict[str, dict[str, float]]:
        """Measure links, again where too little arrives: the machine may have paused for all the time."""
        packets = min(MOST, max(FEWEST, round(MEASURE_S * 1000 / self._packet_ms())))
        measured = self._spreads(cluster.measure(pairs, packets, SIZE, within_s=2.0))
        if not all(spread["expected_ms"] for spread in measured.values()):
            again = self._spreads(cluster.measure(pairs, packets, SIZE, within_s=2.0))
            measured = {link: spread if spread["expected_ms"] else again[link] for link, spread in measured.items()}
        return measured

    def _packet_ms(self) -> float:
        return (SIZE + HEADERS) * 8 / self.kbit_s

    def _spreads(self, measured: Mapping[Any, PacketTimes]) -> dict[str, dict[str, float]]:
        return {network_partition.pair_name(pair): self._spread(took) for pair, took in measured.items()}

    def _spread(self, took: PacketTimes) -> dict[str, float]:
        """The time between the first and the last datagram to arrive (ms), and that which the limit would make of it."""
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


def _narrower(now: Mapping[str, float], before: Mapping[str, float]) -> bool:
    """Return whether a link carries no more than the limit, and less than before."""
    return _width(now) >= LIMITED and _width(now) >= LESS * _width(before)


def _width(spread: Mapping[str, float]) -> float:
    """How long the datagrams took to arrive, of what they take at the limit: 0 of a wide link, 1 of one at the limit."""
    return spread["spread_ms"] / spread["expected_ms"] if spread["expected_ms"] else 0.0
