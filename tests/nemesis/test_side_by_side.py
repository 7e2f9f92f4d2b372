"""Two faults at once on the same thing: each heals only what it did itself, and its receipt claims no more."""

from itertools import product

import pytest

from fencepost.harness.api.plans import Injection
from fencepost.harness.perform.fault_runner import FaultRunner
from fencepost.harness.perform.performer import make_fault
from fencepost.nemesis import topic_settings
from fencepost.nemesis.support import placement
from fencepost.nemesis.testing import FakeClock, FakeCluster

QUICK = {
    "disk-full": {"notice_s": 0},
    "isolate-then-kill": {"alone_s": 0},
    "rolling-restart": {"gone_within_s": 0, "within_s": 0},
}
LONG, SHORT = (1, 20), (2, 3)  # seconds: from, and how long
NESTED, CROSSED = ((1, 12), (2, 4)), ((1, 4), (2, 12))  # which of two is healed first; at 7 s one of them is on
MOVES = ("reassign", "move-leaders", "move-coordinator")


@pytest.fixture(autouse=True)
def no_patience(monkeypatch):
    monkeypatch.setattr(placement, "LED_WITHIN_S", 0)
    monkeypatch.setattr(topic_settings, "SEEN_WITHIN_S", 0)


def staged(cluster, *faults, until_s=8, seed=1):
    """Receipts by (kind, how often that kind struck before) when some seconds have passed: (kind, (at, lasts), options)..."""
    clock, lines = FakeClock(), {}
    plan = [
        Injection(
            id=number, at_s=at, lasts_s=lasts, kind=kind, options={**QUICK.get(kind, {}), **options}, lane=str(number), seed=seed
        )
        for number, (kind, (at, lasts), options) in enumerate(faults)
    ]
    runner = FaultRunner(
        cluster, plan, make_fault, lambda line: lines.update({line["id"]: line}), clock=clock, wait=lambda event, ns: False
    )
    start_ns = clock()
    clock.play(runner.timelines(start_ns).values(), until_ns=start_ns + until_s * 10**9)
    return [lines[number] for number in range(len(plan))]


@pytest.mark.parametrize("kind", ["disk-full", "isolate-then-kill", "power-off"])
def test_a_broker_that_another_fault_killed_stays_dead(kind):
    cluster = FakeCluster()
    target = {"target": "broker:n1"}
    killed, other = staged(cluster, ("kill", LONG, target), (kind, SHORT, target))
    assert (killed["healed_ns"], cluster.pid("n1")) == (0, None)
    assert other["healed_ns"]
    assert "n1 was dead already" in other["note"]
    assert cluster.disk_free("n1")


@pytest.mark.parametrize("kind", ["isolate-then-kill", "power-off"])
def test_a_broker_that_another_fault_killed_makes_the_fault_ineffective(kind):
    target = {"target": "broker:n1"}
    assert staged(FakeCluster(), ("kill", LONG, target), (kind, SHORT, target))[1]["effective"] is False


def test_a_broker_that_is_killed_while_its_disk_is_full_stays_dead():
    """It was frozen, and so did not end for want of room; the kill did that."""
    cluster = FakeCluster()
    cluster.pause("n1")
    cluster.disk_complaint = lambda node: ""
    target = {"target": "broker:n1"}
    _, killed = staged(cluster, ("disk-full", (1, 4), target), ("kill", (2, 20), target))
    assert (killed["effective"], cluster.pid("n1"), cluster.disk_free("n1")) == (True, None, 1_000_000)


def test_filling_a_full_disk_has_no_effect_and_its_healing_frees_nothing():
    cluster = FakeCluster()
    target = {"target": "broker:n1"}
    first, second = staged(cluster, ("disk-full", LONG, target), ("disk-full", SHORT, target))
    assert (first["effective"], second["effective"], second["note"]) == (True, False, "n1 had no room before already")
    assert (cluster.disk_free("n1"), cluster.pid("n1")) == (0, None)
    staged(cluster := FakeCluster(), ("disk-full", LONG, target), ("disk-full", SHORT, target), until_s=30)
    assert cluster.whole()


@pytest.mark.parametrize("second", ["ahead", "behind"])
def test_a_clock_that_is_wrong_already_is_left_to_the_fault_that_set_it(second):
    cluster = FakeCluster()
    options, other = ({"target": "broker:n1", "direction": direction} for direction in ("ahead", second))
    first, late = staged(cluster, ("clock-skew", LONG, options), ("clock-skew", SHORT, other))
    assert (first["effective"], late["effective"], late["note"]) == (True, False, "n1 is 60 s ahead already")
    assert cluster.clock_ahead("n1") == 60.0
    staged(cluster := FakeCluster(), ("clock-skew", LONG, options), ("clock-skew", SHORT, other), until_s=30)
    assert cluster.whole()


def test_a_broker_that_is_killed_after_a_rolling_restart_stays_dead():
    cluster = FakeCluster()
    rolled, killed = staged(
        cluster, ("rolling-restart", (1, 4), {"gone_within_s": 1, "within_s": 9}), ("kill", (2, 20), {"target": "broker:n1"})
    )
    assert (rolled["effective"], killed["effective"], cluster.pid("n1")) == (True, True, None)
    assert rolled["healing"]["started"] == []


def test_a_rolling_restart_does_not_start_a_broker_that_another_fault_killed():
    cluster = FakeCluster()
    cluster.lagging = lambda topics: {}
    _, rolled = staged(
        cluster, ("kill", LONG, {"target": "broker:n1"}), ("rolling-restart", SHORT, {"gone_within_s": 1, "within_s": 9})
    )
    assert (rolled["effective"], "n1: was dead already" in rolled["note"], cluster.pid("n1")) == (False, True, None)


@pytest.mark.parametrize("spans", [NESTED, CROSSED])
@pytest.mark.parametrize("kinds", list(product(MOVES, repeat=2)))
@pytest.mark.parametrize("brokers", [3, 4])
def test_partitions_that_two_faults_moved_are_in_place_when_both_are_healed(brokers, kinds, spans):
    """In whatever order they are injected and healed."""
    for seed in range(6):
        cluster = FakeCluster(brokers=brokers, transactional_ids=["tx-0"])
        partition = cluster.transaction_partition("tx-0")
        before = cluster.placements()
        faults = [(kind, span, _aimed(kind, partition)) for kind, span in zip(kinds, spans, strict=True)]
        receipts = staged(cluster, *faults, until_s=20, seed=seed)
        assert all(receipt["healed_ns"] for receipt in receipts)
        assert cluster.placements() == before, (seed, receipts)


def _aimed(kind, partition):
    if kind == "move-coordinator":
        return {"target": "coordinator:tx-0"}
    return {"target": f"partition:{partition}"}


def test_a_partition_that_three_faults_moved_is_in_place_when_all_are_healed():
    cluster = FakeCluster(brokers=5)
    before = cluster.placements()
    target = {"target": "partition:t-0"}
    staged(cluster, ("reassign", (1, 5), target), ("move-leaders", (2, 9), target), ("reassign", (3, 7), target), until_s=20)
    assert cluster.placements() == before


@pytest.mark.parametrize("spans", [NESTED, CROSSED])
def test_healing_one_fault_leaves_the_move_of_the_other(spans):
    """A replica was taken away, and the leader moved; whoever is healed first, the other's change is there yet."""
    cluster, target = FakeCluster(), {"target": "partition:t-0"}
    moved, led = staged(cluster, ("reassign", spans[0], target), ("move-leaders", spans[1], target), until_s=7)
    now = cluster.placements(["t-0"])["t-0"]
    if moved["healed_ns"]:
        assert (now.leader, len(now.replicas)) == (led["evidence"]["during"]["t-0"]["leader"], 3)
        assert moved["note"] == "t-0 stays as another fault moved it"
    else:
        assert set(now.replicas) == set(moved["evidence"]["wanted"]["t-0"])
        assert (now.leader, led["note"]) == (moved["evidence"]["during"]["t-0"]["leader"], "t-0 stays as another fault moved it")


@pytest.mark.parametrize("spans", [NESTED, CROSSED])
@pytest.mark.parametrize("own", [{}, {"flush.ms": "1"}])
def test_settings_that_two_faults_changed_are_restored_when_both_are_healed(own, spans):
    """Each sets one that the other sets too, and one of its own."""
    first, second = {"flush.ms": 5, "segment.ms": 6}, {"flush.ms": 7, "max.message.bytes": 2000000}
    cluster = FakeCluster()
    cluster.set_topic_settings("t", own)
    plan = [("topic-settings", span, {"settings": settings}) for span, settings in zip(spans, (first, second), strict=True)]
    receipts = staged(cluster, *plan, until_s=7)
    left, note = (second, receipts[0]["note"]) if receipts[0]["healed_ns"] else (first, receipts[1]["note"])
    assert [receipt["effective"] for receipt in receipts] == [True, True]
    assert cluster.topic_settings("t") == {**own, **{name: str(value) for name, value in left.items()}}
    assert note == "t's flush.ms stays as another fault set it"
    cluster = FakeCluster()
    cluster.set_topic_settings("t", own)
    staged(cluster, *plan, until_s=20)
    assert cluster.topic_settings("t") == own


def test_a_setting_that_had_the_value_already_is_restored_with_the_fault_that_set_it():
    """The second has no effect, so there is nothing of it to stay."""
    cluster, options = FakeCluster(), {"settings": {"flush.ms": 5}}
    _, late = staged(cluster, ("topic-settings", (1, 4), options), ("topic-settings", (2, 12), options), until_s=7)
    assert (late["effective"], cluster.topic_settings("t")) == (False, {})
