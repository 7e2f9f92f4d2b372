"""Slow-disk: what a broker writes is held back, shown twice over, until it is healed."""

from random import Random

import pytest

from harness.api import ClusterError
from nemesis.slow_disk import SlowDisk
from nemesis.testing import FakeCluster


def test_a_slow_disk_holds_back_and_healing_ends_it():
    cluster = FakeCluster()
    fault = SlowDisk(target="leader:t-1", delay_ms=200)
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.targets, receipt.effective, receipt.note) == (("n2",), True, "")
    assert (receipt.evidence["before"], receipt.evidence["during"]) == ({"n2": 1.0}, {"n2": 201.0})
    assert receipt.evidence["held"] == {"n2": {"operations": 1, "bytes": 100, "longest_ms": 200}}
    healed = fault.heal(cluster, receipt)
    assert healed.healing == {"held": receipt.evidence["held"], "after": {"n2": 1.0}}
    assert cluster.whole()
    assert fault.heal(cluster, healed) == healed


def test_a_broker_that_writes_nothing_was_not_hurt():
    cluster = FakeCluster()
    cluster.pause("n1")
    receipt = SlowDisk(target="broker:n1", notice_s=0).inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "nothing of n1 was held back")
    cluster.resume("n1")
    assert cluster.whole()


def test_what_is_said_to_be_held_back_must_be_seen_to_wait():
    """Counts alone prove nothing: the kernel saw no thread of the broker wait."""
    cluster = FakeCluster()
    cluster.disk_waits = lambda nodes, for_s: dict.fromkeys(nodes, 0.4)
    receipt = SlowDisk(target="broker:n1", notice_s=0).inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "n1 waited no longer than 0.4 ms")
    assert cluster.whole()


def test_one_of_several_is_enough_and_the_others_are_named():
    cluster = FakeCluster()
    cluster.kill("n2")
    fault = SlowDisk(target="all", notice_s=0)
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (True, "nothing of n2 was held back")
    fault.heal(cluster, receipt)
    cluster.start("n2")
    assert cluster.whole()


def test_an_injection_that_breaks_off_leaves_no_slow_disk():
    cluster = FakeCluster()

    def refuse(number):
        raise ClusterError("nobody answers")

    cluster.held_back = refuse
    with pytest.raises(ClusterError, match="nobody answers"):
        SlowDisk().inject(cluster, Random(1))
    assert cluster.whole()


@pytest.mark.parametrize("options", [{"target": "client"}, {"delay_ms": 1}, {"delay_ms": 1e6}, {"mb_s": -1}, {"notice_s": -1}])
def test_options_that_cannot_be_meant(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        SlowDisk(**options)
