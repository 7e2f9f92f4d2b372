"""Pause: the kernel shows a frozen process, and only nodes that this fault froze are thawed."""

from random import Random

import pytest

from fencepost.nemesis.pause import Pause
from fencepost.nemesis.testing import FakeCluster


def test_the_process_is_frozen_during_the_fault_and_awake_after():
    cluster = FakeCluster()
    fault = Pause(target="controller")
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.targets, receipt.effective, receipt.note) == (("n1",), True, "")
    assert receipt.evidence == {"before": {"n1": "S"}, "during": {"n1": "T"}, "pids": {"n1": 4001}}
    healed = fault.heal(cluster, receipt)
    assert (healed.healing, healed.note) == ({"after": {"n1": "S"}, "pids": {"n1": 4001}}, "")
    assert cluster.whole()


def test_a_client_can_be_frozen():
    """The zombie of KIP-98."""
    cluster = FakeCluster(clients=5)
    receipt = Pause(target="client", count=3).inject(cluster, Random(1))
    assert sum(not cluster.awake(node) for node in cluster.clients) == len(receipt.targets) == 3


def test_a_node_that_does_not_freeze_makes_the_fault_ineffective(monkeypatch):
    monkeypatch.setattr("fencepost.nemesis.pause.SEEN_WITHIN_S", 0)
    cluster = FakeCluster()
    cluster.stubborn.add("n1")
    receipt = Pause(target="broker:n1").inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, 'n1 did not freeze (state "S")')


def test_a_fault_that_freezes_some_of_its_targets_is_effective_and_names_them(monkeypatch):
    monkeypatch.setattr("fencepost.nemesis.pause.SEEN_WITHIN_S", 0)
    cluster = FakeCluster()
    cluster.stubborn.add("n1")
    cluster.kill("n3")
    receipt = Pause(target="all").inject(cluster, Random(1))
    assert (receipt.effective, receipt.evidence["hit"]) == (True, ["n2"])
    assert receipt.note == 'n3 was dead already; n1 did not freeze (state "S")'
    Pause().heal(cluster, receipt)
    assert cluster.awake("n2")


def test_freezing_a_dead_node_has_no_effect():
    cluster = FakeCluster()
    cluster.kill("n1")
    receipt = Pause(target="broker:n1").inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "n1 was dead already")


def test_a_node_that_another_fault_froze_stays_frozen():
    cluster = FakeCluster()
    first, second = Pause(target="broker:n1"), Pause(target="broker:n1")
    by_first = first.inject(cluster, Random(1))
    by_second = second.inject(cluster, Random(1))
    assert (by_second.effective, by_second.note) == (False, "n1 was frozen already")
    second.heal(cluster, by_second)
    assert cluster.process_state("n1") == "T"
    first.heal(cluster, by_first)
    assert cluster.whole()


def test_a_node_killed_while_frozen_does_not_disturb_healing():
    cluster = FakeCluster()
    fault = Pause(target="broker:n1")
    receipt = fault.inject(cluster, Random(1))
    cluster.kill("n1")
    healed = fault.heal(cluster, receipt)
    assert healed.healing == {"after": {"n1": ""}, "pids": {"n1": None}, "ended_early": ["n1"]}
    assert healed.note == "n1 did not stay frozen: process 4001 is gone"


def test_a_node_that_was_killed_and_started_meanwhile_was_not_frozen_all_the_time():
    """The process that runs at healing is another one; if another fault froze that, it stays frozen."""
    cluster = FakeCluster()
    fault = Pause(target="broker:n1")
    receipt = fault.inject(cluster, Random(1))
    cluster.kill("n1")
    cluster.start("n1")
    cluster.pause("n1")
    pid = cluster.pid("n1")
    healed = fault.heal(cluster, receipt)
    assert (healed.healing["ended_early"], healed.healing["pids"]) == (["n1"], {"n1": pid})
    assert healed.note == f"n1 did not stay frozen: process 4001 is gone, {pid} runs"
    assert cluster.process_state("n1") == "T"
    assert "left" not in healed.healing


def test_a_node_that_somebody_thawed_was_not_frozen_all_the_time():
    cluster = FakeCluster()
    receipt = Pause(target="broker:n1").inject(cluster, Random(1))
    cluster.resume("n1")
    healed = Pause(target="broker:n1").heal(cluster, receipt)
    assert (healed.healing["ended_early"], healed.note) == (["n1"], "n1 did not stay frozen: it was awake already")


def test_a_node_that_does_not_thaw_is_left(monkeypatch):
    monkeypatch.setattr("fencepost.nemesis.pause.SEEN_WITHIN_S", 0)
    cluster = FakeCluster()
    receipt = Pause(target="broker:n1").inject(cluster, Random(1))
    cluster.resume = lambda node: None
    healed = Pause(target="broker:n1").heal(cluster, receipt)
    assert (healed.healing["left"], healed.note) == (["n1"], "n1 is still frozen after healing")


def test_healing_twice_thaws_once():
    cluster = FakeCluster()
    fault = Pause()
    receipt = fault.inject(cluster, Random(1))
    fault.heal(cluster, receipt)
    fault.heal(cluster, receipt)
    assert [verb for verb, _ in cluster.calls] == ["pause", "resume"]


def test_no_target_is_a_receipt_and_no_exception():
    cluster = FakeCluster()
    for node in cluster.brokers:
        cluster.kill(node)
    receipt = Pause(target="controller").inject(cluster, Random(1))
    assert receipt.effective is False
    assert "no target: nobody answered" in receipt.note


def test_meaningless_options_are_refused_without_a_cluster():
    with pytest.raises(ValueError, match="target"):
        Pause(target="broker")
