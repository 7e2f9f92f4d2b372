"""A fault: one broker that stops for a while and goes on as if nothing had been."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar

from fencepost.harness.api import Pausable, Receipt
from fencepost.nemesis.support.attempts import attempt_each, undo_on_error
from fencepost.nemesis.support.targets import ONE_BROKER, check, find
from fencepost.nemesis.support.waiting import poll_until

FROZEN = "T"


@dataclass(frozen=True, kw_only=True)
class Hiccup:
    """Freezes one broker; healing thaws it, if this very fault froze it."""

    needs: ClassVar[tuple[type, ...]] = (Pausable,)  # what the cluster must be able to do

    target: str = "random"  # the role that stops; a field is an option, and its comment is its help
    seen_within_s: float = 2.0  # how long to look whether it took hold

    def __post_init__(self) -> None:
        check(self.target, ONE_BROKER)
        if self.seen_within_s <= 0:
            raise ValueError(f"seen_within_s = {self.seen_within_s}: must be above 0")

    def inject(self, cluster: Any, rng: Random) -> Receipt:
        """Hurt, look whether it took hold, and say so. Every choice is drawn from `rng`."""
        (node,) = find(self.target, cluster, rng)  # raises ClusterError when nobody plays the role
        before = cluster.process_state(node)
        if before in ("", FROZEN):
            return Receipt(role=self.target, targets=(node,), effective=False, note=f"{node} was dead or frozen already")
        with undo_on_error(lambda: attempt_each(cluster.resume, [node])):  # what is hurt when this breaks off is healed here
            cluster.pause(node)
            during = poll_until(lambda: cluster.process_state(node), lambda state: state == FROZEN, self.seen_within_s)
        return Receipt(
            role=self.target,
            targets=(node,),
            evidence={"before": before, "during": during},
            effective=during == FROZEN,
            note="" if during == FROZEN else f'{node} did not freeze (state "{during}")',
        )

    def heal(self, cluster: Any, receipt: Receipt) -> Receipt:
        """Undo what the receipt says, and no more: what was frozen before we came is another fault's."""
        ours = [node for node in receipt.targets if receipt.evidence]
        problems = attempt_each(cluster.resume, [node for node in ours if cluster.process_state(node) == FROZEN])
        after = {node: cluster.process_state(node) for node in ours}
        return replace(receipt, healing={"after": after}, note="; ".join(filter(None, [receipt.note, *problems])))
