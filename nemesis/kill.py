"""Kill: nodes die at once, as by `kill -9` or a lost machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, ClassVar

from fencepost.harness.api import Between, HarnessError, Killable, Receipt, Wait
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support import targets
from fencepost.nemesis.support.attempts import attempt_each, attempt_within_budget, hit_evidence, no_target, undo_on_error
from fencepost.nemesis.support.cluster_types import KillableCluster
from fencepost.nemesis.support.healing import healed, lives_already
from fencepost.nemesis.support.waiting import poll_until

GONE_WITHIN_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Kill:
    """Sends SIGKILL to nodes. Healing starts those that this fault killed and that are still dead.

    Evidence: process ids before, during (null: gone) and after, and whether each broker answers again.
    A killed client is replaced by the harness, not by this fault.
    """

    needs: ClassVar[tuple[type, ...]] = (Killable,)

    target: str = "random"  # the role that dies
    count: Annotated[int, Between(1, 500)] = 1  # how many, with the targets random and client
    answer_within_s: Wait = 30.0  # how long healing waits for the started brokers to answer

    def __post_init__(self) -> None:
        targets.check(self.target, count=self.count)
        demand_bounds(self)

    def inject(self, cluster: KillableCluster, rng: Random) -> Receipt:
        """Kill the nodes that have the role now."""
        try:
            nodes = targets.find(self.target, cluster, rng, self.count)
        except HarnessError as error:
            return no_target(self.target, error)
        before = _pids(cluster, nodes)
        alive = [node for node in nodes if before[node] is not None]
        with undo_on_error(lambda: attempt_each(cluster.start, alive)):
            tried, problems = attempt_within_budget(cluster.kill, alive)
            during = poll_until(lambda: _pids(cluster, nodes), lambda pids: not _left(tried, before, pids), GONE_WITHIN_S)
        problems += [f"{node} was dead already" for node in nodes if node not in alive]
        problems += [f"{node} survived" for node in _left(tried, before, during)]
        aimed_at = tuple(node for node in nodes if node in tried or node not in alive)
        killed = [node for node in alive if node not in _left(alive, before, during)]
        return Receipt(
            role=self.target,
            targets=aimed_at,
            evidence={"before": before, "during": during, **hit_evidence(aimed_at, killed)},
            effective=bool(killed),
            note="; ".join(problems),
        )

    def heal(self, cluster: KillableCluster, receipt: Receipt) -> Receipt:
        """Start what is still dead, and wait until it answers or the time for that is over."""
        before: dict[str, int | None] = dict(receipt.evidence.get("before", {}))
        ours = [node for node in receipt.targets if before.get(node) is not None]
        killed = _gone(receipt)
        brokers = [node for node in ours if node not in cluster.clients]
        now = _pids(cluster, brokers)
        dead = [node for node in brokers if now[node] is None]
        problems = attempt_each(cluster.start, dead)
        answers = poll_until(
            lambda: {n: cluster.answers(n) for n in brokers}, lambda seen: all(seen.values()), self.answer_within_s
        )
        after = _pids(cluster, ours)
        problems += [_silence(node, after[node], self.answer_within_s) for node, heard in answers.items() if not heard]
        early = lives_already(receipt, {node: pid for node, pid in now.items() if node in killed})
        healing: dict[str, Any] = {"started": dead, "after": after, "answers": answers}
        return healed(receipt, healing, problems, [node for node in brokers if after[node] is None], early)


def _gone(receipt: Receipt) -> list[str]:
    """The nodes that the fault saw die."""
    during: dict[str, int | None] = dict(receipt.evidence.get("during", {}))
    return [node for node in receipt.targets if during.get(node, 0) is None]


def _pids(cluster: KillableCluster, nodes: Iterable[str]) -> dict[str, int | None]:
    return {node: cluster.pid(node) for node in nodes}


def _left(alive: Iterable[str], before: dict[str, int | None], now: dict[str, int | None]) -> list[str]:
    return [node for node in alive if now[node] == before[node]]


def _silence(node: str, pid: int | None, waited_s: float) -> str:
    seen = "its process is gone" if pid is None else f"its process {pid} lives"
    return f"{node} did not answer within {waited_s:g} s of healing; {seen}"
