"""Placement: partitions as targets, where their replicas are, and which broker leads them; for faults that move them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from random import Random
from typing import Any, ClassVar

from fencepost.harness.api import Cluster, ClusterError, ClusterView, HarnessError, Placement, Receipt, clock
from fencepost.harness.api.words import plural
from fencepost.nemesis.support.attempts import answer_or, undo_on_error
from fencepost.nemesis.support.changes import OverlappingChanges
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.no_effect import no_target_on_error
from fencepost.nemesis.support.strike import hit_among
from fencepost.nemesis.support.waiting import poll_until

INTERNAL = ("__transaction_state", "__consumer_offsets")
LED_WITHIN_S = 10.0

Orders = Mapping[str, tuple[str, ...]]  # partition -> its replicas, the preferred leader first


class PlacementChanges(OverlappingChanges[str, Placement]):
    """The changes that faults have made to the placement of each partition."""


def check(target: str, count: int = 1) -> None:
    """Raise ValueError unless the target is one that `find` knows."""
    head, _, name = target.partition(":")
    topic, _, number = name.rpartition("-")
    named = (head == "internal" and name) or (head == "partition" and topic and number.isdigit())
    if not (target in ("random", "all") or named):
        raise ValueError(f'unknown target "{target}". Allowed: random, all, partition:TOPIC-PARTITION, internal:NAME')
    if count < 1:
        raise ValueError(f"count = {count}: at least one partition must be moved")
    if count > 1 and target != "random" and head != "internal":
        raise ValueError(f'count = {count} goes with the targets "random" and "internal:NAME" only, not with "{target}"')


def find(target: str, cluster: Cluster, rng: Random, count: int = 1) -> tuple[str, ...]:
    """The partitions meant. Raises NoEffect, a ClusterError, when there are too few.

    random: so many of the workload's; all: all of these; partition:orders-0: this one; internal:NAME: so many of a topic
    that is not the workload's: NAME is its name, or the end of it after the run's prefix (`connect-offsets`).
    """
    with no_target_on_error(target):
        return _find(target, cluster, rng, count)


def _find(target: str, cluster: Cluster, rng: Random, count: int) -> tuple[str, ...]:
    head, _, name = target.partition(":")
    if target == "all":
        return tuple(cluster.topics)
    if head == "partition":
        return (name,)
    known = partitions_of(name, cluster) if head == "internal" else list(cluster.topics)
    if len(known) < count:
        where = f"topic {name}" if name else "the workload"
        raise ClusterError(f"{plural(count, 'partition')} wanted, but {where} has {len(known)}")
    return tuple(rng.sample(known, count))


def partitions_of(topic: str, cluster: Cluster) -> list[str]:
    """The partitions of a topic by its name, or the end of it after the run's prefix."""
    topics = {name: name.rpartition("-")[0] for name in cluster.admin().placements()}
    return sorted(name for name, own in topics.items() if own == topic or own.endswith(f"-{topic}"))


def placements_of(cluster: Cluster, partitions: Iterable[str]) -> dict[str, Placement]:
    """The placement of each partition. Raises ClusterError when one does not exist."""
    wanted = tuple(partitions)
    placements = cluster.admin().placements(wanted)
    if lost := [name for name in wanted if name not in placements]:
        raise ClusterError(f"there is no partition {', '.join(lost)}")
    return placements


def as_json(placements: Mapping[str, Placement]) -> dict[str, Any]:
    """Placements as plain JSON."""
    return {name: asdict(placement) for name, placement in placements.items()}


def out_of_sync(cluster: Cluster) -> str:
    """The partitions out of sync, of the workload's topics and Kafka's own, in words; empty when all are in sync."""
    topics = {name.rpartition("-")[0] for name in cluster.topics}
    try:
        lagging = cluster.admin().lagging([*topics, *INTERNAL])
    except HarnessError as error:
        return str(error)
    return "; ".join(f"{name} {text}" for name, text in lagging.items())


def change_leaders(cluster: ClusterView, role: str, partitions: Sequence[str], rng: Random) -> Receipt:
    """Give each partition another leader, one that is in sync. Evidence: where each is, before and during.

    The new leader is put first among the replicas and elected, so that Kafka's own balancing
    (`leader.imbalance.check.interval.seconds`) does not undo it. Raises NoEffect, with nothing moved, when nobody answers.
    """
    changes = cluster.shared(PlacementChanges)
    with changes.lock:
        with no_target_on_error(role):
            before = placements_of(cluster, partitions)
        wanted = {name: chosen for name, place in before.items() if (chosen := _other_in_sync(place, rng))}
        receipt = Receipt(role=role, evidence={"before": as_json(before)})
        problems = [f"{name} has no other replica in sync" for name in partitions if name not in wanted]
        if not wanted:
            return replace(receipt, effective=False, note="; ".join(problems))
        number = changes.add(before, {name: partial(_with_leader, node) for name, node in wanted.items()})
    with undo_on_error(lambda: changes.forget(number)):
        orders = {name: put_first(node, before[name].replicas) for name, node in wanted.items()}
        during, failed = reorder_and_elect(cluster, lambda: orders)
    stayed = [name for name, node in wanted.items() if leader_of(during, name) != node]
    problems += [*failed, *(f"{name} is led by {leader_of(during, name) or 'nobody'}" for name in stayed)]
    leaders = tuple(dict.fromkeys(before[name].leader for name in wanted if before[name].leader))
    moved = [name for name in wanted if name not in stayed]
    hit = hit_among(leaders, {before[name].leader for name in moved})
    return replace(
        receipt,
        targets=leaders,
        evidence={"number": number, "before": as_json(before), "during": as_json(during), **hit},
        effective=bool(moved),
        note="; ".join(problems),
    )


class LeaderMove:
    """A fault that moves leaders of partitions, as any cluster lets it: what it needs, and how it is healed."""

    needs: ClassVar[tuple[type, ...]] = ()
    least_brokers: ClassVar[int] = 2

    def heal(self, cluster: ClusterView, receipt: Receipt) -> Receipt:
        """Let the preferred replicas lead again."""
        return restore_leaders(cluster, receipt)


def restore_leaders(cluster: ClusterView, receipt: Receipt) -> Receipt:
    """Let each partition be led by whom it was, and have its old order again, as far as other faults did not move it too.

    Where the first replica did not lead before, Kafka's own balancing may let it lead any moment; that is no remark.
    """
    if "during" not in receipt.evidence:
        return receipt
    before, changes = receipt.evidence["before"], cluster.shared(PlacementChanges)
    with changes.undoing(receipt.evidence.get("number")):
        after, problems = reorder_and_elect(
            cluster, lambda: {n: put_first(p.leader, p.replicas) for n, p in expected_placements(cluster, before).items()}
        )
        if not problems:
            problems += request_orders(cluster, lambda: replica_orders(expected_placements(cluster, before)))
            after = poll_until(
                lambda: known_placements(cluster, before),
                lambda now: _orders_match(now, replica_orders(expected_placements(cluster, before))),
                LED_WITHIN_S,
            )
        wanted = expected_placements(cluster, before)
    astray = [name for name, place in wanted.items() if leader_of(after, name) not in (place.leader, place.replicas[0])]
    problems += [f"{name} is led by {leader_of(after, name) or 'nobody'} after healing" for name in astray]
    problems += overlap_notes(cluster, before)
    return healed(receipt, {"after": as_json(after)}, problems)


def expected_placements(cluster: ClusterView, before: Mapping[str, Mapping[str, Any]]) -> dict[str, Placement]:
    """The placements that healing must restore: those before the fault, with the moves of other faults in force."""
    placements = {name: Placement(**{"leader": "", "in_sync": (), **place}) for name, place in before.items()}
    return {name: cluster.shared(PlacementChanges).expected(name, place) for name, place in placements.items()}


def replica_orders(places: Mapping[str, Placement]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(place.replicas) for name, place in places.items()}


def overlap_notes(cluster: ClusterView, partitions: Iterable[str]) -> list[str]:
    """A remark for each partition that another fault has moved, too."""
    return [f"{name} stays as another fault moved it" for name in partitions if cluster.shared(PlacementChanges).is_changed(name)]


def reorder_and_elect(cluster: ClusterView, orders: Callable[[], Orders]) -> tuple[dict[str, Placement], list[str]]:
    """Put the replicas of each partition into the order wanted and let the first lead; where they are, and what went wrong.

    Asked again and again for LED_WITHIN_S seconds: a replica that is not in sync yet cannot be elected.
    """
    deadline = clock.monotonic() + LED_WITHIN_S
    while True:
        problems = request_orders(cluster, orders, elect=True)
        seen = poll_until(
            lambda: known_placements(cluster, orders()), lambda seen: _leaders_match(seen, orders()), min(1.0, LED_WITHIN_S)
        )
        if _leaders_match(seen, orders()):
            return seen, []
        if clock.monotonic() >= deadline:
            return seen, problems


def request_orders(cluster: ClusterView, orders: Callable[[], Orders], elect: bool = False) -> list[str]:
    """Order that partitions are where they are wanted right now, and maybe led by their first replicas; what went wrong."""
    try:
        with cluster.shared(PlacementChanges).lock:
            wanted = orders()
            now = placements_of(cluster, wanted)
            if change := {name: order for name, order in wanted.items() if now[name].replicas != order}:
                cluster.admin().reassign(change)
            if elect and (others := [name for name, order in wanted.items() if now[name].leader != order[0]]):
                cluster.admin().elect(others)
    except HarnessError as error:
        return [str(error)]
    return []


def known_placements(cluster: Cluster, partitions: Iterable[str]) -> dict[str, Placement]:
    """The placements of these partitions; empty when no broker answers."""
    return answer_or({}, cluster.admin().placements, partitions)


def leader_of(seen: Mapping[str, Placement], name: str) -> str:
    return seen[name].leader if name in seen else ""


def put_first(node: str, nodes: Sequence[str]) -> tuple[str, ...]:
    """The nodes with this one at their head, if it is among them."""
    return (*(same for same in nodes if same == node), *(other for other in nodes if other != node))


def _orders_match(seen: Mapping[str, Placement], orders: Orders) -> bool:
    return all(name in seen and seen[name].replicas == order for name, order in orders.items())


def _leaders_match(seen: Mapping[str, Placement], orders: Orders) -> bool:
    return all(name in seen and seen[name].replicas == order and seen[name].leader == order[0] for name, order in orders.items())


def _with_leader(node: str, place: Placement) -> Placement:
    """The placement with this replica as its preferred leader; as it is when the node holds none."""
    return replace(place, leader=node, replicas=put_first(node, place.replicas)) if node in place.replicas else place


def _other_in_sync(place: Placement, rng: Random) -> str:
    """A replica in sync that does not lead; empty when there is none."""
    others = sorted(node for node in place.in_sync if node and node != place.leader)
    return rng.choice(others) if others else ""
