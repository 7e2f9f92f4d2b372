"""A fault: one broker that stops for a while and goes on as if nothing had been."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from fencepost.harness.api import Pausable, Receipt
from fencepost.nemesis.support.attempts import attempt_each
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.no_effect import catch_no_effect
from fencepost.nemesis.support.strike import strike
from fencepost.nemesis.support.targets import ONE_BROKER, check, find

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

    @catch_no_effect
    def inject(self, cluster: Any, rng: Random) -> Receipt:
        """Hurt, look whether it took hold, and say so. Every choice is drawn from `rng`."""
        nodes = find(self.target, cluster, rng)  # raises NoEffect when nobody plays the role
        struck = strike(
            nodes,
            cluster.pause,
            look=cluster.process_state,
            is_healthy=_runs,  # what was dead or frozen before is another fault's
            is_hit=lambda _, state: state == FROZEN,
            undo=cluster.resume,  # what is hurt when this breaks off is healed here
            within_s=self.seen_within_s,
        )
        problems = [f"{node} was dead or frozen already" for node in struck.unhealthy]
        problems += [f'{node} did not freeze (state "{struck.during[node]}")' for node in struck.missed]
        return struck.receipt(self.target, problems)

    def heal(self, cluster: Any, receipt: Receipt) -> Receipt:
        """Undo what the receipt says, and no more."""
        ours = [node for node, state in receipt.evidence.get("before", {}).items() if _runs(state)]
        problems = attempt_each(cluster.resume, [node for node in ours if cluster.process_state(node) == FROZEN])
        after = {node: cluster.process_state(node) for node in ours}
        return healed(receipt, {"after": after}, problems, left=[node for node in ours if after[node] == FROZEN])


def _runs(state: str) -> bool:
    return state not in ("", FROZEN)
