"""Rolling restart: one broker after another, never two at once, and what ends it early."""

from random import Random

import pytest

from fencepost.harness.api import Upgradable
from fencepost.nemesis.rolling_restart import RollingRestart
from fencepost.nemesis.testing import FakeCluster


def steps(cluster):
    return [(verb, node) for verb, node in cluster.calls if verb in ("stop", "kill", "start")]


def test_every_broker_is_restarted_before_the_next_one_ends():
    cluster = FakeCluster()
    before = {node: cluster.pid(node) for node in cluster.brokers}
    receipt = RollingRestart().inject(cluster, Random(1))
    assert (receipt.effective, receipt.note, set(receipt.targets)) == (True, "", set(cluster.brokers))
    assert steps(cluster) == [step for node in receipt.targets for step in (("stop", node), ("start", node))]
    rolled = receipt.evidence["during"]
    assert receipt.evidence["before"] == before
    assert {node: restart["pid"] for node, restart in rolled.items()} == {node: cluster.pid(node) for node in cluster.brokers}
    assert {restart["status"] for restart in rolled.values()} == {143}
    assert RollingRestart().heal(cluster, receipt).healing["started"] == []
    assert cluster.whole()


def test_the_order_is_drawn_by_the_seed():
    orders = {RollingRestart().inject(FakeCluster(), Random(seed)).targets for seed in range(20)}
    assert len(orders) > 1
    assert RollingRestart().inject(FakeCluster(), Random(3)).targets == RollingRestart().inject(FakeCluster(), Random(3)).targets


def test_brokers_come_back_as_the_version_of_the_option():
    cluster = FakeCluster()
    receipt = RollingRestart(version="newer").inject(cluster, Random(1))
    assert receipt.evidence["during"]["n2"]["versions"] == ["fake", "newer"]
    assert [cluster.version(node) for node in cluster.brokers] == ["newer"] * 3


def test_an_unavailable_version_stops_no_broker():
    cluster = FakeCluster()
    receipt = RollingRestart(version="0.8").inject(cluster, Random(1))
    assert (receipt.effective, receipt.targets) == (False, ())
    assert "cannot run 0.8" in receipt.note
    cluster.missing[Upgradable] = "these nodes have one version only"
    assert RollingRestart(version="newer").inject(cluster, Random(1)).note.endswith("these nodes have one version only")
    assert steps(cluster) == []


def test_no_broker_is_restarted_while_another_is_dead():
    """n1 was killed by somebody else and nothing is in sync: the roll waits, and gives up."""
    cluster = FakeCluster()
    cluster.kill("n1")
    receipt = RollingRestart(within_s=0).inject(cluster, Random(1))
    assert receipt.effective is False
    assert "not restarted" in receipt.note
    assert "without n1" in receipt.note
    assert steps(cluster) == [("kill", "n1")]


def test_a_roll_that_ends_after_one_broker_had_an_effect_all_the_same():
    """It is not seen at once that n1 is dead, so the first broker is restarted before the roll waits, and gives up."""
    cluster = FakeCluster()
    cluster.kill("n1")
    looks, lagging = [], cluster.lagging
    cluster.lagging = lambda topics: lagging(topics) if looks else looks.append(1) or {}
    receipt = RollingRestart(within_s=0).inject(cluster, Random(5))
    restarted = [
        node for node, restart in receipt.evidence["during"].items() if restart["pid"] != receipt.evidence["before"][node]
    ]
    assert len(restarted) == 1
    assert receipt.effective is True
    assert "not restarted" in receipt.note


def test_a_broker_that_does_not_end_is_killed_and_one_left_dead_is_started_by_healing():
    cluster = FakeCluster(brokers=1)
    cluster.stop = lambda node: None
    receipt = RollingRestart(gone_within_s=0, within_s=0).inject(cluster, Random(1))
    assert "n1: had not ended after 0 s and was killed" in receipt.note
    assert receipt.effective is True
    cluster.kill("n1")
    assert RollingRestart().heal(cluster, receipt).healing["started"] == ["n1"]
    assert cluster.whole()


def test_separate_controllers_go_first_when_the_option_says_so():
    cluster = FakeCluster(controllers=2)
    receipt = RollingRestart(controllers=True, kill=True).inject(cluster, Random(1))
    assert receipt.targets[:2] == ("k1", "k2")
    assert ("kill", "k1") in cluster.calls
    assert RollingRestart().inject(cluster, Random(1)).targets[0] in cluster.brokers


def test_negative_durations_are_refused():
    with pytest.raises(ValueError, match="within_s"):
        RollingRestart(within_s=-1.0)
