"""Reassign: replicas of partitions move to other brokers under load, as when a cluster grows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Annotated, ClassVar

from fencepost.harness.api import Between, ClusterView, Placement, Receipt, Wait
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support import placement
from fencepost.nemesis.support.attempts import undo_on_error
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.no_effect import catch_no_effect, no_effect_on_error
from fencepost.nemesis.support.strike import hit_among
from fencepost.nemesis.support.waiting import poll_until

FEWEST = 2  # replicas that a partition keeps


@dataclass(frozen=True, kw_only=True)
class Reassign:
    """Moves one replica of each partition to a broker that has none; healing moves it back and waits until it is in sync.

    The moving replica may be the leader. Where every broker holds a replica already (3 brokers, 3 replicas), one of three or more
    is taken away instead, and comes back, empty, at healing. Evidence: leader, replicas, in-sync replicas before, during, after.
    """

    needs: ClassVar[tuple[type, ...]] = ()
    least_brokers: ClassVar[int] = 2
    counts: ClassVar[str] = "partitions"  # what `count` counts, where it is not brokers

    target: str = "random"  # the partitions: random, all (of the workload), partition:orders-0, internal:connect-offsets
    count: Annotated[int, Between(1, 5000)] = 1  # how many, with the targets random and internal:NAME
    moved_within_s: Wait = 10.0  # how long to wait for the move
    back_within_s: Wait = 30.0  # how long healing waits for the way back

    def __post_init__(self) -> None:
        placement.check(self.target, self.count)
        demand_bounds(self)

    @catch_no_effect
    def inject(self, cluster: ClusterView, rng: Random) -> Receipt:
        """Move now, and wait until the new replicas are in sync."""
        moves = cluster.shared(placement.PlacementChanges)
        with no_effect_on_error(self.target), moves.lock:
            partitions = placement.find(self.target, cluster, rng, self.count)
            before, there = placement.placements_of(cluster, partitions), cluster.admin().in_service()
            wanted = {name: order for name, place in before.items() if (order := _new_order(place, there, rng))}
            receipt = Receipt(role=self.target, evidence={"before": placement.as_json(before)})
            if not wanted:
                text = f"nothing can move: each has a replica on all of {', '.join(there)}, and none is to spare"
                return replace(receipt, effective=False, note=text)
            changes = {name: partial(_apply_move, before[name].replicas, order) for name, order in wanted.items()}
            number = moves.add(before, changes)
            with undo_on_error(lambda: moves.forget(number)):
                cluster.admin().reassign(wanted)
        with undo_on_error(lambda: moves.forget(number)):
            during = poll_until(
                lambda: placement.known_placements(cluster, wanted), lambda seen: _in_place(seen, wanted), self.moved_within_s
            )
        late = [name for name in wanted if not _in_place(during, {name: wanted[name]})]
        begun = [name for name in wanted if name in during and set(during[name].replicas) != set(before[name].replicas)]
        changing = {name: {*wanted[name]} ^ {*before[name].replicas} for name in wanted}
        nodes = sorted(set().union(*changing.values()))
        problems = [f"{name} cannot move" for name in partitions if name not in wanted]
        problems += [f"{name} had not moved after {self.moved_within_s:g} s" for name in late]
        evidence = {"number": number, **receipt.evidence, "wanted": wanted, "during": placement.as_json(during)}
        return replace(
            receipt,
            targets=tuple(nodes),
            evidence=evidence | hit_among(nodes, set().union(*(changing[name] for name in begun))),
            effective=bool(begun),
            note="; ".join(problems),
        )

    def heal(self, cluster: ClusterView, receipt: Receipt) -> Receipt:
        """Move back what it moved, wait until every replica is in sync again, and let the preferred ones lead."""
        if "during" not in receipt.evidence:
            return receipt
        before = {name: receipt.evidence["before"][name] for name in receipt.evidence["wanted"]}

        def orders() -> dict[str, tuple[str, ...]]:
            return placement.replica_orders(placement.expected_placements(cluster, before))

        with cluster.shared(placement.PlacementChanges).undoing(receipt.evidence.get("number")):
            problems = placement.request_orders(cluster, orders)
            after = poll_until(
                lambda: placement.known_placements(cluster, before), lambda seen: _in_place(seen, orders()), self.back_within_s
            )
            late = [name for name, order in orders().items() if not _in_place(after, {name: order})]
            problems += [f"{name} was not back after {self.back_within_s:g} s" for name in late]
            if not problems:
                after, problems = placement.reorder_and_elect(cluster, orders)
        problems += placement.overlap_notes(cluster, before)
        return healed(receipt, {"after": placement.as_json(after)}, problems, late)


def _new_order(place: Placement, brokers: tuple[str, ...], rng: Random) -> tuple[str, ...]:
    """The replicas with one of them exchanged for a broker that has none; or without it; empty when neither can be."""
    leaving = rng.choice(list(place.replicas))
    spare = [node for node in brokers if node not in place.replicas]
    if spare:
        coming = rng.choice(spare)
        return tuple(coming if node == leaving else node for node in place.replicas)
    return tuple(node for node in place.replicas if node != leaving) if len(place.replicas) > FEWEST else ()


def _apply_move(before: tuple[str, ...], order: tuple[str, ...], place: Placement) -> Placement:
    """A placement with the same replica exchanged, or taken away, as between these two orders; as it is where that cannot be."""
    (leaving,), coming = set(before) - set(order), "".join(set(order) - set(before))
    now = place.replicas
    if leaving not in now or coming in now or (not coming and len(now) <= FEWEST):
        return place
    moved = tuple(coming if node == leaving else node for node in now if coming or node != leaving)
    return replace(place, replicas=moved, leader=moved[0] if place.leader == leaving else place.leader)


def _in_place(seen: dict[str, Placement], wanted: dict[str, tuple[str, ...]]) -> bool:
    """Return whether the replicas are these and no others, all in sync."""
    return all(
        name in seen and seen[name].replicas == order and set(seen[name].in_sync) == set(order) for name, order in wanted.items()
    )
