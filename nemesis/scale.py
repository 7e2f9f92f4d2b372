"""Scale: fewer or more instances of a program, or members of a group, as an operator or an autoscaler would have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Annotated, ClassVar

from fencepost.harness.api import Between, ClusterError, Killable, Receipt, Scalable, Wait
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support.attempts import attempt_each, undo_on_error
from fencepost.nemesis.support.cluster_types import ScalableCluster
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.no_effect import catch_no_effect, no_target_on_error
from fencepost.nemesis.support.processes import pids
from fencepost.nemesis.support.strike import hit_among
from fencepost.nemesis.support.targets import awake_of
from fencepost.nemesis.support.waiting import poll_until


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Changes how many instances of an application, or members of a pipeline, run: some end in order, or some more are started.

    Those with the highest numbers end, as of a StatefulSet, so that the others get and lose the same partitions again and again.
    They get SIGTERM; members finish their transaction and leave the group. The workload's `spares` may be started. Instances that
    another fault has frozen are left alone while enough others run: they cannot end in order.

    Healing lets run again what this fault ended, and ends what it started. Evidence: process ids before, during and after (null:
    none), and how many instances were to run.
    """

    needs: ClassVar[tuple[type, ...]] = (Scalable, Killable)

    to: Annotated[int, Between(0, 200)] = 0  # so many run meanwhile; 0: drawn: not as many as now, of several at least one
    within_s: Wait = 30.0  # how long an instance may take to end or to start

    def __post_init__(self) -> None:
        demand_bounds(self)

    @catch_no_effect
    def inject(self, cluster: ScalableCluster, rng: Random) -> Receipt:
        """Retire or recall some."""
        role = f"{self.to or 'some'} instances"
        with no_target_on_error(role):
            states = cluster.instances()
            fewer, nodes = self._chosen(states, cluster, rng)
        before, running = _pids(cluster, nodes), sum(states.values())
        undo, change = (cluster.recall, cluster.retire) if fewer else (cluster.retire, cluster.recall)
        with undo_on_error(lambda: attempt_each(undo, nodes)):
            problems = attempt_each(change, nodes)
            during = poll_until(lambda: _pids(cluster, nodes), lambda pids: not _astray(pids, fewer), self.within_s)
        astray = _astray(during, fewer)
        problems += [f"{node} {'has not ended' if fewer else 'has not started'} within {self.within_s:g} s" for node in astray]
        return Receipt(
            role=role,
            targets=tuple(nodes),
            evidence={
                "before": before,
                "during": during,
                "instances": [running, sum(cluster.instances().values())],
                **hit_among(nodes, [node for node in nodes if node not in astray]),
            },
            effective=len(astray) < len(nodes),
            note="; ".join(problems),
        )

    def heal(self, cluster: ScalableCluster, receipt: Receipt) -> Receipt:
        """Start or end instances, so that as many run as before."""
        before, after = receipt.evidence.get("instances", (0, 0))
        if before == after:
            return receipt
        fewer = after < before
        problems = attempt_each(cluster.recall if fewer else cluster.retire, receipt.targets)
        seen = poll_until(lambda: _pids(cluster, receipt.targets), lambda pids: not _astray(pids, not fewer), self.within_s)
        return healed(receipt, {"after": seen}, problems, _astray(seen, not fewer))

    def _chosen(self, states: Mapping[str, bool], cluster: ScalableCluster, rng: Random) -> tuple[bool, list[str]]:
        """Choose whether instances are taken away, and the nodes that change. Raises ClusterError when nothing can change."""
        running = [node for node, runs in states.items() if runs]
        idle = [node for node, runs in states.items() if not runs]
        least = 1 if len(states) > 1 else 0  # a single one ends and comes back
        others = [number for number in range(least, len(states) + 1) if number != len(running)]
        if not states:
            raise ClusterError("no instances or members whose number could change; see the workloads `application`, `pipeline`")
        awake = awake_of(running, cluster)
        possible = [number for number in others if number > len(running) - len(awake)]  # one that is awake goes on
        wanted = self.to or rng.choice(possible or others)
        if wanted == len(running) or wanted > len(states):
            raise ClusterError(f"{len(running)} of {len(states)} instances run, {wanted} are wanted; `spares` gives more")
        fewer, change = wanted < len(running), abs(wanted - len(running))
        endable = awake if len(awake) >= change else running
        return fewer, endable[-change:] if fewer else idle[:change]


def _pids(cluster: ScalableCluster, nodes: Iterable[str]) -> dict[str, int | None]:
    """Process ids; of a node that was never started, none."""
    wanted = list(nodes)
    return {**dict.fromkeys(wanted), **pids(cluster, (node for node in wanted if node in cluster.clients))}


def _astray(pids: Mapping[str, int | None], fewer: bool) -> list[str]:
    """Nodes that live and should have ended, or the other way round."""
    return [node for node, pid in pids.items() if (pid is None) is not fewer]
