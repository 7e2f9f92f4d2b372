"""Delete topic: an operator deletes a topic that is in use, and creates it again, as it was but empty."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar

from fencepost.harness.api import Cluster, ClusterError, ClusterView, HarnessError, Receipt, Wait
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support import placement
from fencepost.nemesis.support.attempts import answer_or, attempt_each
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.no_effect import catch_no_effect, no_target_on_error
from fencepost.nemesis.support.waiting import poll_until

RECORDS, OFFSETS = "records", "offsets"  # what a deleted topic holds, in the words of the contract
KAFKAS, CONFIGURATION = "__", "-configs"


@dataclass
class TopicLayouts:
    """The layouts of topics before the first fault that deleted them.

    lock: held from reading to changing.
    known: topic -> its layout.
    """

    lock: Any = field(default_factory=threading.RLock)
    known: dict[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DeleteTopic:
    """Deletes a topic with all its records; healing creates it again, with the same partitions, replicas and settings.

    What the topic held is gone, so the test has to say so in its contract: `topic_deletions = "records"`, or `"offsets"` where
    `internal:NAME` is an offsets topic of Kafka Connect's. When somebody else has created the topic meanwhile, healing gives it
    its replicas and settings. Kafka's own topics, and Connect's configuration topic, are refused. Evidence: the topic's id
    (KIP-516) as each broker has it, before, during and after, and when it was deleted and was known again.
    """

    needs: ClassVar[tuple[type, ...]] = ()

    target: str = "random"  # the topic: random (one of the workload's), topic:NAME, internal:connect-offsets
    gone_within_s: Wait = 10.0  # how long to wait until every broker that answers has learnt of it
    back_within_s: Wait = 30.0  # how long healing waits until it is led, in sync, and known to every broker

    def __post_init__(self) -> None:
        demand_bounds(self)
        head, _, name = self.target.partition(":")
        if self.target != "random" and not (head in ("topic", "internal") and name):
            raise ValueError(f'unknown target "{self.target}". Allowed: random, topic:NAME, internal:NAME')
        if head == "internal" and (name.startswith(KAFKAS) or name.endswith(CONFIGURATION)):
            raise ValueError(f'target "{self.target}": Kafka, or Connect, cannot go on without it, and nothing is promised then')

    def demanded_contract(self) -> Mapping[str, str]:
        """See `harness.api.DemandsContract`."""
        return {"topic_deletions": OFFSETS if self.target.startswith("internal:") else RECORDS}

    @catch_no_effect
    def inject(self, cluster: ClusterView, rng: Random) -> Receipt:
        """Delete it, and look until every broker that answers has learnt of it."""
        layouts = cluster.shared(TopicLayouts)
        with layouts.lock:
            with no_target_on_error(self.target):
                topic = self._topic(cluster, rng)
                before = {"ids": _known_ids(cluster, topic), **_layout(cluster, topic)}
                began = {"topic": topic, **_now("began")}
                layouts.known.setdefault(topic, _layout(cluster, topic))
            problems = attempt_each(cluster.admin().delete_topic, [topic])  # one that seems to have failed may be carried out
        old = set(before["ids"].values())
        during = poll_until(
            lambda: _ids(cluster, topic), lambda ids: bool(ids) and not old & set(ids.values()), self.gone_within_s
        )
        problems += [f"{node} still has {topic}" for node in sorted(during) if during[node] in old]
        problems += [] if during else ["no broker tells of topics"]
        return Receipt(
            role=self.target,
            targets=_holders(before),
            evidence={"before": {topic: before}, "during": {topic: {"ids": during}}, "deletions": [began]},
            effective=any(during[node] not in old for node in before["ids"] if node in during),
            note="; ".join(problems),
        )

    def heal(self, cluster: ClusterView, receipt: Receipt) -> Receipt:
        """Create it again, unless it is there, with its former layout, and wait until every broker knows it."""
        if not receipt.evidence.get("deletions"):
            return receipt
        topic, layouts = receipt.evidence["deletions"][0]["topic"], cluster.shared(TopicLayouts)
        layout = layouts.known.get(topic, receipt.evidence["before"][topic])
        problems = poll_until(lambda: _restored(cluster, topic, layout), lambda differences: not differences, self.back_within_s)
        old = set(receipt.evidence["before"][topic]["ids"].values())

        def settled(ids: Mapping[str, str]) -> bool:
            there = _is_back(ids, old) or (receipt.effective is False and set(ids.values()) == old)
            return there and len(ids) >= len(cluster.brokers)

        after = poll_until(lambda: _ids(cluster, topic), settled, self.back_within_s)
        again: dict[str, Any] = {"deleted": not set(after.values()) <= old, **(_now("known") if settled(after) else {})}
        left = [topic] if problems or not set(after.values()) or not all(after.values()) else []
        return healed(
            receipt, {"after": {topic: {"ids": after}}, "again": {**again, **receipt.healing.get("again", {})}}, problems, left
        )

    def _topic(self, cluster: Cluster, rng: Random) -> str:
        """The topic to delete. Raises ClusterError when there is none."""
        head, _, name = self.target.partition(":")
        partitions = placement.partitions_of(name, cluster) if head == "internal" else cluster.topics
        topics = sorted({partition.rpartition("-")[0] for partition in partitions})
        if not topics or (head == "topic" and name not in topics):
            raise ClusterError(f"there is no topic for {self.target}")
        return name if head == "topic" else rng.choice(topics)


def _now(what: str) -> dict[str, int]:
    """This moment by both clocks: as brokers stamp markers (ms since 1970), and as histories have it (CLOCK_MONOTONIC ns)."""
    return {f"{what}_ms": time.time_ns() // 1_000_000, f"{what}_ns": time.monotonic_ns()}


def _layout(cluster: Cluster, topic: str) -> dict[str, Any]:
    """The replicas of each partition, and the topic's own settings. Raises ClusterError when there is no such topic."""
    places = cluster.admin().placements()
    mine = {name: place for name, place in places.items() if name.rpartition("-")[0] == topic}
    if not mine:
        raise ClusterError(f"there is no topic {topic}")
    replicas = [list(mine[f"{topic}-{number}"].replicas) for number in range(len(mine))]
    return {"replicas": replicas, "settings": cluster.admin().topic_settings(topic)}


def _holders(layout: Mapping[str, Any]) -> tuple[str, ...]:
    """The nodes that held a replica."""
    return tuple(sorted({node for nodes in layout["replicas"] for node in nodes if node}))


def _known_ids(cluster: Cluster, topic: str) -> dict[str, str]:
    """The topic's id as each broker that answers has it. Raises ClusterError when none tells one."""
    ids = cluster.admin().topic_ids(topic)
    if not any(ids.values()):
        raise ClusterError(f"no broker tells the id of {topic}")
    return ids


def _ids(cluster: Cluster, topic: str) -> dict[str, str]:
    """The topic's id by broker; empty when no broker answers."""
    return answer_or({}, cluster.admin().topic_ids, topic)


def _is_back(ids: Mapping[str, str], old: set[str]) -> bool:
    """Return whether all brokers that answer have the same new id."""
    return len(set(ids.values())) == 1 and all(ids.values()) and not old & set(ids.values())


def _restored(cluster: ClusterView, topic: str, layout: Mapping[str, Any]) -> list[str]:
    """Order what the topic lacks of its layout; what it still lacks, in words."""
    try:
        with cluster.shared(TopicLayouts).lock:
            if not any(cluster.admin().topic_ids(topic).values()):
                cluster.admin().create_placed_topic(topic, layout["replicas"], layout["settings"])
        now = _layout(cluster, topic)
        if other := _otherwise(now["settings"], layout["settings"]):
            cluster.admin().set_topic_settings(topic, other)
        if len(now["replicas"]) != len(layout["replicas"]):
            return _too_few(cluster, topic, len(now["replicas"]), len(layout["replicas"]))
        if moved := _moved(topic, now["replicas"], layout["replicas"]):
            cluster.admin().reassign(moved)
        behind = cluster.admin().lagging([topic])
    except HarnessError as error:
        return [str(error)]
    return [f"{name} is {text}" for name, text in behind.items()]


def _too_few(cluster: Cluster, topic: str, now: int, wanted: int) -> list[str]:
    """Add the partitions that somebody else's topic lacks. Raises ClusterError."""
    if now < wanted:
        cluster.admin().add_partitions(topic, wanted)
    return [f"{topic} has {now} partitions instead of {wanted}"]


def _otherwise(now: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str | None]:
    """The changes that a topic's own settings need; None removes a setting."""
    settings = {**dict.fromkeys(now), **wanted}
    return {name: value for name, value in settings.items() if now.get(name) != value}


def _moved(topic: str, now: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Partitions that are elsewhere than they were, with where they were."""
    pairs = enumerate(zip(now, wanted, strict=True))
    return {f"{topic}-{number}": tuple(old) for number, (new, old) in pairs if list(new) != list(old)}
