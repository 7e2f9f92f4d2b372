"""Slow disk: writes and syncs of a broker's data take longer, as on a disk that fails or is shared."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from random import Random
from typing import Annotated, Any, ClassVar

from fencepost.harness.api import Between, HeldBack, Receipt, Throttleable, Wait
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support import targets
from fencepost.nemesis.support.attempts import undo_on_error
from fencepost.nemesis.support.cluster_types import ThrottleableCluster
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.no_effect import catch_no_effect
from fencepost.nemesis.support.strike import hit_among
from fencepost.nemesis.support.waiting import poll_until

Waits = dict[str, float | None]
Held = dict[str, HeldBack]

LOOK_S = 0.5  # long enough for a broker that does nothing else to write its metadata
LEAST_MS, MOST_MS = 20, 10_000


@dataclass(frozen=True, kw_only=True)
class SlowDisk:
    """Holds back each write and each sync of a broker's data: to a rate, if one is given, and by a delay.

    Threads of the broker that write wait as long, above all those that append records. Reads are not slowed. Evidence:
    operations held back, their bytes and the longest delay; and how long its threads were seen waiting in one write or sync,
    before, during and after.
    """

    needs: ClassVar[tuple[type, ...]] = (Throttleable,)

    target: str = "random"  # the role whose disk is slow
    delay_ms: Annotated[float, Between(LEAST_MS, MOST_MS)] = 100.0  # of each write and each sync
    mb_s: Annotated[float, Between(0, 100_000)] = 0.0  # megabytes that are written in a second; 0: no limit
    notice_s: Wait = 4.0  # how long the broker has to write something before the fault counts as without effect

    def __post_init__(self) -> None:
        targets.check(self.target, targets.BROKERS)
        demand_bounds(self)

    @catch_no_effect
    def inject(self, cluster: ThrottleableCluster, rng: Random) -> Receipt:
        """Make the disk of the broker that has the role now slow, and look until it has waited."""
        nodes = targets.find(self.target, cluster, rng)
        before = cluster.disk_waits(nodes, LOOK_S)
        number = cluster.throttle(nodes, delay_ms=self.delay_ms, mb_s=self.mb_s)
        with undo_on_error(lambda: cluster.unthrottle(number)):
            during, held = poll_until(
                lambda: self._look(cluster, number, nodes), lambda seen: not self._quick(*seen), self.notice_s
            )
        quick = self._quick(during, held)
        slow = [node for node in nodes if node not in quick]
        evidence = {"number": number, "before": before, "during": during, "held": _plain(held), **hit_among(nodes, slow)}
        if not slow:
            cluster.unthrottle(number)
        return Receipt(role=self.target, targets=nodes, evidence=evidence, effective=bool(slow), note="; ".join(quick.values()))

    def _look(self, cluster: ThrottleableCluster, number: int, nodes: tuple[str, ...]) -> tuple[Waits, Held]:
        """The longest wait seen on each node, and the operations held back so far."""
        return cluster.disk_waits(nodes, LOOK_S + self.delay_ms / 1000), cluster.held_back(number)

    def _quick(self, waits: Waits, held: Held) -> dict[str, str]:
        """The nodes whose disk does not seem slow, each with the reason in a sentence."""
        idle = {node: f"nothing of {node} was held back" for node, throttled in held.items() if not throttled.operations}
        seen = {node: waits[node] or 0.0 for node, throttled in held.items() if throttled.operations}
        return idle | {node: f"{node} waited no longer than {ms:g} ms" for node, ms in seen.items() if ms < self.delay_ms / 2}

    def heal(self, cluster: ThrottleableCluster, receipt: Receipt) -> Receipt:
        """Hold nothing back any more, and look again. Does nothing when it has ended already."""
        number = receipt.evidence.get("number")
        held = {} if number is None else cluster.unthrottle(number)
        if not held:
            return receipt
        return healed(receipt, {"held": _plain(held), "after": cluster.disk_waits(list(held), LOOK_S)}, [])


def _plain(held: Held) -> dict[str, Any]:
    return {node: asdict(throttled) for node, throttled in held.items()}
