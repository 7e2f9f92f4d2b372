"""Disk full: no room until the fault is healed; a broker that ended is started again."""

from random import Random

import pytest

from fencepost.harness.api import ClusterError, Receipt
from fencepost.nemesis.disk_full import DiskFull
from fencepost.nemesis.testing import FakeCluster


def test_a_full_disk_ends_the_broker_and_healing_starts_it_again():
    cluster = FakeCluster()
    fault = DiskFull(target="leader:t-1")
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.targets, receipt.effective, receipt.note) == (("n2",), True, "")
    assert receipt.evidence == {
        "before": {"n2": 1_000_000},
        "during": {"n2": 0},
        "words": {"n2": "No space left on device"},
        "pids": {"before": {"n2": 4002}, "during": {"n2": None}},
    }
    healed = fault.heal(cluster, receipt)
    assert (healed.healing["after"], healed.healing["started"], healed.healing["answers"]) == (
        {"n2": 1_000_000},
        ["n2"],
        {"n2": True},
    )
    assert cluster.whole()
    assert fault.heal(cluster, healed).healing["started"] == []


def test_a_disk_that_does_not_fill_makes_the_fault_ineffective():
    cluster = FakeCluster()
    cluster.stubborn.add("n1")
    receipt = DiskFull(target="broker:n1", notice_s=0).inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "n1 still has 1000000 bytes")


def test_a_disk_that_was_full_already_makes_the_fault_ineffective():
    cluster = FakeCluster()
    cluster.disks["n1"] = 0
    receipt = DiskFull(target="broker:n1").inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "n1 had no room before already")


def test_a_frozen_broker_does_not_notice_its_full_disk():
    cluster = FakeCluster()
    cluster.pause("n1")
    cluster.disk_complaint = lambda node: ""
    receipt = DiskFull(target="broker:n1", notice_s=0).inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (True, "n1 has not noticed yet")
    DiskFull(answer_within_s=0).heal(cluster, receipt)
    cluster.resume("n1")
    assert cluster.whole()


def test_an_injection_that_fails_frees_only_the_room_that_it_took():
    """The disk of n3 was filled by another fault."""
    cluster = FakeCluster()
    cluster.fill_disk("n3")

    def complain(node):
        raise RuntimeError("log unreadable")

    cluster.disk_complaint = complain
    with pytest.raises(RuntimeError, match="unreadable"):
        DiskFull(target="broker:n1").inject(cluster, Random(1))
    del cluster.disk_complaint
    assert (cluster.disk_free("n1"), cluster.answers("n1")) == (1_000_000, True)
    DiskFull().heal(cluster, Receipt())
    assert cluster.disk_free("n3") == 0


def test_without_a_target_no_disk_is_cleared():
    """Healing follows every receipt, that of a miss too."""
    cluster = FakeCluster()
    cluster.fill_disk("n3")
    fault = DiskFull(target="coordinator:nobody")
    cluster.roles = lambda: (_ for _ in ()).throw(ClusterError("nobody answers"))
    missed = fault.inject(cluster, Random(1))
    assert missed.effective is False
    fault.heal(cluster, missed)
    assert cluster.disk_free("n3") == 0


@pytest.mark.parametrize("options", [{"target": "client"}, {"notice_s": -1}, {"answer_within_s": -1}])
def test_meaningless_options_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        DiskFull(**options)
