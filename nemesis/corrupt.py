"""Corrupt: one replica's files come back from the disk with other content than was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Annotated, Any, ClassVar

from fencepost.harness.api import Between, Corruptible, DamagedPart, HarnessError, Receipt, Wait
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.kill import Kill
from fencepost.nemesis.support import targets
from fencepost.nemesis.support.attempts import answer_or, undo_on_error
from fencepost.nemesis.support.cluster_types import CorruptibleCluster
from fencepost.nemesis.support.lost_logs import note_lost, one_at_a_time
from fencepost.nemesis.support.no_effect import catch_no_effect, no_target_on_error
from fencepost.nemesis.support.waiting import poll_until

ROLES = ("leader", "coordinator", "group-coordinator")
NOTICED_WITHIN_S = 3.0


@dataclass(frozen=True, kw_only=True)
class Corrupt:
    """SIGKILLs a broker and damages one of its files; healing starts it again, and asks its log whether it noticed.

    `leader` damages a partition of the workload, `coordinator` one of `__transaction_state`, `group-coordinator` one of
    `__consumer_offsets`. One replica is damaged; the others are whole. What Kafka must notice of it: docs/environment.md.
    Evidence: as for kill, and of the damage the file, the position, the bytes before and after, and the offsets of the batch.
    Effective when the file was damaged. A damage that nobody notices stays in the file. With `older` nobody promises to notice
    it, so the test has to say `corruption = "synced"` in its contract. Records are cut off where the damaged replica is the last
    in sync and no other can lead in its place: there it has to say `corruption = "unsynced"`.
    """

    needs: ClassVar[tuple[type, ...]] = (Corruptible,)

    target: str = "leader"  # the role whose partition is damaged: leader[:PARTITION], coordinator[:ID], group-coordinator[:GROUP]
    replica: str = "leader"  # whose copy: the leader's, or a follower's
    part: DamagedPart = "records"  # a byte of a batch, a cut segment, or a byte of an index or of a snapshot
    older: bool = False  # in a segment before the last, which Kafka takes for synced and does not read at its start
    answer_within_s: Annotated[Wait, Between(0, 600)] = 60.0  # how long healing waits for the started broker to answer

    def demanded_contract(self) -> Mapping[str, str]:
        """See `harness.api.DemandsContract`."""
        if self.older:
            return {"corruption": "synced"}
        return {"corruption": "unsynced"} if self.part in ("records", "cut") else {}

    def __post_init__(self) -> None:
        targets.check(self.target, ROLES)
        demand_bounds(self)
        if self.replica not in ("leader", "follower"):
            raise ValueError(f'replica = "{self.replica}": leader or follower')
        if self.older and self.part not in ("records", "cut"):
            raise ValueError(f'older goes with the parts "records" and "cut", not with "{self.part}"')

    @catch_no_effect
    def inject(self, cluster: CorruptibleCluster, rng: Random) -> Receipt:
        """Kill the broker that has the copy, and damage it."""
        with no_target_on_error(self.target):
            partition = _partition(self.target, cluster, rng)
            node = self._holder(cluster, partition, rng)
        if not self.demanded_contract():
            return self._strike(cluster, node, partition, rng)
        with one_at_a_time(cluster, self.target, [node]):
            receipt = self._strike(cluster, node, partition, rng)
            note_lost(cluster, receipt.targets)
            return receipt

    def _strike(self, cluster: CorruptibleCluster, node: str, partition: str, rng: Random) -> Receipt:
        receipt = replace(Kill(target=f"broker:{node}").inject(cluster, rng), role=self.target)
        with undo_on_error(lambda: cluster.start(node)):
            return self._damaged(cluster, receipt, node, partition, rng)

    def _damaged(self, cluster: CorruptibleCluster, receipt: Receipt, node: str, partition: str, rng: Random) -> Receipt:
        """The receipt of the kill, with that of the damage; nothing is damaged while the broker lives."""
        where = {**receipt.evidence, "partition": partition}
        if not receipt.targets or cluster.pid(node) is not None:
            return replace(receipt, evidence=where, effective=False)
        try:
            damage = asdict(cluster.corrupt(node, partition, self.part, rng.random(), self.older))
        except (HarnessError, OSError) as error:
            note = "; ".join(filter(None, [receipt.note, f"nothing was damaged, so this was a mere kill: {error}"]))
            return replace(receipt, evidence=where, effective=False, note=note)
        return replace(receipt, evidence={**where, "damage": damage}, effective=True)

    def _holder(self, cluster: CorruptibleCluster, partition: str, rng: Random) -> str:
        topic, _, number = partition.rpartition("-")
        leader = cluster.roles().leader(topic, int(number))
        if self.replica == "leader":
            return leader
        placement = cluster.admin().placements([partition])[partition]
        followers = [node for node in placement.replicas if node != leader]
        return targets.choose(followers, f"follower of {partition}", rng)

    def heal(self, cluster: CorruptibleCluster, receipt: Receipt) -> Receipt:
        """Start it, wait until it answers, and look for what its log says of the damage."""
        healed = Kill(target="random", answer_within_s=self.answer_within_s).heal(cluster, receipt)
        partition = receipt.evidence.get("partition", "")
        if "damage" not in receipt.evidence or "noticed" in healed.healing:
            return healed
        (node,) = receipt.targets
        noticed = poll_until(
            lambda: answer_or("", cluster.corruption_notice, node, partition), lambda line: bool(line), NOTICED_WITHIN_S
        )
        silent = "" if noticed else f"the log of {node} says nothing of the damage to {receipt.evidence['damage']['file']}"
        note = "; ".join(filter(None, [healed.note, silent]))
        return replace(healed, healing={**healed.healing, "noticed": noticed}, note=note)


def _partition(target: str, cluster: CorruptibleCluster, rng: Random) -> str:
    """The partition that a role is about."""
    role, _, name = target.partition(":")
    roles: Any = cluster.roles()
    if role == "leader":
        return name or targets.choose(cluster.topics, "partition of the workload", rng)
    if role == "coordinator":
        return str(roles.transaction_partition(name or targets.choose(cluster.transactional_ids, "transactional id", rng)))
    return str(roles.group_partition(name or targets.choose(cluster.groups, "consumer group", rng)))
