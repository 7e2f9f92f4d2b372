"""Clock skew: a broker's wall clock jumps, as after a lost time server or a restored virtual machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Annotated, ClassVar, Literal

from fencepost.harness.api import Between, HarnessError, Receipt, Skewable
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support import targets
from fencepost.nemesis.support.attempts import attempt_each, undo_on_error
from fencepost.nemesis.support.cluster_types import SkewableCluster
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.no_effect import catch_no_effect, no_effect_on_error
from fencepost.nemesis.support.strike import hit_among

Direction = Literal["ahead", "behind", "random"]
EXACT_S = 1.0  # a clock that is read over the network is known to about this
LEAST_S = 3.0  # so far off, a clock is wrong


@dataclass(frozen=True, kw_only=True)
class ClockSkew:
    """Sets a broker's wall clock ahead or behind, at once. Healing corrects it. Monotonic time (timeouts) is not affected.

    A clock that is wrong already belongs to another fault; it is left alone, and so is one that cannot be read.
    Evidence: how far the clock is ahead before, during and after, by the date that the broker writes into its log.
    """

    needs: ClassVar[tuple[type, ...]] = (Skewable,)

    target: str = "random"  # the role whose clock jumps
    by_s: Annotated[float, Between(LEAST_S, 10 * 365 * 86400)] = 60.0  # how far
    direction: Direction = "random"  # ahead, behind, or one of them at random each time

    def __post_init__(self) -> None:
        targets.check(self.target, targets.BROKERS)
        demand_bounds(self)

    @catch_no_effect
    def inject(self, cluster: SkewableCluster, rng: Random) -> Receipt:
        """Set the clock of the broker that has the role now."""
        direction = rng.choice(["ahead", "behind"]) if self.direction == "random" else self.direction
        by_s = self.by_s if direction == "ahead" else -self.by_s
        nodes = targets.find(self.target, cluster, rng)
        with no_effect_on_error(self.target, "nobody could look: "):
            before = _offsets(cluster, nodes)
        correct = _correct_nodes(before)
        problems = [f"{node} does not tell its time" for node in nodes if before[node] is None]
        problems += [f"{node} is {before[node]:g} s ahead already" for node in _known(before) if node not in correct]
        receipt = Receipt(role=self.target, targets=nodes, evidence={"before": before, "by_s": by_s})
        with undo_on_error(lambda: _correct_clocks(cluster, correct)):
            problems += attempt_each(lambda node: cluster.skew(node, by_s), correct)
            try:
                during = _offsets(cluster, nodes)
            except (HarnessError, OSError) as error:  # the targets, so that healing sets them right
                return replace(receipt, effective=False, note="; ".join([*problems, f"nobody could look: {error}"]))
        silent = [node for node in correct if during[node] is None]
        wrong = [node for node in correct if (seen := during[node]) is not None and abs(seen - by_s) > EXACT_S]
        problems += [f"{node} does not tell its time any more" for node in silent]
        problems += [f"{node} is {during[node]:g} s ahead, not {by_s:g}" for node in wrong]
        struck = set(correct) - set(_correct_nodes(during)) - set(silent)
        evidence = {"before": before, "during": during, "by_s": by_s, **hit_among(nodes, struck)}
        return replace(receipt, evidence=evidence, effective=bool(struck), note="; ".join(problems))

    def heal(self, cluster: SkewableCluster, receipt: Receipt) -> Receipt:
        """Set right those that were right before, and look."""
        before: dict[str, float | None] = dict(receipt.evidence.get("before", {}))
        nodes = _correct_nodes(before)
        problems = _correct_clocks(cluster, nodes)
        after = _offsets(cluster, nodes)
        wrong = {node: seen for node, seen in _known(after).items() if abs(seen) > EXACT_S}
        problems += [f"{node} is still {seen:g} s ahead" for node, seen in wrong.items()]
        return healed(receipt, {"after": after}, problems, wrong)


def _offsets(cluster: SkewableCluster, nodes: Iterable[str]) -> dict[str, float | None]:
    return {node: cluster.clock_ahead(node) for node in nodes}


def _known(ahead: Mapping[str, float | None]) -> dict[str, float]:
    return {node: seen for node, seen in ahead.items() if seen is not None}


def _correct_nodes(ahead: Mapping[str, float | None]) -> list[str]:
    """The nodes with a correct clock before the fault, as far as it could be read."""
    return [node for node, seen in _known(ahead).items() if abs(seen) <= LEAST_S - EXACT_S]


def _correct_clocks(cluster: SkewableCluster, nodes: Iterable[str]) -> list[str]:
    return attempt_each(lambda node: cluster.skew(node, 0.0), nodes)
