"""All workers of Kafka Connect restarted one after another, each with another value of a setting; and back again.

As in an operator's rolling upgrade, the next one is restarted when the one before has joined their group again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from fencepost.harness.api import ClusterError, Receipt, clock
from fencepost.harness.api.connect import RunningConnect
from fencepost.nemesis.support.attempts import attempt_each, undo_on_error
from fencepost.nemesis.support.cluster_types import ScalableCluster
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.no_effect import no_target_on_error
from fencepost.nemesis.support.processes import pids
from fencepost.nemesis.support.strike import hit_among
from fencepost.nemesis.support.waiting import poll_until

HEALED_S = 8.0  # how long healing waits for a worker to join: the test may be at its end, and wait for healing alone


@dataclass(frozen=True)
class WorkerRoll:
    """Restarts the workers with values of one setting.

    setting: its name at the cluster (`Scalable.setting`).
    word: what a value is called in evidence and notes, like `level`.
    within_s: how long a worker may take to end, to start, and to join the group.
    """

    setting: str
    word: str
    within_s: float

    def inject(self, cluster: ScalableCluster, values: Sequence[str], rng: Random) -> Receipt:
        """One round of restarts for each value, the workers in a random order; without values one that changes nothing.

        Raises NoEffect when no worker runs.
        """
        role = "all workers" + "".join(f", {'then ' * bool(number)}{value}" for number, value in enumerate(values))
        with no_target_on_error(role):
            before = self._values(cluster)
        away: dict[str, list[float]] = {node: [] for node in before}
        with undo_on_error(lambda: self._give_back(cluster, before)):
            problems = [
                text
                for value in values or [""]
                for node in rng.sample(sorted(before), len(before))
                for text in self._restart(cluster, node, value or before[node], away, self.within_s)
            ]
        during = {f"{self.word}s": self._values(cluster), "pids": pids(cluster, before)}
        return Receipt(
            role=role,
            targets=tuple(before),
            evidence={
                "before": before,
                "during": during,
                "away_s": away,
                **hit_among(list(before), [n for n in away if away[n]]),
            },
            effective=any(away.values()),
            note="; ".join(problems),
        )

    def heal(self, cluster: ScalableCluster, receipt: Receipt) -> Receipt:
        """The values of before, where they are others now."""
        before: dict[str, str] = dict(receipt.evidence.get("before", {}))
        problems = self._give_back(cluster, before)
        after = self._values(cluster) if before else {}
        return healed(receipt, {"after": after}, problems, [node for node in before if after[node] != before[node]])

    def _give_back(self, cluster: ScalableCluster, values: Mapping[str, str]) -> list[str]:
        changed = [node for node, value in values.items() if cluster.setting(node, self.setting) != value]
        away: dict[str, list[float]] = {node: [] for node in changed}
        joins_s = min(self.within_s, HEALED_S)
        return [text for node in changed for text in self._restart(cluster, node, values[node], away, joins_s)]

    def _restart(
        self, cluster: ScalableCluster, node: str, value: str, away: Mapping[str, list[float]], joins_s: float
    ) -> Sequence[str]:
        """End one worker in order, and start it with a value; what went wrong. joins_s: how long it may take to join."""
        began = clock.monotonic()
        problems = attempt_each(cluster.retire, [node])
        if poll_until(lambda: cluster.pid(node), lambda pid: pid is None, self.within_s) is not None:
            problems.append(f"{node} did not end within {self.within_s:g} s, and keeps its {self.word}")
            return [*problems, *attempt_each(cluster.recall, [node])]
        cluster.use_setting(node, self.setting, value)
        problems += attempt_each(cluster.recall, [node])
        if poll_until(lambda: cluster.pid(node), lambda pid: pid is not None, self.within_s) is None:
            problems.append(f"{node} did not start within {self.within_s:g} s")
        elif not poll_until(lambda: _joined(cluster, node), bool, joins_s):
            problems.append(f"{node} had not joined the group of the workers after {joins_s:g} s")
        away[node].append(round(clock.monotonic() - began, 3))
        return problems

    def _values(self, cluster: ScalableCluster) -> dict[str, str]:
        """The value of each worker that runs. Raises ClusterError when there are no workers."""
        values = {node: cluster.setting(node, self.setting) for node, runs in cluster.instances().items() if runs}
        if not any(values.values()):
            raise ClusterError("no workers of Kafka Connect run here; see the workload `connect`")
        return values


def _joined(cluster: ScalableCluster, node: str) -> bool:
    """Return whether a worker is a member of its group; true where nobody can tell."""
    if not isinstance(cluster, RunningConnect):
        return True
    try:
        return node in cluster.connect_duties()
    except ClusterError:  # a rebalance is under way, or the coordinator moves
        return False
