"""Slow disk: writes are held back until the fault is healed; counts and waiting threads show it."""

from random import Random

import pytest

from fencepost.harness.api import ClusterError
from fencepost.nemesis.slow_disk import SlowDisk
from fencepost.nemesis.testing import FakeCluster


def test_writes_are_held_back_until_the_fault_is_healed():
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


def test_a_broker_that_writes_nothing_makes_the_fault_ineffective():
    cluster = FakeCluster()
    cluster.pause("n1")
    receipt = SlowDisk(target="broker:n1", notice_s=0).inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "nothing of n1 was held back")
    cluster.resume("n1")
    assert cluster.whole()


def test_writes_that_are_counted_as_held_back_must_be_seen_waiting():
    """Counts alone prove nothing: the kernel saw no thread of the broker wait."""
    cluster = FakeCluster()
    cluster.disk_waits = lambda nodes, for_s: dict.fromkeys(nodes, 0.4)
    receipt = SlowDisk(target="broker:n1", notice_s=0).inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "n1 waited no longer than 0.4 ms")
    assert cluster.whole()


def test_one_affected_broker_of_several_is_an_effect_and_the_others_are_named():
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
def test_meaningless_options_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        SlowDisk(**options)
