"""Skew: a broker's wall clock jumps, as after a lost time server or a restored virtual machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar, Literal, get_args

from harness.api import HarnessError, Receipt, Skewable
from nemesis import targets
from nemesis.capabilities import SkewableCluster
from nemesis.steps import attempt, missed

Direction = Literal["ahead", "behind", "random"]
EXACT_S = 1.0  # a clock that is read over the network is known to about this


@dataclass(frozen=True, kw_only=True)
class Skew:
    """Sets a broker's wall clock ahead or behind, at once; healing sets it right. Time that only goes forward (timeouts) goes on.

    Evidence: how far the clock is ahead, before, during and after, by the date that the broker itself gives a line of its log.
    """

    needs: ClassVar[tuple[type, ...]] = (Skewable,)

    target: str = "random"  # the role whose clock jumps
    by_s: float = 60.0  # how far
    direction: Direction = "random"  # ahead, behind, or one of them at random each time

    def __post_init__(self) -> None:
        targets.check(self.target, targets.BROKERS)
        if not 3 <= self.by_s <= 10 * 365 * 86400:
            raise ValueError(f"by_s = {self.by_s:g}: must be between 3 and ten years")
        if self.direction not in get_args(Direction):
            raise ValueError(f'direction = "{self.direction}": must be one of {", ".join(get_args(Direction))}')

    def inject(self, cluster: SkewableCluster, rng: Random) -> Receipt:
        """Set the clock of the broker that plays the role now."""
        direction = rng.choice(["ahead", "behind"]) if self.direction == "random" else self.direction
        by_s = self.by_s if direction == "ahead" else -self.by_s
        try:
            nodes = targets.find(self.target, cluster, rng)
        except HarnessError as error:
            return missed(self.target, error)
        receipt = Receipt(role=self.target, targets=nodes)
        before = _ahead(cluster, nodes)
        problems = attempt(lambda node: cluster.skew(node, by_s), nodes)
        try:
            during = _ahead(cluster, nodes)
        except (HarnessError, OSError) as error:  # the targets, so that healing sets them right
            return replace(receipt, effective=False, note="; ".join([*problems, f"nobody could look: {error}"]))
        silent = [node for node in nodes if during[node] is None]
        right = [node for node in nodes if (seen := during[node]) is not None and abs(seen - by_s) > EXACT_S]
        problems += [f"{node} does not tell its time" for node in silent]
        problems += [f"{node} is {during[node]:g} s ahead, not {by_s:g}" for node in right]
        evidence = {"before": before, "during": during, "by_s": by_s}
        return replace(receipt, evidence=evidence, effective=not silent and not right, note="; ".join(problems))

    def heal(self, cluster: SkewableCluster, receipt: Receipt) -> Receipt:
        """Set it right, and look."""
        nodes = receipt.targets or cluster.brokers  # no targets: inject broke off, and any clock may be wrong
        problems = attempt(lambda node: cluster.skew(node, 0.0), nodes)
        after = _ahead(cluster, nodes)
        problems += [
            f"{node} is still {seen:g} s ahead" for node, seen in after.items() if seen is not None and abs(seen) > EXACT_S
        ]
        return replace(receipt, healing={"after": after}, note="; ".join(filter(None, [receipt.note, *problems])))


def _ahead(cluster: SkewableCluster, nodes: Iterable[str]) -> dict[str, float | None]:
    return {node: cluster.clock_ahead(node) for node in nodes}
