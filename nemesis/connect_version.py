"""Connect version: the workers of Kafka Connect change to other releases, one after another, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from fencepost.harness.api import ClusterError, Killable, Receipt, Scalable, Wait
from fencepost.harness.api.bounds import demand_bounds
from fencepost.harness.api.connect import EXACTLY_ONCE, release
from fencepost.nemesis.support.cluster_types import ScalableCluster
from fencepost.nemesis.support.no_effect import catch_no_effect, no_target_on_error
from fencepost.nemesis.support.worker_rolls import WorkerRoll


@dataclass(frozen=True, kw_only=True)
class ConnectVersion:
    """Restarts all workers one after another as another release of Kafka Connect, once for each version of `versions`.

    The workload names the releases in its `upgrades`. Healing gives the workers back the releases that they had, one after
    another, too: so a fault is an upgrade and a downgrade. Without `versions` it is a rolling restart. Releases before 3.3 know
    no exactly-once sources (KIP-618 calls it a hard downgrade): duplicates are permitted then, so the test says in its contract:
    `connect = "disabled"`.

    Evidence: the version of each worker before, during and after, its process id, and how long it was away each time (s).
    """

    needs: ClassVar[tuple[type, ...]] = (Scalable, Killable)

    versions: tuple[str, ...] = ()  # one round of restarts for each; none: one round with the version that each worker has
    within_s: Wait = 30.0  # how long a worker may take to end, to start, and to join the group again

    def __post_init__(self) -> None:
        demand_bounds(self)
        if wrong := [version for version in self.versions if not re.fullmatch(r"\d+\.\d+\.\d+", version)]:
            raise ValueError(f'versions: "{wrong[0]}" is no version of Kafka Connect; one is 4.3.0')

    def demanded_contract(self) -> Mapping[str, str]:
        """See `harness.api.DemandsContract`."""
        return {"connect": "disabled"} if any(release(version) < EXACTLY_ONCE for version in self.versions) else {}

    @property
    def _roll(self) -> WorkerRoll:
        return WorkerRoll("version", "version", self.within_s)

    @catch_no_effect
    def inject(self, cluster: ScalableCluster, rng: Random) -> Receipt:
        """Roll through the versions."""
        with no_target_on_error("all workers"):
            self._demand_known(cluster)
        return self._roll.inject(cluster, self.versions, rng)

    def heal(self, cluster: ScalableCluster, receipt: Receipt) -> Receipt:
        """The versions of before, where they are others now."""
        return self._roll.heal(cluster, receipt)

    def _demand_known(self, cluster: ScalableCluster) -> None:
        """Raise ClusterError for a version that a worker cannot run here."""
        for node, runs in cluster.instances().items():
            known = cluster.setting(node, "versions").split()
            unknown = [version for version in self.versions if runs and known and version not in known]
            if unknown:
                remedy = f'name it in the workload\'s `upgrades = ["{unknown[0]}"]`'
                raise ClusterError(f"{node} cannot run Kafka Connect {unknown[0]}: here are {', '.join(known)}; {remedy}")
