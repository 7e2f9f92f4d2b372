"""The kit sees what stays of faults that kill nobody and cut nothing: bad links, slow disks, clocks, settings, placements."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import ClassVar

import pytest

from fencepost.harness.api import Receipt
from fencepost.harness.conformance import snapshot
from fencepost.harness.conformance.fixture import Bounds
from fencepost.harness.conformance.stories import Kit
from fencepost.harness.plugins import registry
from fencepost.nemesis.clock_skew import ClockSkew
from fencepost.nemesis.disk_full import DiskFull
from fencepost.nemesis.reassign import Reassign
from fencepost.nemesis.testing import FakeCluster
from fencepost.nemesis.topic_settings import TopicSettings

QUICK = Bounds(inject_s=30.0, heal_s=30.0, whole_s=0.0, active_s=0.0, breaks=20)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr("fencepost.nemesis.support.placement.LED_WITHIN_S", 0.1)
    monkeypatch.setattr("fencepost.nemesis.topic_settings.SEEN_WITHIN_S", 0.1)


def played(fault, until="", cluster=None):
    """Story -> its result, up to but without `until`."""
    kit = Kit(cluster or FakeCluster(clients=3, groups=("g",)), fault, 7, QUICK)
    return {result.story: result for result in takewhile(lambda result: result.story != until, kit.play())}


def fault_of(kind):
    return registry.build(registry.load("nemesis", kind), {"notice_s": 0.0} if kind == "slow-disk" else {}, kind)


def idle(cls):
    """A fault whose heal does nothing, and says that it looked."""
    healed = {"heal": lambda self, cluster, receipt: replace(receipt, healing={"after": {}})}
    return dataclass(frozen=True, kw_only=True)(type(f"Idle{cls.__name__}", (cls,), healed))()


@pytest.mark.parametrize(
    ("kind", "left"),
    [
        ("packet-loss", "what it began by lose goes on"),
        ("latency", "what it began by slow goes on"),
        ("bandwidth", "what it began by slow goes on"),
        ("slow-disk", "what it began by throttle goes on"),
        ("clock-skew", "clock of n1: right -> "),
        ("disk-full", "disk of n2: has room -> full"),
        ("topic-settings", "settings of t: none -> segment.bytes = 1048576, segment.ms = 1000"),
        ("transaction-version", "level of transaction.version: 2 -> 1"),
        ("delete-topic", "nobody tells replicas of t-0"),
        ("revoke-acl", "rights of "),
        ("reassign", "replicas of t-1: n1 n2 n3 -> "),
        ("move-leaders", "order of replicas of t-1: n2 n3 n1 -> "),
        ("move-coordinator", "order of replicas of __transaction_state-"),
        ("move-group-coordinator", "order of replicas of __consumer_offsets-"),
    ],
)
def test_a_heal_that_does_nothing_fails_and_the_kit_heals_instead(kind, left):
    cluster = FakeCluster(clients=3, groups=("g",))
    normal = snapshot.take(cluster)
    stories = played(idle(registry.load("nemesis", kind)), "heals its own", cluster)
    assert stories["heal"].ok is False
    assert f"after healing {left}" in stories["heal"].seen
    assert "undo all of it in heal" in stories["heal"].change
    assert stories["heal twice"].ok is True
    assert snapshot.hurt(snapshot.take(cluster), normal) == []
    assert cluster.whole()


@pytest.mark.parametrize(
    ("kind", "broke", "left"),
    [
        ("packet-loss", "measure", "what it began by lose"),
        ("latency", "measure", "what it began by slow"),
        ("bandwidth", "measure", "what it began by slow"),
        ("slow-disk", "disk_waits", "what it began by throttle"),
    ],
)
def test_a_fault_that_undoes_nothing_when_a_call_fails_is_rejected(kind, broke, left, monkeypatch):
    module = registry.load("nemesis", kind).__module__
    assert played(fault_of(kind))["broke off"].ok is True
    monkeypatch.setattr(f"{module}.undo_on_error", lambda undo: nullcontext())
    stories = played(fault_of(kind))
    assert [story for story, result in stories.items() if result.ok is False] == ["broke off"]
    assert f"{broke} was refused; after healing {left} goes on" in stories["broke off"].seen


@dataclass(frozen=True, kw_only=True)
class LeavesSettings(TopicSettings):
    """It breaks off before it has looked, and leaves the settings."""

    def inject(self, cluster, rng):
        cluster.admin().set_topic_settings("t", {"segment.ms": "1000"})
        evidence = {"before": {"t": {"segment.ms": None}}, "during": cluster.admin().topic_settings("t")}
        return Receipt(role="random", targets=cluster.brokers, evidence=evidence, effective=True)


@dataclass(frozen=True, kw_only=True)
class LeavesMoved(Reassign):
    """It breaks off before it has looked, and leaves the partition where it is."""

    def inject(self, cluster, rng):
        admin = cluster.admin()
        before = {"t-0": {"replicas": admin.placements(["t-0"])["t-0"].replicas}}
        admin.reassign({"t-0": ("n1", "n2")})
        evidence = {"before": before, "wanted": {"t-0": ("n1", "n2")}, "during": sorted(admin.placements(["t-0"]))}
        return Receipt(role="random", targets=("n3",), evidence=evidence, effective=True)


@dataclass(frozen=True, kw_only=True)
class LeavesClock(ClockSkew):
    """It breaks off before it has looked, and its heal knows of no broker then."""

    def inject(self, cluster, rng):
        before = cluster.clock_ahead("n1")
        cluster.skew("n1", 60.0)
        during = cluster.clock_ahead("n1")
        receipt = Receipt(role="random", targets=("n1",), evidence={"before": before, "during": during})
        return replace(receipt, effective=during is not None, note="" if during else "n1 does not tell its time")

    def heal(self, cluster, receipt):
        for node in receipt.targets:
            cluster.skew(node, 0.0)
        return replace(receipt, healing={"after": "right"})


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        (LeavesSettings(), "topic_settings was refused; after healing settings of t: none -> segment.ms = 1000"),
        (LeavesMoved(back_within_s=0.0), "placements was refused; after healing replicas of t-0: n1 n2 n3 -> n1 n2"),
        (LeavesClock(), "clock_ahead was refused; after healing clock of n1: right -> ahead"),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "inject") else "",
)
def test_damage_that_a_failed_inject_leaves_is_found(fault, seen):
    stories = played(fault)
    assert [story for story, result in stories.items() if result.ok is False] == ["broke off"], stories
    assert seen in stories["broke off"].seen


@dataclass(frozen=True, kw_only=True)
class StartsOnly(DiskFull):
    """Its heal starts the broker, whose disk stays full."""

    def heal(self, cluster, receipt):
        for node in receipt.targets:
            cluster.start(node)
        return replace(receipt, healing={"after": "started"})


def test_a_running_broker_with_a_full_disk_counts_as_hurt():
    assert played(StartsOnly(), "heal twice")["heal"].seen == "after healing disk of n2: has room -> full"


@dataclass(frozen=True, kw_only=True)
class Unseen:
    """It hurts by a way of its own, past everything that the kit watches."""

    needs: ClassVar[tuple[type, ...]] = ()
    hurts: ClassVar[list[str]] = []

    def inject(self, cluster, rng):
        self.hurts.append("n1")
        return Receipt(targets=("n1",), evidence={"before": 0, "during": len(self.hurts)}, effective=True)

    def heal(self, cluster, receipt):
        return replace(receipt, healing={"after": self.hurts.clear()})


def test_broke_off_is_undecided_when_no_call_was_seen_to_hurt():
    answer = played(Unseen())["broke off"]
    assert answer.ok is None
    assert answer.seen.startswith("could not be shown: no call that is known to hurt was seen")


def test_a_clock_that_cannot_be_read_is_neither_right_nor_wrong():
    """A dead broker tells none, and a fault that found it dead has not hurt its clock."""
    cluster = FakeCluster()
    before = snapshot.take(cluster)
    cluster.kill("n1")
    assert "n1" not in snapshot.take(cluster).of(snapshot.CLOCK)
    assert not [text for text in snapshot.changes(before, snapshot.take(cluster)) if text.startswith(snapshot.CLOCK)]
    assert "nobody tells clock of n1" in snapshot.hurt(snapshot.take(cluster), before)


def test_partitions_of_others_on_a_shared_cluster_are_left_out():
    cluster = FakeCluster(topics=("t-0",))
    assert [*snapshot.take(cluster, snapshot.ORDER).of(snapshot.ORDER)][:2] == ["t-0", "__transaction_state-0"]
    cluster.only_clients = "brokers are not ours"
    assert [*snapshot.take(cluster, snapshot.ORDER).of(snapshot.ORDER)] == ["t-0"]
