"""Power off: all nodes die before any of them loses unsynced data."""

from random import Random

import pytest

from fencepost.harness.api import ClusterError, Placement
from fencepost.nemesis.power_off import PowerOff
from fencepost.nemesis.support import lost_logs
from fencepost.nemesis.testing import FakeCluster
from fencepost.nemesis.testing.fake_partitions import FakePartitions


def test_all_brokers_die_before_any_loses_unsynced_data():
    cluster = FakeCluster()
    cluster.unsynced = {"n1": {"t-0": (0, 7)}, "n3": {"t-0": (0, 7), "t-1": (2, 3)}}
    fault = PowerOff(target="all")
    receipt = fault.inject(cluster, Random(1))
    assert [verb for verb, _ in cluster.calls] == ["kill"] * 3 + ["lose_unsynced"] * 3
    assert receipt.evidence["lost"] == {
        "n1": {"t-0": {"end": 0, "was": 7}},
        "n2": {},
        "n3": {"t-0": {"end": 0, "was": 7}, "t-1": {"end": 2, "was": 3}},
    }
    assert (receipt.effective, receipt.note) == (True, "")
    healed = fault.heal(cluster, receipt)
    assert healed.healing["started"] == ["n1", "n2", "n3"]
    assert cluster.whole()
    assert fault.heal(cluster, healed).healing["started"] == []


def test_of_one_broker_at_a_time_where_nothing_else_is_asked_for():
    """What all brokers at once lose is no fault of replication."""
    cluster = FakeCluster()
    cluster.unsynced = {node: {"t-0": (0, 7)} for node in cluster.brokers}
    assert len(PowerOff().inject(cluster, Random(1)).targets) == 1
    assert len(PowerOff(count=2).inject(FakeCluster(), Random(1)).targets) == 2


def test_what_several_lose_at_once_has_to_be_in_the_contract():
    several = ({"target": "all"}, {"target": "second:all"}, {"count": 2})
    assert [PowerOff(**options).demanded_contract() for options in several] == [{"power_failures": "all replicas"}] * 3
    assert PowerOff(target="leader").demanded_contract() == {"power_failures": "one replica"}


def test_one_at_a_time_waits_until_the_one_before_is_in_sync(monkeypatch):
    """Also where another fault took its power, in another lane."""
    monkeypatch.setattr(lost_logs, "IN_SYNC_WITHIN_S", 0)
    cluster = FakeCluster()
    cluster.unsynced = {node: {"t-0": (0, 7)} for node in cluster.brokers}
    before = PowerOff(target="broker:n1").inject(cluster, Random(1))
    refused = PowerOff(target="broker:n2").inject(cluster, Random(1))
    assert (refused.effective, refused.targets) == (False, ())
    assert refused.note == "no target: n1, which lost records before, is out of sync"
    assert PowerOff(target="all").inject(cluster, Random(1)).effective, "this was asked for"
    PowerOff(target="all").heal(cluster, before)
    for node in cluster.brokers:
        cluster.start(node)
    assert PowerOff(target="broker:n2").inject(cluster, Random(1)).effective


def test_a_broker_that_is_dead_is_not_in_sync_whatever_the_controller_says(monkeypatch):
    """It lists one that died until its session times out."""
    monkeypatch.setattr(lost_logs, "IN_SYNC_WITHIN_S", 0)
    stale = lambda self, name: Placement(leader="n1", replicas=self.replicas(name), in_sync=self.replicas(name))  # noqa: E731
    monkeypatch.setattr(FakePartitions, "_placement", stale)
    cluster = FakeCluster()
    PowerOff(target="broker:n1").inject(cluster, Random(1))
    assert PowerOff(target="broker:n2").inject(cluster, Random(1)).effective is False
    cluster.start("n1")
    assert PowerOff(target="broker:n2").inject(cluster, Random(1)).effective


def test_a_power_off_that_loses_nothing_is_noted_as_a_kill():
    cluster = FakeCluster()
    receipt = PowerOff(target="leader:t-1").inject(cluster, Random(1))
    assert (receipt.targets, receipt.effective) == (("n2",), True)
    assert receipt.note == "nothing was lost: all was synced, so this was a mere kill"


@pytest.mark.parametrize("error", [ClusterError("cannot"), OSError("cannot")])
def test_a_power_off_whose_losses_cannot_be_seen_has_no_effect(error):
    """n3 is another matter: something was taken from it."""
    cluster = FakeCluster()
    cluster.unsynced = {"n3": {"t-0": (0, 7)}}

    def refuse(node):
        if node != "n3":
            raise error
        return FakeCluster.lose_unsynced(cluster, node)

    cluster.lose_unsynced = refuse
    fault = PowerOff(target="broker:n1")
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "cannot; nothing was taken, so this was a mere kill")
    fault.heal(cluster, receipt)
    receipt = PowerOff(target="all").inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (True, "cannot; cannot")


def test_a_broker_that_survives_loses_nothing():
    cluster = FakeCluster()
    cluster.stubborn.add("n1")
    cluster.unsynced = {node: {"t-0": (0, 7)} for node in cluster.brokers}
    cluster.kill, was = lambda node: None if node == "n1" else was(node), cluster.kill
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fencepost.nemesis.kill.GONE_WITHIN_S", 0)
        receipt = PowerOff(target="all").inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (True, "n1 survived; n1 is alive")
    assert set(receipt.evidence["lost"]) == {"n2", "n3"}


def test_a_broker_that_another_fault_killed_loses_its_power_too_and_the_receipt_says_so():
    """Its log is cut, so the fault had an effect, although it killed no process; the fault that killed it starts it again."""
    cluster = FakeCluster()
    cluster.unsynced = {"n1": {"t-0": (0, 7)}}
    cluster.kill("n1")
    fault = PowerOff(target="broker:n1")
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, receipt.note, receipt.targets) == (True, "n1 was dead already", ("n1",))
    assert receipt.evidence["lost"] == {"n1": {"t-0": {"end": 0, "was": 7}}}
    assert fault.heal(cluster, receipt).healing["started"] == []
    again = fault.inject(cluster, Random(1))
    assert (again.effective, again.note) == (
        False,
        "n1 was dead already; nothing was lost: all was synced, and nobody was killed",
    )


def test_healing_after_a_failed_injection_does_no_harm():
    cluster = FakeCluster()
    fault = PowerOff(target="all")
    fault.heal(cluster, type(fault.inject(FakeCluster(), Random(1)))())
    assert cluster.whole()


@pytest.mark.parametrize("options", [{"target": "client"}, {"target": "all", "count": 2}, {"answer_within_s": -1}])
def test_meaningless_options_are_refused(options):
    with pytest.raises(ValueError, match=r"target|count|answer_within_s"):
        PowerOff(**options)
