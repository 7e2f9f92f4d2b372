"""Power off: nodes lose their power, and all that they had written and not fsynced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Annotated, Any, ClassVar

from fencepost.harness.api import Between, Powered, Receipt, Wait
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.kill import Kill
from fencepost.nemesis.support import targets
from fencepost.nemesis.support.attempts import attempt_each
from fencepost.nemesis.support.cluster_types import PoweredCluster
from fencepost.nemesis.support.lost_logs import note_lost, one_at_a_time
from fencepost.nemesis.support.no_effect import catch_no_effect
from fencepost.nemesis.support.strike import hit_among


@dataclass(frozen=True, kw_only=True)
class PowerOff:
    """SIGKILLs brokers and throws away what they had not fsynced; healing starts them again.

    Kafka acknowledges what lies in the memory of enough machines, on disk or not: when they all fail at once (a data centre
    without power), acknowledged records are gone. This is the worst that may happen: the kernel has synced nothing by itself.
    A machine whose broker another fault has killed loses its power too. What may be lost has to be said in the test's contract
    (`power_failures`): with several brokers at once always, with one at a time where no other replica can lead in its place
    (docs/environment.md). Evidence: as for kill, and of each partition the offset
    it ends at now and the one it ended at. Effective when something was lost, or when it killed and all was found to be synced;
    what nobody could look at shows no more than a kill.
    """

    needs: ClassVar[tuple[type, ...]] = (Powered,)

    target: str = "random"  # the role whose power fails; all: acknowledged records are gone, which no replication prevents
    count: Annotated[int, Between(1, 50)] = 1  # how many, with the target random
    answer_within_s: Wait = 60.0  # how long healing waits for the started brokers to answer

    def __post_init__(self) -> None:
        targets.check(self.target, targets.BROKERS, self.count)
        demand_bounds(self)
        self._kill()

    def demanded_contract(self) -> Mapping[str, str]:
        """See `harness.api.DemandsContract`."""
        return {"power_failures": "all replicas" if self._several() else "one replica"}

    def _several(self) -> bool:
        return self.count > 1 or "all" in self.target.split(":")

    @catch_no_effect
    def inject(self, cluster: PoweredCluster, rng: Random) -> Receipt:
        """Kill all of them first, then take from each what it had not synced."""
        nodes = targets.find(self.target, cluster, rng, self.count)
        if self._several():
            return self._strike(cluster, nodes)
        with one_at_a_time(cluster, self.target, nodes):
            return self._strike(cluster, nodes)

    def _strike(self, cluster: PoweredCluster, nodes: Sequence[str]) -> Receipt:
        receipt = self._kill().strike(cluster, nodes)
        note_lost(cluster, receipt.targets)
        lost: dict[str, Any] = {}

        def lose(node: str) -> None:
            lost[node] = {name: {"end": end, "was": was} for name, (end, was) in cluster.lose_unsynced(node).items()}

        problems = attempt_each(lose, receipt.targets)
        hit = receipt.evidence.get("hit", receipt.targets if receipt.effective else ())
        struck = [node for node in receipt.targets if lost.get(node) or (node in hit and node in lost)]
        taken, unseen = any(lost.values()), bool(problems)
        if receipt.targets and not taken:
            text = "so this was a mere kill" if receipt.effective else "and nobody was killed"
            problems.append(f"nothing was taken, {text}" if unseen else f"nothing was lost: all was synced, {text}")
        note = "; ".join(filter(None, [receipt.note, *problems]))
        killed = {name: value for name, value in receipt.evidence.items() if name != "hit"}
        evidence = {**killed, "lost": lost, **hit_among(receipt.targets, struck)}
        return replace(receipt, evidence=evidence, effective=bool(struck), note=note)

    def heal(self, cluster: PoweredCluster, receipt: Receipt) -> Receipt:
        """Start what is still dead, and wait until it answers or the time for that is over."""
        return self._kill().heal(cluster, receipt)

    def _kill(self) -> Kill:
        return Kill(target=self.target, count=self.count, answer_within_s=self.answer_within_s)
