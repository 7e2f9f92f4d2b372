"""Connect support: the workers of Kafka Connect change their support of exactly-once sources, one after another (KIP-618)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from fencepost.harness.api import Killable, Receipt, Scalable, Wait
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support.cluster_types import ScalableCluster
from fencepost.nemesis.support.no_effect import catch_no_effect
from fencepost.nemesis.support.worker_rolls import WorkerRoll

LEVELS = ("disabled", "preparing", "enabled")


@dataclass(frozen=True, kw_only=True)
class ConnectSupport:
    """Restarts all workers one after another with another `exactly.once.source.support`, once for each level of `levels`.

    KIP-618 demands two rolling upgrades: from disabled to preparing, and from preparing to enabled. Healing gives the workers
    back the levels that they had, one after another, too. While any worker is not at `enabled` duplicates are permitted, so the
    test says in its contract: `connect = "disabled"`.

    Evidence: the level of each worker before, during and after, its process id, and how long it was away each time (s).
    """

    needs: ClassVar[tuple[type, ...]] = (Scalable, Killable)

    levels: tuple[str, ...] = ("preparing", "enabled")  # one round of restarts for each
    within_s: Wait = 30.0  # how long a worker may take to end, to start, and to join the group again

    def __post_init__(self) -> None:
        demand_bounds(self)
        if not self.levels:
            raise ValueError(f"levels: at least one of {', '.join(LEVELS)}")
        for level in self.levels:
            if level not in LEVELS:
                raise ValueError(f'levels: "{level}" is none of {", ".join(LEVELS)}')

    def demanded_contract(self) -> Mapping[str, str]:
        """See `harness.api.DemandsContract`. The first level of workers is unknown: any below `enabled` means `disabled`."""
        return {} if set(self.levels) == {"enabled"} else {"connect": "disabled"}

    @property
    def _roll(self) -> WorkerRoll:
        return WorkerRoll("support", "level", self.within_s)

    @catch_no_effect
    def inject(self, cluster: ScalableCluster, rng: Random) -> Receipt:
        """Roll through the levels."""
        return self._roll.inject(cluster, self.levels, rng)

    def heal(self, cluster: ScalableCluster, receipt: Receipt) -> Receipt:
        """The levels of before, where they are others now."""
        return self._roll.heal(cluster, receipt)
