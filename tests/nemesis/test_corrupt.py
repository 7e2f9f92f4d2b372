"""Corrupt: one replica is damaged while its broker is down, and its log is asked."""

from random import Random

import pytest

from fencepost.harness.conformance.stories import Kit
from fencepost.nemesis.corrupt import Corrupt
from fencepost.nemesis.support import lost_logs
from fencepost.nemesis.testing import FakeCluster


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr("fencepost.nemesis.corrupt.NOTICED_WITHIN_S", 0)


def test_the_leader_dies_is_damaged_and_starts_again():
    cluster, fault = FakeCluster(), Corrupt(target="leader:t-1")
    receipt = fault.inject(cluster, Random(1))
    assert [verb for verb, _ in cluster.calls] == ["kill", "corrupt"]
    assert (receipt.targets, receipt.effective, receipt.role) == (("n2",), True, "leader:t-1")
    assert (receipt.evidence["partition"], receipt.evidence["damage"]["before"]) == ("t-1", "00")
    cluster.notices["n2", "t-1"] = "Found invalid messages in log segment"
    healed = fault.heal(cluster, receipt)
    assert healed.healing["noticed"] == "Found invalid messages in log segment"
    assert healed.note == ""
    assert cluster.whole()


def test_a_damage_that_nobody_notices_is_noted():
    cluster, fault = FakeCluster(), Corrupt(target="leader:t-1", part="snapshot")
    healed = fault.heal(cluster, fault.inject(cluster, Random(1)))
    assert healed.healing["noticed"] == ""
    assert "the log of n2 says nothing of the damage to t-1/00000000000000000000.snapshot" in healed.note


def test_a_follower_has_the_copy():
    cluster = FakeCluster()
    receipt = Corrupt(target="leader:t-1", replica="follower").inject(cluster, Random(1))
    assert receipt.targets != ("n2",)
    assert receipt.evidence["partition"] == "t-1"


def test_what_cannot_be_damaged_was_a_mere_kill():
    cluster, fault = FakeCluster(), Corrupt(target="leader:t-1")
    cluster.corrupt = lambda *_: (_ for _ in ()).throw(OSError("no segment"))
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "nothing was damaged, so this was a mere kill: no segment")
    assert "noticed" not in fault.heal(cluster, receipt).healing
    assert cluster.whole()


def test_a_broker_that_survives_is_not_damaged(monkeypatch):
    monkeypatch.setattr("fencepost.nemesis.kill.GONE_WITHIN_S", 0)
    cluster = FakeCluster()
    cluster.kill = lambda node: None
    receipt = Corrupt(target="leader:t-1").inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "n2 survived")
    assert not cluster.damaged


def test_it_behaves_as_required_in_every_story():
    results = list(Kit(FakeCluster(), Corrupt(), seed=7).play())
    assert [(result.story, result.ok) for result in results if result.ok is False] == []


@pytest.mark.parametrize(
    "options", [{"target": "all"}, {"replica": "any"}, {"part": "index", "older": True}, {"answer_within_s": -1}]
)
def test_meaningless_options_are_refused(options):
    with pytest.raises(ValueError, match=r"target|replica|older|answer_within_s"):
        Corrupt(**options)


def test_a_damage_that_nothing_promises_to_find_has_to_be_in_the_contract():
    assert Corrupt(older=True).demanded_contract() == {"corruption": "synced"}
    assert Corrupt(part="txnindex").demanded_contract() == {}


def test_what_a_damaged_replica_cuts_off_has_to_be_in_the_contract_and_happens_to_one_at_a_time(monkeypatch):
    monkeypatch.setattr(lost_logs, "IN_SYNC_WITHIN_S", 0)
    assert [Corrupt(part=part).demanded_contract() for part in ("records", "cut")] == [{"corruption": "unsynced"}] * 2
    cluster = FakeCluster()
    assert Corrupt(target="leader:t-0").inject(cluster, Random(1)).effective
    refused = Corrupt(target="leader:t-1", part="cut").inject(cluster, Random(1))
    assert (refused.effective, refused.targets) == (False, ())
    assert Corrupt(target="leader:t-1", part="txnindex").inject(cluster, Random(1)).effective
