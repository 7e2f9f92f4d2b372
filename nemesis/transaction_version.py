"""Transaction version: the feature that decides which protocol transactions speak is lowered or raised under load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Annotated, ClassVar

from fencepost.harness.api import Between, Cluster, ClusterError, ClusterView, Receipt
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support.attempts import answer_or, attempt_each, undo_on_error
from fencepost.nemesis.support.changes import OverlappingChanges
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.no_effect import catch_no_effect, no_effect_on_error
from fencepost.nemesis.support.waiting import poll_until

FEATURE = "transaction.version"
SEEN_WITHIN_S = 15.0

Levels = Mapping[str, int]  # broker -> the level that it has


class FeatureChanges(OverlappingChanges[str, int]):
    """The changes that faults have made to features: name -> level."""


@dataclass(frozen=True, kw_only=True)
class TransactionVersion:
    """Sets the cluster's feature `transaction.version` (KIP-890), as `kafka-features.sh` does; healing gives it its former level.

    At level 2 clients that know protocol v2 speak it: each transaction raises the producer's epoch. At 0 and 1 all speak v1. A
    client learns of a change from a broker, perhaps in the middle of a transaction. To raise the level, start the cluster with
    a lower one: `features = { "transaction.version" = 1 }`. Evidence: the level that each broker has, before, during and after.
    """

    needs: ClassVar[tuple[type, ...]] = ()

    level: Annotated[int, Between(0, 2)] = 1  # while the fault lasts

    def __post_init__(self) -> None:
        demand_bounds(self)

    @catch_no_effect
    def inject(self, cluster: ClusterView, rng: Random) -> Receipt:
        """Set the level, and look until every broker that answers has it."""
        changes = cluster.shared(FeatureChanges)
        with no_effect_on_error("all"), changes.lock:
            before = _levels(cluster)
            if set(before.values()) == {self.level}:
                raise ClusterError(f"{FEATURE} is {self.level} already")
            number = changes.add({FEATURE: _usual(before)}, {FEATURE: partial(_constant, self.level)})
            with undo_on_error(lambda: _restore(cluster, number)):
                problems = _set(cluster, self.level)
        with undo_on_error(lambda: _restore(cluster, number)):
            during = _seen(cluster, self.level, 0.0 if problems else SEEN_WITHIN_S)
        changed = tuple(node for node, level in during.items() if level == self.level != before.get(node))
        return Receipt(
            role="all",
            targets=changed,
            evidence={"number": number, "before": {FEATURE: before}, "during": {FEATURE: during}},
            effective=bool(changed),
            note="; ".join([*problems, *_others(during, self.level)]),
        )

    def heal(self, cluster: ClusterView, receipt: Receipt) -> Receipt:
        """Give the feature its former level back, or the one that another fault wants."""
        number = receipt.evidence.get("number")
        if number is None:
            return healed(receipt, {"after": {FEATURE: _seen(cluster)}}, [])
        after, problems = _restore(cluster, number)
        wanted = cluster.shared(FeatureChanges).expected(FEATURE, self.level)
        astray = _others(after, wanted)
        if cluster.shared(FeatureChanges).is_changed(FEATURE):
            problems.append(f"{FEATURE} stays {wanted} as another fault set it")
        return healed(receipt, {"after": {FEATURE: after}}, [*problems, *astray], [FEATURE] if astray or not after else [])


def _constant(value: int, _: int) -> int:
    return value


def _levels(cluster: Cluster) -> dict[str, int]:
    """The level that each broker that answers has. Raises ClusterError when none does."""
    return {node: features.get(FEATURE, 0) for node, features in cluster.admin().features().items()}


def _usual(levels: Levels) -> int:
    """The level that most brokers have: a change may not have reached every one yet."""
    return Counter(levels.values()).most_common(1)[0][0]


def _seen(cluster: Cluster, wanted: int | None = None, within_s: float = 0.0) -> dict[str, int]:
    """The levels when every broker has the one that is wanted, or when the time is over; empty when nobody answers."""
    return poll_until(lambda: answer_or({}, _levels, cluster), lambda levels: set(levels.values()) == {wanted}, within_s)


def _set(cluster: Cluster, level: int) -> list[str]:
    """Set the level; the text of what failed. A request that was not answered may have been carried out."""
    return attempt_each(partial(cluster.admin().set_feature, FEATURE), [level])


def _restore(cluster: ClusterView, number: int) -> tuple[dict[str, int], list[str]]:
    """Undo one change of the level: the levels after it, and what failed."""
    changes = cluster.shared(FeatureChanges)
    with changes.undoing(number):
        with changes.lock:
            levels = _seen(cluster)
            wanted = changes.expected(FEATURE, _usual(levels) if levels else 0)
            problems = [] if set(levels.values()) == {wanted} else _set(cluster, wanted)
        return _seen(cluster, wanted, 0.0 if problems else SEEN_WITHIN_S), problems


def _others(levels: Levels, wanted: int) -> list[str]:
    """A remark for each broker that has another level."""
    return [f"{node} has {FEATURE} {level}" for node, level in levels.items() if level != wanted]
