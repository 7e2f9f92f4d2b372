"""Two faults at once on the same thing: each heals what it did itself, and its receipt claims no more than that."""

import pytest

from harness.api import Injection
from harness.faults import Nemesis
from harness.performer import make_fault
from nemesis.testing import FakeClock, FakeCluster

QUICK = {"disk-full": {"notice_s": 0}, "strand": {"alone_s": 0}, "roll": {"gone_within_s": 0, "within_s": 0}}
LONG, SHORT = (1, 20), (2, 3)  # seconds: from, and how long


def staged(cluster, *faults, until_s=8):
    """Receipts by (kind, how often that kind struck before) when some seconds have passed: (kind, (at, lasts), options)..."""
    clock, lines = FakeClock(), {}
    plan = [
        Injection(
            id=number, at_s=at, lasts_s=lasts, kind=kind, options={**QUICK.get(kind, {}), **options}, lane=str(number), seed=1
        )
        for number, (kind, (at, lasts), options) in enumerate(faults)
    ]
    nemesis = Nemesis(
        cluster, plan, make_fault, lambda line: lines.update({line["id"]: line}), clock=clock, wait=lambda event, ns: False
    )
    start_ns = clock()
    clock.play(nemesis.timelines(start_ns).values(), until_ns=start_ns + until_s * 10**9)
    return [lines[number] for number in range(len(plan))]


@pytest.mark.parametrize("kind", ["disk-full", "strand", "power-off"])
def test_a_broker_that_another_fault_killed_stays_dead(kind):
    cluster = FakeCluster()
    target = {"target": "broker:n1"}
    killed, other = staged(cluster, ("kill", LONG, target), (kind, SHORT, target))
    assert (killed["healed_ns"], cluster.pid("n1")) == (0, None)
    assert other["healed_ns"]
    assert "n1 was dead already" in other["note"]
    assert cluster.disk_free("n1")


@pytest.mark.parametrize("kind", ["strand", "power-off"])
def test_a_broker_that_another_fault_killed_is_no_effect(kind):
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


def test_a_second_full_disk_has_no_effect_and_gives_back_nothing():
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
    one, other = ({"target": "broker:n1", "direction": direction} for direction in ("ahead", second))
    first, late = staged(cluster, ("skew", LONG, one), ("skew", SHORT, other))
    assert (first["effective"], late["effective"], late["note"]) == (True, False, "n1 is 60 s ahead already")
    assert cluster.clock_ahead("n1") == 60.0
    staged(cluster := FakeCluster(), ("skew", LONG, one), ("skew", SHORT, other), until_s=30)
    assert cluster.whole()


def test_a_broker_that_is_killed_after_a_roll_stays_dead():
    cluster = FakeCluster()
    rolled, killed = staged(
        cluster, ("roll", (1, 4), {"gone_within_s": 1, "within_s": 9}), ("kill", (2, 20), {"target": "broker:n1"})
    )
    assert (rolled["effective"], killed["effective"], cluster.pid("n1")) == (True, True, None)
    assert rolled["healing"]["started"] == []


def test_a_roll_leaves_a_dead_broker_to_whoever_killed_it():
    cluster = FakeCluster()
    cluster.lagging = lambda topics: {}
    _, rolled = staged(cluster, ("kill", LONG, {"target": "broker:n1"}), ("roll", SHORT, {"gone_within_s": 1, "within_s": 9}))
    assert (rolled["effective"], "n1: was dead already" in rolled["note"], cluster.pid("n1")) == (False, True, None)
