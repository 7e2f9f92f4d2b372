"""Membership: a broker leaves the cluster and joins it again with an empty disk, as when a machine is replaced."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar

from fencepost.harness.api import Cluster, HarnessError, Killable, Receipt, Stoppable, Wait, Wipeable, clock
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support import placement, targets
from fencepost.nemesis.support.attempts import answer_or, attempt_each, attempt_within_budget, undo_on_error
from fencepost.nemesis.support.cluster_types import ReplaceableCluster
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.no_effect import catch_no_effect
from fencepost.nemesis.support.processes import restart, revive
from fencepost.nemesis.support.waiting import poll_until

EMPTY_BYTES = 64 << 10  # a node's ids and the like stay on its disk


@dataclass(frozen=True, kw_only=True)
class Membership:
    """Stops a broker gracefully, unregisters it and removes its data. Healing starts it again, as a new broker.

    It then fetches everything from the others; healing waits until it is in sync. It is left alone where a partition has no
    other replica in sync, because the fault itself would lose records. With combined controllers the fault is unavailable: the
    disk holds a vote of the quorum.

    Evidence: process ids; brokers in service and bytes on its disk before, during and after; exit status. Effective when its
    data is gone: a broker that only stopped has not left.
    """

    needs: ClassVar[tuple[type, ...]] = (Stoppable, Killable, Wipeable)

    target: str = "random"  # the role that leaves
    unregister: bool = True  # unregister it while it is away
    gone_within_s: Wait = 15.0  # how long it may take to end
    back_within_s: Wait = 45.0  # how long healing waits until it is in sync

    def __post_init__(self) -> None:
        targets.check(self.target, tuple(role for role in targets.ONE_BROKER if role not in ("controller", "second")))
        demand_bounds(self)

    @catch_no_effect
    def inject(self, cluster: ReplaceableCluster, rng: Random) -> Receipt:
        """Let the broker that plays the role leave for good."""
        (node,) = targets.find(self.target, cluster, rng)
        before = {"pid": cluster.pid(node), "in_service": in_service(cluster), "bytes": _bytes(cluster, node)}
        receipt = Receipt(role=self.target, targets=(node,), evidence={"before": before}, effective=False)
        if before["pid"] is None:
            return replace(receipt, note=f"{node} was dead already")
        if sole := _only_on(node, cluster, stopped=False):
            return replace(receipt, targets=(), note=f"{node} is left alone, for {sole}")
        with undo_on_error(lambda: revive(cluster, [node])):
            return self._leave(cluster, node, receipt)

    def _leave(self, cluster: ReplaceableCluster, node: str, receipt: Receipt) -> Receipt:
        tried, problems = attempt_within_budget(cluster.stop, [node])
        if not tried:
            return replace(receipt, targets=(), note="; ".join(problems))
        pid = poll_until(lambda: cluster.pid(node), lambda pid: pid is None, self.gone_within_s)
        if pid is not None:
            return replace(receipt, note="; ".join([*problems, f"{node} had not ended after {self.gone_within_s:g} s"]))
        problems = self._forget(cluster, node)
        seen = {"pid": cluster.pid(node), "in_service": in_service(cluster), "bytes": _bytes(cluster, node)}
        during: dict[str, Any] = {**seen, "status": cluster.status(node)}
        held, left = receipt.evidence["before"]["bytes"], during["bytes"]
        wiped = left is not None and left < EMPTY_BYTES and (held is None or left < held)
        problems += [] if wiped or problems else [f"only stopped: {node} still holds {left} bytes"]
        evidence = {**receipt.evidence, "during": during}
        return replace(receipt, evidence=evidence, effective=wiped, note="; ".join(problems))

    def _forget(self, cluster: ReplaceableCluster, node: str) -> list[str]:
        """Remove its data if others have it all, and its registration; what could not be done."""
        sole = poll_until(lambda: _only_on(node, cluster, stopped=True), lambda partitions: not partitions, self.gone_within_s)
        if sole:
            return [f"only stopped: the data of {node} is left alone, for {sole}"]
        problems = attempt_each(cluster.wipe, [node])
        return problems + (attempt_each(cluster.admin().unregister, [node]) if self.unregister and not problems else [])

    def heal(self, cluster: ReplaceableCluster, receipt: Receipt) -> Receipt:
        """Start it, and wait until it answers and every replica is in sync again."""
        before: dict[str, Any] = dict(receipt.evidence.get("before", {}))
        ours = [node for node in receipt.targets if before.get("pid") is not None]
        stuck = [node for node in ours if cluster.pid(node) == before["pid"] and "during" not in receipt.evidence]
        problems = attempt_each(cluster.kill, stuck)
        deadline = clock.monotonic() + self.back_within_s
        restarted = restart(cluster, ours, self.back_within_s)
        lagging = (
            poll_until(lambda: placement.out_of_sync(cluster), lambda text: not text, max(0.0, deadline - clock.monotonic()))
            if ours
            else ""
        )
        problems += [*restarted.problems, *([f"after {self.back_within_s:g} s: {lagging}"] if lagging else [])]
        held = {node: _bytes(cluster, node) for node in ours}
        after = {"pid": restarted.after, "in_service": in_service(cluster), "bytes": held}
        return healed(receipt, {**restarted.healing, "after": after}, problems, restarted.left)


def in_service(cluster: Cluster) -> list[str]:
    """The brokers that are a part of the cluster; nobody when nobody answers."""
    return list(answer_or((), cluster.admin().in_service))


def _bytes(cluster: ReplaceableCluster, node: str) -> int | None:
    """The bytes on the node's disk; None when they cannot be counted."""
    try:
        return cluster.stored_bytes(node)
    except (HarnessError, OSError):
        return None


def _only_on(node: str, cluster: Cluster, stopped: bool) -> str:
    """A partition whose only replica in sync may be this one, in words; empty when others have everything.

    stopped: it has ended; so it must have left the replicas in sync, and somebody else must lead.
    """
    try:
        partitions = cluster.admin().placements()
    except HarnessError as error:
        return str(error)
    for name, place in partitions.items():
        others = [other for other in place.in_sync if other != node]
        if node in place.replicas and (not others or (stopped and (node in place.in_sync or not place.leader))):
            return f"{name} is in sync on {', '.join(place.in_sync) or 'nobody'}, led by {place.leader or 'nobody'}"
    return ""
