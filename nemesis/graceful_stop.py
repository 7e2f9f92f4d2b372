"""Graceful stop: brokers end by a controlled shutdown, as for maintenance."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Annotated, ClassVar

from fencepost.harness.api import Between, Killable, Receipt, Stoppable, Wait
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support import targets
from fencepost.nemesis.support.attempts import attempt_each, undo_on_error
from fencepost.nemesis.support.cluster_types import StoppableCluster
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.no_effect import catch_no_effect
from fencepost.nemesis.support.processes import alive, end_processes, lives_already, pids, restart, revive

ORDERLY = 143  # exit status of a JVM that SIGTERM ended


@dataclass(frozen=True, kw_only=True)
class GracefulStop:
    """Sends SIGTERM to brokers and waits until they have ended. Healing starts those that this fault stopped.

    Evidence: process ids before, during (null: ended) and after; exit status (143: orderly); the shutdown line, in which the
    controller lets the broker go; whether each answers again. Healing kills a broker that has not ended by then.
    """

    needs: ClassVar[tuple[type, ...]] = (Stoppable, Killable)

    target: str = "random"  # the role that is stopped
    count: Annotated[int, Between(1, 50)] = 1  # how many, with the target random
    gone_within_s: Wait = 15.0  # how long they may take to end
    answer_within_s: Wait = 30.0  # how long healing waits for the started brokers to answer

    def __post_init__(self) -> None:
        targets.check(self.target, targets.ONE_BROKER, self.count)
        demand_bounds(self)

    @catch_no_effect
    def inject(self, cluster: StoppableCluster, rng: Random) -> Receipt:
        """Stop the brokers that have the role now."""
        nodes = targets.find(self.target, cluster, rng, self.count)
        struck = end_processes(cluster, nodes, cluster.stop, self.gone_within_s, lambda node: revive(cluster, [node]))
        with undo_on_error(lambda: revive(cluster, struck.healthy)):
            statuses = {node: cluster.status(node) for node in struck.hit}
            shutdown_lines = {node: cluster.shutdown_line(node) for node in struck.hit}
        problems = [f"{node} was dead already" for node in struck.unhealthy]
        problems += [f"{node} had not ended after {self.gone_within_s:g} s" for node in struck.missed]
        problems += [f"{node} ended with status {status}" for node, status in statuses.items() if status != ORDERLY]
        return struck.receipt(self.target, problems, {"status": statuses, "shutdown_line": shutdown_lines})

    def heal(self, cluster: StoppableCluster, receipt: Receipt) -> Receipt:
        """Start what was stopped (and kill it before, if it has not ended yet), and wait until it answers."""
        before = receipt.evidence.get("before", {})
        ours = alive(receipt.targets, before)
        stuck = [node for node in ours if cluster.pid(node) == before[node]]
        problems = attempt_each(cluster.kill, stuck) + [f"{node} had to be killed" for node in stuck]
        ended = [node for node in ours if node in receipt.evidence.get("status", {})]
        early = lives_already(receipt, pids(cluster, ended))
        restarted = restart(cluster, ours, self.answer_within_s)
        return healed(receipt, restarted.healing, [*problems, *restarted.problems], restarted.left, early)
