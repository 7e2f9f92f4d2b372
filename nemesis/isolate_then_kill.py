"""Isolate, then kill: a broker is cut from the other brokers, and later dies with the records that it alone holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

from fencepost.harness.api import Killable, Partitionable, Receipt, Wait, clock
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support import network_partition, targets
from fencepost.nemesis.support.attempts import attempt_each, undo_on_error
from fencepost.nemesis.support.cluster_types import KillablePartitionableCluster
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.no_effect import catch_no_effect
from fencepost.nemesis.support.processes import alive, end_processes, restart

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

    @catch_no_effect
    def inject(self, cluster: KillablePartitionableCluster, rng: Random) -> Receipt:
        """Cut, wait, kill, and let the others' network be whole again."""
        nodes = targets.find(self.target, cluster, rng)
        others = [node for node in network_partition.brokers(cluster, nodes) if node not in nodes]
        cut = network_partition.cut(cluster, self.target, nodes, network_partition.both_ways(nodes, others))
        if not cut.pairs:  # a single broker: there is nobody to be isolated from
            return cut
        with undo_on_error(lambda: attempt_each(cluster.undrop, [cut.pairs])):
            clock.sleep(self.alone_s)
            struck = end_processes(cluster, nodes, cluster.kill, GONE_WITHIN_S)
            with undo_on_error(lambda: attempt_each(cluster.start, struck.healthy)):
                mended = network_partition.mend(cluster, replace(cut, note=""))
        seen = {"before": struck.before, "during": struck.during}
        evidence = {**cut.evidence, "dropped": mended.healing["dropped"], "pids": seen}
        survivors = alive(nodes, struck.during)
        problems = [f"{node} was dead already" for node in struck.unhealthy] + [f"{node} survived" for node in survivors]
        note = "; ".join(filter(None, [cut.note, *struck.problems, *problems]))
        effective = bool(cut.effective) and bool(struck.healthy) and not survivors
        pairs = cut.pairs if mended.healing.get("left") else ()  # the cut is over
        return replace(cut, pairs=pairs, evidence=evidence, effective=effective, note=note)

    def heal(self, cluster: KillablePartitionableCluster, receipt: Receipt) -> Receipt:
        """Start the broker again, unless another fault had killed it before, and wait until it answers."""
        cluster.undrop(receipt.pairs)
        ours = alive(receipt.targets, receipt.evidence.get("pids", {}).get("before", {}))
        restarted = restart(cluster, ours, self.answer_within_s)
        return healed(receipt, restarted.healing, restarted.problems, restarted.left)
