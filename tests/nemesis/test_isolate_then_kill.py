"""Isolate, then kill: the broker is isolated first and then killed; the links of the others are whole again at once."""

from random import Random

import pytest

from fencepost.nemesis.isolate_then_kill import IsolateThenKill
from fencepost.nemesis.testing import FakeCluster


def test_the_leader_is_cut_from_the_brokers_then_killed_and_the_cut_ends_with_it():
    cluster = FakeCluster()
    receipt = IsolateThenKill(target="leader:t-0", alone_s=0).inject(cluster, Random(1))
    assert (receipt.targets, receipt.effective, receipt.note, receipt.pairs) == (("n1",), True, "", ())
    assert receipt.evidence["during"] == {"n1>n2": False, "n1>n3": False, "n2>n1": False, "n3>n1": False}
    assert receipt.evidence["pids"]["during"] == {"n1": None}
    assert cluster.pid("n1") is None
    assert all(cluster.probe([("n2", "n3"), ("n3", "n2")]).values())


def test_healing_starts_the_broker_again_and_is_idempotent():
    cluster = FakeCluster()
    fault = IsolateThenKill(target="leader:t-0", alone_s=0)
    receipt = fault.inject(cluster, Random(1))
    healed = fault.heal(cluster, receipt)
    assert healed.healing["started"] == ["n1"]
    assert healed.healing["answers"] == {"n1": True}
    assert cluster.whole()
    assert fault.heal(cluster, healed).healing["started"] == []


def test_a_broker_that_cannot_be_killed_makes_the_fault_ineffective(monkeypatch):
    monkeypatch.setattr("fencepost.nemesis.isolate_then_kill.GONE_WITHIN_S", 0.1)
    cluster = FakeCluster()
    cluster.kill = lambda node: None
    receipt = IsolateThenKill(target="leader:t-0", alone_s=0).inject(cluster, Random(1))
    assert receipt.effective is False
    assert "n1 survived" in receipt.note


def test_a_single_broker_has_no_other_to_be_isolated_from_and_lives_on():
    cluster = FakeCluster(brokers=1)
    receipt = IsolateThenKill(alone_s=0).inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "nothing to cut: there are no two nodes to keep apart")
    assert cluster.whole()
    with pytest.raises(ValueError, match='unknown target "all"'):
        IsolateThenKill(target="all")
