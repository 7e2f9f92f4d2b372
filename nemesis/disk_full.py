"""Disk-full: a broker's disk has no room left, as when retention was planned too late."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar

from harness.api import Fillable, HarnessError, Receipt
from nemesis import targets
from nemesis.capabilities import FillableCluster
from nemesis.steps import attempt, missed, until, within_budget

FULL = 64 << 10  # so few bytes are nothing
ENDS_WITHIN_S = 3.0


@dataclass(frozen=True, kw_only=True)
class DiskFull:
    """Fills what is left of a broker's disk; healing gives it back, and starts the broker again if it gave up.

    A broker whose only log directory cannot be written ends by itself. Evidence: free bytes before, during and after, the
    broker's own words about it, and whether it ended.
    """

    needs: ClassVar[tuple[type, ...]] = (Fillable,)

    target: str = "random"  # the role whose disk fills up
    notice_s: float = 4.0  # how long it has to notice, and to end, before the fault counts as begun
    answer_within_s: float = 60.0  # how long healing waits for a broker to answer again

    def __post_init__(self) -> None:
        targets.check(self.target, targets.BROKERS)
        if self.notice_s < 0 or self.answer_within_s < 0:
            raise ValueError(f"notice_s = {self.notice_s}, answer_within_s = {self.answer_within_s}: must not be negative")

    def inject(self, cluster: FillableCluster, rng: Random) -> Receipt:
        """Fill the disk of the broker that plays the role now, and listen to what it says."""
        try:
            nodes = targets.find(self.target, cluster, rng)
        except HarnessError as error:
            return missed(self.target, error)
        before = {node: cluster.disk_free(node) for node in nodes}
        tried, problems = within_budget(cluster.fill_disk, nodes)
        if not tried:
            return Receipt(role=self.target, effective=False, note="; ".join(problems))
        receipt = Receipt(role=self.target, targets=nodes)
        try:
            during = {node: cluster.disk_free(node) for node in nodes}
            pids = until(lambda: _pids(cluster, nodes), lambda seen: not any(seen.values()), self.notice_s)
            words = _words(cluster, nodes)
        except (HarnessError, OSError) as error:  # the targets, so that healing starts what ended
            return replace(receipt, effective=False, note="; ".join([*problems, f"nobody could look: {error}"]))
        room = [node for node in nodes if during[node] > FULL]
        problems += [f"{node} still has {during[node]} bytes" for node in room]
        problems += [f"{node} had no room before already" for node in nodes if before[node] <= FULL]
        problems += [f"{node} has not noticed yet" for node in nodes if not words[node] and node not in room]
        evidence: dict[str, Any] = {"before": before, "during": during, "words": words, "pids": pids}
        effective = not room and any(size > FULL for size in before.values())
        return replace(receipt, evidence=evidence, effective=effective, note="; ".join(problems))

    def heal(self, cluster: FillableCluster, receipt: Receipt) -> Receipt:
        """Give back the room, start what ended, and wait until it answers."""
        nodes = receipt.targets or cluster.brokers  # no targets: inject broke off, and any disk may be full
        words = _words(cluster, nodes)
        problems = attempt(cluster.clear_disk, nodes)
        ending = [node for node in receipt.targets if words[node]]  # what complains may need a moment more to end
        until(lambda: _pids(cluster, ending), lambda seen: not any(seen.values()), ENDS_WITHIN_S)
        dead = [node for node in receipt.targets if cluster.pid(node) is None]
        problems += attempt(cluster.start, dead)
        answers = until(lambda: {n: cluster.answers(n) for n in dead}, lambda seen: all(seen.values()), self.answer_within_s)
        problems += [f"{node} did not answer within {self.answer_within_s:g} s" for node, heard in answers.items() if not heard]
        after = {node: cluster.disk_free(node) for node in nodes}
        healing = {"after": after, "words": words, "started": dead, "answers": answers}
        return replace(receipt, healing=healing, note="; ".join(filter(None, [receipt.note, *problems])))


def _pids(cluster: FillableCluster, nodes: Iterable[str]) -> dict[str, int | None]:
    return {node: cluster.pid(node) for node in nodes}


def _words(cluster: FillableCluster, nodes: Iterable[str]) -> dict[str, str]:
    return {node: cluster.disk_complaint(node) for node in nodes}
