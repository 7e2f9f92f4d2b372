"""Latency: packets of links are delayed, as between continents or through a switch that is full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import median
from typing import Annotated, Any, ClassVar

from fencepost.harness.api import Between, PacketTimes, Pair, Receipt, Slowable
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support import link_changes, network_partition, targets
from fencepost.nemesis.support.attempts import undo_on_error
from fencepost.nemesis.support.cluster_types import SlowableCluster
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.network_partition import LinkScope
from fencepost.nemesis.support.no_effect import catch_no_effect

PACKETS = 5
AGAIN = 2  # how often links are measured again that seem to be as slow already, or still
MOST_MS = 30_000


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Delays every packet on a node's links, in both directions; a request and its answer take twice the delay longer.

    Packets keep their order. Evidence: what datagrams took over every link before, during and after; effective when they took
    longer than before.
    """

    needs: ClassVar[tuple[type, ...]] = (Slowable,)

    target: str = "random"  # the role whose links are delayed
    links: LinkScope = "all"  # its links to servers, clients, or all
    delay_ms: Annotated[float, Between(5, MOST_MS)] = 200.0  # of each packet, in each direction
    jitter_ms: Annotated[float, Between(0, MOST_MS)] = 20.0  # so much more or less, at random

    def __post_init__(self) -> None:
        targets.check(self.target, targets.WITH_LINKS)
        demand_bounds(self)
        if self.jitter_ms > self.delay_ms / 2:
            raise ValueError(f"jitter_ms = {self.jitter_ms:g}: must be between 0 and half of delay_ms")

    @catch_no_effect
    def inject(self, cluster: SlowableCluster, rng: Random) -> Receipt:
        """Delay the packets of the node that has the role now."""
        receipt, pairs = network_partition.target_links(cluster, self.target, self.links, rng)
        before = self._quickest(cluster, pairs)
        slowed = cluster.slow(pairs, delay_ms=self.delay_ms, jitter_ms=self.jitter_ms)
        number = link_changes.begin(cluster, "slow", slowed, pairs)
        with undo_on_error(lambda: link_changes.end(cluster, "slow", number, cluster.unslow)):
            during = self._measured(cluster, pairs)
        more = _later(before, during)
        quick = [link for link, ms in more.items() if ms < self._least_ms()]
        silent = [link for link in during if link not in more]
        problems = [f"no slower than before: {', '.join(quick)}"] if quick else []
        problems += [f"nothing arrived, so the delay is not known: {', '.join(silent)}"] if silent else []
        slow = [link for link in more if link not in quick]
        evidence = {"number": number, "before": before, "during": during}
        evidence |= network_partition.hit_by_links(receipt.targets, slow)
        return replace(receipt, evidence=evidence, effective=bool(slow), note="; ".join(problems))

    def heal(self, cluster: SlowableCluster, receipt: Receipt) -> Receipt:
        """Delay nothing more, and look whether packets are as quick as before."""
        counted = link_changes.end(cluster, "slow", receipt.evidence.get("number"), cluster.unslow)
        if link_changes.is_over(receipt, counted):
            return receipt
        before = receipt.evidence["before"]
        after = self._quickest(cluster, link_changes.links_of(receipt), before)
        slow = {link: ms for link, ms in _later(before, after).items() if ms >= self._least_ms()}
        left = link_changes.still_hurt(cluster, slow)
        problems = [f"{link} still takes {slow[link]:g} ms more than before" for link in left]
        return healed(receipt, {"counted": link_changes.as_json(counted, "dropped"), "after": after}, problems, left)

    def _least_ms(self) -> float:
        """The least added latency (ms) that shows the delay."""
        return (self.delay_ms - self.jitter_ms) / 2

    def _quickest(
        self, cluster: SlowableCluster, pairs: Sequence[Pair], before: Mapping[str, float | None] | None = None
    ) -> dict[str, float | None]:
        """Measure links that are not delayed, again where they seem slow: a pause of the machine delays datagrams, too."""
        quickest = self._measured(cluster, pairs)
        for _ in range(AGAIN):
            if not any(ms >= self._least_ms() for ms in _later(before or dict.fromkeys(quickest, 0.0), quickest).values()):
                break
            for link, ms in self._measured(cluster, pairs).items():
                known = [took for took in (ms, quickest[link]) if took is not None]
                quickest[link] = min(known, default=None)
        return quickest

    def _measured(self, cluster: SlowableCluster, pairs: Sequence[Pair]) -> dict[str, float | None]:
        """Measure links, again where nothing arrives: the machine may have paused for all the time."""
        within_s = (self.delay_ms + self.jitter_ms) / 1000 + 1
        measured = typical(cluster.measure(pairs, PACKETS, within_s=within_s))
        if None in measured.values():
            again = typical(cluster.measure(pairs, PACKETS, within_s=within_s))
            measured = {link: again[link] if ms is None else ms for link, ms in measured.items()}
        return measured


def _later(before: Mapping[str, float | None], now: Mapping[str, float | None]) -> dict[str, float]:
    """The latency added to each link, in milliseconds; without links over which no datagram arrived."""
    known = {link: took - was for link, took in now.items() if took is not None and (was := before.get(link)) is not None}
    return {link: round(ms, 1) for link, ms in known.items()}


def typical(measured: dict[Any, PacketTimes]) -> dict[str, float | None]:
    """The median of the milliseconds that datagrams took over each link, as plain JSON; None where none arrived."""
    arrived = {network_partition.pair_name(pair): [ms for ms in took if ms is not None] for pair, took in measured.items()}
    return {link: round(median(took), 1) if took else None for link, took in arrived.items()}
