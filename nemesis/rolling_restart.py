"""Rolling restart: all brokers are restarted, one after another, as for a new version or a new setting."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, ClassVar

from fencepost.harness.api import ClusterError, Killable, Receipt, Stoppable, Upgradable, Wait, clock
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support.attempts import attempt_each, undo_on_error
from fencepost.nemesis.support.cluster_types import UpgradableCluster
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.placement import out_of_sync
from fencepost.nemesis.support.processes import pids, revive
from fencepost.nemesis.support.strike import hit_among
from fencepost.nemesis.support.waiting import poll_until

DEAD = "was dead already"


@dataclass(frozen=True, kw_only=True)
class RollingRestart:
    """Stops a broker gracefully, starts it again, waits until every replica is in sync, and goes on with the next.

    All of this happens during the injection. Healing only starts brokers that it left dead. With `version` each broker comes
    back as that version of Kafka, and stays so. Evidence, for each node: process id and version
    before and after, exit status, and how long until it answered and all were in sync. Effective when a process
    ended; the note names the nodes that were left alone.
    """

    needs: ClassVar[tuple[type, ...]] = (Stoppable, Killable)

    version: str = ""  # the version they come back as (one of the cluster's `upgrades`); empty: the one they run
    kill: bool = False  # SIGKILL instead of SIGTERM
    controllers: bool = False  # separate controllers too, before the brokers
    gone_within_s: Wait = 15.0  # how long each may take to end
    within_s: Wait = 50.0  # for all of them; nodes that are not reached by then are left as they are

    def __post_init__(self) -> None:
        demand_bounds(self)

    def inject(self, cluster: UpgradableCluster, rng: Random) -> Receipt:
        """Restart them all, in a random order."""
        began_ns, deadline = time.monotonic_ns(), clock.monotonic() + self.within_s
        nodes = self._order(cluster, rng)
        receipt = Receipt(role="all", targets=tuple(nodes), injected_ns=began_ns)
        if self.version and (reason := self._cannot_upgrade(cluster, nodes)):
            return replace(receipt, targets=(), effective=False, note=reason)
        before = pids(cluster, nodes)
        restarts: dict[str, Any] = {}
        problem = ""
        for node in nodes:
            problem = self._wait_until_in_sync(cluster, deadline)
            if problem:
                problem = f"{', '.join(n for n in nodes if n not in restarts)} not restarted: {problem}"
                break
            with undo_on_error(partial(revive, cluster, [node])):
                restarts[node] = self._restart(cluster, node, deadline)
        problem = problem or self._wait_until_in_sync(cluster, deadline)
        problems = [f"{node}: {restart['problem']}" for node, restart in restarts.items() if restart.get("problem")]
        taken = [node for node, restart in restarts.items() if restart["pid"] != before[node]]
        return replace(
            receipt,
            evidence={"before": before, "during": restarts, **hit_among(nodes, taken)},
            effective=bool(taken),
            note="; ".join(filter(None, [problem, *problems])),
        )

    def heal(self, cluster: UpgradableCluster, receipt: Receipt) -> Receipt:
        """Start the nodes that it left dead or silent and that are dead now; other dead nodes belong to other faults."""
        restarts: dict[str, Any] = receipt.evidence.get("during", {})
        badly = [node for node, restart in restarts.items() if restart["pid"] is None or restart.get("problem")]
        nodes = [node for node in badly if restarts[node].get("problem") != DEAD and cluster.pid(node) is None]
        problems = attempt_each(cluster.start, nodes)
        after = pids(cluster, receipt.targets)
        return healed(receipt, {"started": nodes, "after": after}, problems)

    def _order(self, cluster: UpgradableCluster, rng: Random) -> list[str]:
        apart = [node for node in cluster.controllers if node not in cluster.brokers] if self.controllers else []
        return [*apart, *rng.sample(list(cluster.brokers), len(cluster.brokers))]

    def _cannot_upgrade(self, cluster: UpgradableCluster, nodes: list[str]) -> str:
        """The reason why the version cannot be had, before anything is stopped; empty when it can."""
        if reason := cluster.unavailable(Upgradable):
            return f"unavailable here, because {reason}"
        before = {node: cluster.version(node) for node in nodes}
        try:
            for node in nodes:
                cluster.use_version(node, self.version)
                cluster.use_version(node, before[node])
        except ClusterError as error:
            return str(error)
        return ""

    def _restart(self, cluster: UpgradableCluster, node: str, deadline: float) -> dict[str, Any]:
        """Stop the node and start it again. One that does not end in time is killed, so that every node is restarted."""
        began = clock.monotonic()
        if cluster.pid(node) is None:
            return {"pid": None, "problem": DEAD}
        version = cluster.version(node) if self.version else ""
        if problems := attempt_each(cluster.kill if self.kill else cluster.stop, [node]):
            return {"pid": cluster.pid(node), "problem": "; ".join(problems)}
        if poll_until(lambda: cluster.pid(node), lambda pid: pid is None, self.gone_within_s) is not None:
            problems += [f"had not ended after {self.gone_within_s:g} s and was killed", *attempt_each(cluster.kill, [node])]
        status = cluster.status(node)
        if self.version:
            cluster.use_version(node, self.version)
        problems += attempt_each(cluster.start, [node])
        left_s = max(0.0, deadline - clock.monotonic())
        if not poll_until(lambda: cluster.answers(node), bool, left_s):
            problems.append("does not answer")
        restart: dict[str, Any] = {"pid": cluster.pid(node), "status": status, "away_s": round(clock.monotonic() - began, 3)}
        versions = {"versions": [version, cluster.version(node)]} if self.version else {}
        return {**restart, **versions, **({"problem": "; ".join(problems)} if problems else {})}

    def _wait_until_in_sync(self, cluster: UpgradableCluster, deadline: float) -> str:
        """The partitions that still lag at the deadline, in words; empty when none does."""
        return poll_until(lambda: out_of_sync(cluster), lambda lagging: not lagging, max(0.0, deadline - clock.monotonic()))
