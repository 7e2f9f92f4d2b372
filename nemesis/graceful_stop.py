"""Graceful stop: brokers end by a controlled shutdown, as for maintenance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Annotated, ClassVar

from fencepost.harness.api import Between, HarnessError, Killable, Receipt, Stoppable, Wait
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support import targets
from fencepost.nemesis.support.attempts import attempt_each, attempt_within_budget, hit_evidence, no_target, undo_on_error
from fencepost.nemesis.support.cluster_types import StoppableCluster
from fencepost.nemesis.support.healing import healed, lives_already
from fencepost.nemesis.support.waiting import poll_until

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

    def inject(self, cluster: StoppableCluster, rng: Random) -> Receipt:
        """Stop the brokers that have the role now."""
        try:
            nodes = targets.find(self.target, cluster, rng, self.count)
        except HarnessError as error:
            return no_target(self.target, error)
        before = _pids(cluster, nodes)
        alive = [node for node in nodes if before[node] is not None]
        with undo_on_error(lambda: revive(cluster, alive)):
            tried, problems = attempt_within_budget(cluster.stop, alive)
            during = poll_until(lambda: _pids(cluster, nodes), lambda pids: not _left(tried, before, pids), self.gone_within_s)
            left = _left(alive, before, during)
            statuses = {node: cluster.status(node) for node in alive if node not in left}
            shutdown_lines = {node: cluster.shutdown_line(node) for node in statuses}
        problems += [f"{node} was dead already" for node in nodes if node not in alive]
        problems += [f"{node} had not ended after {self.gone_within_s:g} s" for node in left if node in tried]
        problems += [f"{node} ended with status {status}" for node, status in statuses.items() if status != ORDERLY]
        aimed_at = tuple(node for node in nodes if node in tried or node not in alive)
        seen = {"before": before, "during": during, "status": statuses, "shutdown_line": shutdown_lines}
        return Receipt(
            role=self.target,
            targets=aimed_at,
            evidence={**seen, **hit_evidence(aimed_at, statuses)},
            effective=bool(statuses),
            note="; ".join(problems),
        )

    def heal(self, cluster: StoppableCluster, receipt: Receipt) -> Receipt:
        """Start what was stopped (and kill it before, if it has not ended yet), and wait until it answers."""
        before: dict[str, int | None] = dict(receipt.evidence.get("before", {}))
        ours = [node for node in receipt.targets if before.get(node) is not None]
        stuck = [node for node in ours if cluster.pid(node) == before[node]]
        problems = attempt_each(cluster.kill, stuck)
        now = _pids(cluster, ours)
        dead = [node for node in ours if now[node] is None]
        problems += attempt_each(cluster.start, dead)
        answers = poll_until(lambda: {n: cluster.answers(n) for n in ours}, lambda seen: all(seen.values()), self.answer_within_s)
        problems += [f"{node} had to be killed" for node in stuck]
        problems += [f"{node} did not answer within {self.answer_within_s:g} s of healing" for node in ours if not answers[node]]
        early = lives_already(receipt, {node: pid for node, pid in now.items() if node in receipt.evidence.get("status", {})})
        after = _pids(cluster, ours)
        left = [node for node in ours if after[node] is None]
        return healed(receipt, {"started": dead, "after": after, "answers": answers}, problems, left, early)


def revive(cluster: StoppableCluster, nodes: Iterable[str]) -> None:
    """Have nodes run, whether they are dead or about to end: these are killed before."""
    wanted = list(nodes)
    attempt_each(cluster.kill, wanted)
    attempt_each(cluster.start, wanted)


def _pids(cluster: StoppableCluster, nodes: Iterable[str]) -> dict[str, int | None]:
    return {node: cluster.pid(node) for node in nodes}


def _left(alive: Iterable[str], before: dict[str, int | None], now: dict[str, int | None]) -> list[str]:
    return [node for node in alive if now[node] == before[node]]
