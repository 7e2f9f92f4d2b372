"""A fault of one's own: a broker that stutters, as under a bad disk or a garbage collector in distress."""

import time
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from fencepost.harness.api import Pausable, Receipt
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.no_effect import catch_no_effect
from fencepost.nemesis.support.targets import ONE_BROKER, check, find


@dataclass(frozen=True, kw_only=True)
class Stutter:
    """Freezes one broker for a moment again and again; the last time until it is healed."""

    needs: ClassVar[tuple[type, ...]] = (Pausable,)

    target: str = "leader"  # the role of the broker that stutters
    times: int = 3  # how often it freezes
    frozen_s: float = 0.4  # how long each time
    awake_s: float = 0.2  # how long in between

    def __post_init__(self) -> None:
        check(self.target, ONE_BROKER)
        if self.times < 1:
            raise ValueError(f"times = {self.times}: it must freeze at least once")

    @catch_no_effect
    def inject(self, cluster: Any, rng: Random) -> Receipt:
        (node,) = find(self.target, cluster, rng)
        before, during = cluster.process_state(node), []
        for turn in range(self.times):
            if turn > 0:
                cluster.resume(node)
                time.sleep(self.awake_s)
            cluster.pause(node)
            time.sleep(self.frozen_s)
            during.append(cluster.process_state(node))
        took_hold = before not in ("", "T") and during[-1] == "T"
        return Receipt(
            role=self.target,
            targets=(node,),
            evidence={"before": before, "during": during},
            effective=took_hold,
            note="" if took_hold else f'{node}: state "{before}" before, "{during[-1]}" in the end',
        )

    def heal(self, cluster: Any, receipt: Receipt) -> Receipt:
        nodes = receipt.targets or cluster.brokers  # no targets: inject broke off, and any broker may be frozen
        for node in nodes:
            if cluster.process_state(node) == "T":
                cluster.resume(node)
        after = {node: cluster.process_state(node) for node in nodes}
        return healed(receipt, {"after": after}, left=[node for node in nodes if after[node] == "T"])
