"""Isolate, then kill: a broker is cut from the other brokers, and later dies with the records that it alone holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

from fencepost.harness.api import HarnessError, Killable, Partitionable, Receipt, Wait, clock
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support import network_partition, targets
from fencepost.nemesis.support.attempts import attempt_each, no_target, undo_on_error
from fencepost.nemesis.support.cluster_types import KillablePartitionableCluster
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.waiting import poll_until

GONE_WITHIN_S = 5.0


@dataclass(frozen=True, kw_only=True)
class IsolateThenKill:
    """Cuts a broker from the other brokers (clients, and controllers of their own nodes, still reach it), waits, and SIGKILLs it.

    While isolated, a leader that need not wait for its followers (acks=1, or min.insync.replicas=1 once the others have left
    the in-sync replicas) acknowledges records that nobody else has. The cut ends with the kill; healing starts the broker again.
    With combined controllers a broker that is cut off loses the controllers too, and is replaced as leader before it dies.
    """

    needs: ClassVar[tuple[type, ...]] = (Partitionable, Killable)
    least_brokers: ClassVar[int] = 2

    target: str = "leader"  # the role that is isolated and dies
    alone_s: Wait = 8.0  # how long it is isolated before it dies; the in-sync replicas shrink after replica.lag.time.max.ms
    answer_within_s: Wait = 30.0  # how long healing waits for the started broker to answer

    def __post_init__(self) -> None:
        targets.check(self.target, targets.ONE_BROKER)
        demand_bounds(self)

    def inject(self, cluster: KillablePartitionableCluster, rng: Random) -> Receipt:
        """Cut, wait, kill, and let the others' network be whole again."""
        try:
            nodes = targets.find(self.target, cluster, rng)
        except HarnessError as error:
            return no_target(self.target, error)
        others = [node for node in network_partition.brokers(cluster, nodes) if node not in nodes]
        cut = network_partition.cut(cluster, self.target, nodes, network_partition.both_ways(nodes, others))
        if not cut.pairs:  # a single broker: there is nobody to be isolated from
            return cut
        alive: list[str] = []
        with undo_on_error(lambda: attempt_each(cluster.undrop, [cut.pairs]) + attempt_each(cluster.start, alive)):
            clock.sleep(self.alone_s)
            before = {node: cluster.pid(node) for node in nodes}
            alive += [node for node in nodes if before[node] is not None]
            problems = attempt_each(cluster.kill, alive)
            during = poll_until(lambda: {n: cluster.pid(n) for n in nodes}, lambda pids: not any(pids.values()), GONE_WITHIN_S)
            mended = network_partition.mend(cluster, replace(cut, note=""))
        evidence = {**cut.evidence, "dropped": mended.healing["dropped"], "pids": {"before": before, "during": during}}
        problems += [f"{node} was dead already" for node in nodes if node not in alive]
        problems += [f"{node} survived" for node, pid in during.items() if pid is not None]
        note = "; ".join(filter(None, [cut.note, *problems]))
        effective = bool(cut.effective) and bool(alive) and not any(during.values())
        pairs = cut.pairs if mended.healing.get("left") else ()  # the cut is over
        return replace(cut, pairs=pairs, evidence=evidence, effective=effective, note=note)

    def heal(self, cluster: KillablePartitionableCluster, receipt: Receipt) -> Receipt:
        """Start the broker again, unless another fault had killed it before, and wait until it answers."""
        cluster.undrop(receipt.pairs)
        before: dict[str, int | None] = receipt.evidence.get("pids", {}).get("before", {})
        ours = [node for node in receipt.targets if before.get(node) is not None]
        dead = [node for node in ours if cluster.pid(node) is None]
        problems = attempt_each(cluster.start, dead)
        answers = poll_until(
            lambda: {node: cluster.answers(node) for node in ours},
            lambda seen: all(seen.values()),
            self.answer_within_s,
        )
        problems += [f"{node} did not answer within {self.answer_within_s:g} s" for node, heard in answers.items() if not heard]
        after = {node: cluster.pid(node) for node in ours}
        left = [node for node in ours if after[node] is None]
        return healed(receipt, {"started": dead, "after": after, "answers": answers}, problems, left)
