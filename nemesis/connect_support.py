"""Connect support: the workers of Kafka Connect change their support of exactly-once sources, one after another (KIP-618)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from fencepost.harness.api import ClusterError, Killable, Receipt, Scalable, Wait, clock
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support.attempts import attempt_each, undo_on_error
from fencepost.nemesis.support.cluster_types import ScalableCluster
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.no_effect import catch_no_effect, no_target_on_error
from fencepost.nemesis.support.processes import pids
from fencepost.nemesis.support.waiting import poll_until

LEVELS = ("disabled", "preparing", "enabled")
SETTING = "support"


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
    within_s: Wait = 30.0  # how long a worker may take to end, and to start

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

    @catch_no_effect
    def inject(self, cluster: ScalableCluster, rng: Random) -> Receipt:
        """Roll through the levels, the workers in a random order."""
        role = "all workers, " + ", then ".join(self.levels)
        with no_target_on_error(role):
            before = _levels(cluster)
        away: dict[str, list[float]] = {node: [] for node in before}
        with undo_on_error(lambda: self._give_back(cluster, before)):
            problems = [
                text
                for level in self.levels
                for node in rng.sample(sorted(before), len(before))
                for text in self._restart(cluster, node, level, away)
            ]
        during = _levels(cluster)
        return Receipt(
            role=role,
            targets=tuple(before),
            evidence={"before": before, "during": {"levels": during, "pids": pids(cluster, before)}, "away_s": away},
            effective=any(away.values()),
            note="; ".join(problems),
        )

    def heal(self, cluster: ScalableCluster, receipt: Receipt) -> Receipt:
        """The levels of before, where they are others now."""
        before: dict[str, str] = dict(receipt.evidence.get("before", {}))
        problems = self._give_back(cluster, before)
        after = _levels(cluster) if before else {}
        return healed(receipt, {"after": after}, problems, [node for node in before if after[node] != before[node]])

    def _give_back(self, cluster: ScalableCluster, levels: dict[str, str]) -> list[str]:
        changed = [node for node, level in levels.items() if cluster.setting(node, SETTING) != level]
        away: dict[str, list[float]] = {node: [] for node in changed}
        return [text for node in changed for text in self._restart(cluster, node, levels[node], away)]

    def _restart(self, cluster: ScalableCluster, node: str, level: str, away: dict[str, list[float]]) -> Sequence[str]:
        """End one worker in order, and start it at a level; what went wrong."""
        began = clock.monotonic()
        problems = attempt_each(cluster.retire, [node])
        if poll_until(lambda: cluster.pid(node), lambda pid: pid is None, self.within_s) is not None:
            problems.append(f"{node} did not end within {self.within_s:g} s, and keeps its level")
            return [*problems, *attempt_each(cluster.recall, [node])]
        cluster.use_setting(node, SETTING, level)
        problems += attempt_each(cluster.recall, [node])
        if poll_until(lambda: cluster.pid(node), lambda pid: pid is not None, self.within_s) is None:
            problems.append(f"{node} did not start within {self.within_s:g} s")
        away[node].append(round(clock.monotonic() - began, 3))
        return problems


def _levels(cluster: Any) -> dict[str, str]:
    """The level of each worker that runs. Raises ClusterError when there are no workers."""
    levels = {node: cluster.setting(node, SETTING) for node, runs in cluster.instances().items() if runs}
    if not any(levels.values()):
        raise ClusterError("no workers of Kafka Connect run here; see the workload `connect`")
    return levels
