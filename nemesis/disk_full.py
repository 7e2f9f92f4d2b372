"""Disk full: a broker's disk has no room left, as when retention was planned too late."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar

from fencepost.harness.api import Fillable, HarnessError, Receipt, Wait
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support import targets
from fencepost.nemesis.support.attempts import attempt_each, attempt_within_budget, undo_on_error
from fencepost.nemesis.support.cluster_types import FillableCluster
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.no_effect import catch_no_effect
from fencepost.nemesis.support.processes import Pids, alive, pids, restart
from fencepost.nemesis.support.strike import hit_among
from fencepost.nemesis.support.waiting import poll_until

FULL = 64 << 10  # a disk with no more bytes free counts as full
ENDS_WITHIN_S = 10.0


@dataclass(frozen=True, kw_only=True)
class DiskFull:
    """Fills a broker's disk. Healing frees the room, and starts the broker again if it ended.

    A broker whose only log directory cannot be written ends by itself. Evidence: free bytes before, during and after, the
    line of the broker's log about it, and whether it ended.
    """

    needs: ClassVar[tuple[type, ...]] = (Fillable,)

    target: str = "random"  # the role whose disk fills up
    notice_s: Wait = 4.0  # how long the broker has to notice, and to end, before its `lasts_s` begins
    answer_within_s: Wait = 60.0  # how long healing waits for a broker to answer again

    def __post_init__(self) -> None:
        targets.check(self.target, targets.BROKERS)
        demand_bounds(self)

    @catch_no_effect
    def inject(self, cluster: FillableCluster, rng: Random) -> Receipt:
        """Fill the disk of the broker that has the role now, and wait for its complaint."""
        nodes = targets.find(self.target, cluster, rng)
        before = {node: cluster.disk_free(node) for node in nodes}
        running = pids(cluster, nodes)
        wanted = [node for node in nodes if before[node] > FULL]
        full = [f"{node} had no room before already" for node in nodes if node not in wanted]
        with undo_on_error(lambda: _give_back(cluster, wanted, alive(wanted, running))):
            tried, problems = attempt_within_budget(cluster.fill_disk, wanted)
            if not tried:
                return Receipt(role=self.target, evidence={"before": before}, effective=False, note="; ".join([*problems, *full]))
            evidence: dict[str, Any] = {"before": {node: before[node] for node in tried}}
            receipt = Receipt(role=self.target, targets=tuple(tried), evidence=evidence)
            return self._noticed(cluster, receipt, running, [*problems, *full])

    def _noticed(self, cluster: FillableCluster, receipt: Receipt, running: Pids, problems: list[str]) -> Receipt:
        """Listen to what those say whose disks are full now."""
        nodes = receipt.targets
        try:
            during = {node: cluster.disk_free(node) for node in nodes}
            left = poll_until(lambda: pids(cluster, nodes), lambda seen: not any(seen.values()), self.notice_s)
            words = _words(cluster, nodes)
        except (HarnessError, OSError) as error:  # the targets, so that healing starts what ended
            return replace(receipt, effective=False, note="; ".join([*problems, f"nobody could look: {error}"]))
        room = [node for node in nodes if during[node] > FULL]
        problems += [f"{node} still has {during[node]} bytes" for node in room]
        problems += [f"{node} was dead already" for node in nodes if running[node] is None]
        problems += [f"{node} has not noticed yet" for node in nodes if not words[node] and node not in room and running[node]]
        seen = {"before": {node: running[node] for node in nodes}, "during": left}
        full = [node for node in nodes if node not in room]
        evidence = {**receipt.evidence, "during": during, "words": words, "pids": seen, **hit_among(nodes, full)}
        return replace(receipt, evidence=evidence, effective=bool(full), note="; ".join(problems))

    def heal(self, cluster: FillableCluster, receipt: Receipt) -> Receipt:
        """Give back the room that it took, start what ended for want of it, and wait until it answers."""
        nodes = receipt.targets
        words = _words(cluster, nodes)
        seen: dict[str, Pids] = receipt.evidence.get("pids", {})
        problems = attempt_each(cluster.clear_disk, nodes)
        lived = [node for node in nodes if seen.get("before", {}).get(node, True) is not None]
        ending = [node for node in lived if words[node]]  # what complains may need a moment more to end
        poll_until(lambda: pids(cluster, ending), lambda now: not any(now.values()), ENDS_WITHIN_S)
        ended = [node for node in lived if words[node] or seen.get("during", {}).get(node) is None]
        dead = [node for node in ended if cluster.pid(node) is None]
        restarted = restart(cluster, dead, self.answer_within_s)
        after = {node: cluster.disk_free(node) for node in nodes}
        left = [node for node in nodes if after[node] <= FULL or node in restarted.left]
        healing = {**restarted.healing, "after": after, "words": words}
        return healed(receipt, healing, [*problems, *restarted.problems], left)


def _give_back(cluster: FillableCluster, nodes: Iterable[str], alive: Iterable[str]) -> None:
    """Undo an injection that broke off: no ballast is left, and who lived lives."""
    attempt_each(cluster.clear_disk, nodes)
    attempt_each(cluster.start, alive)


def _words(cluster: FillableCluster, nodes: Iterable[str]) -> dict[str, str]:
    return {node: cluster.disk_complaint(node) for node in nodes}
