"""Kill: which nodes die, what the receipt shows, and which are started again."""

from random import Random

import pytest

from fencepost.harness.api import OverBudget
from fencepost.nemesis.kill import Kill
from fencepost.nemesis.testing import FakeCluster


def test_the_process_id_is_gone_and_a_new_one_answers_after_healing():
    cluster = FakeCluster()
    fault = Kill(target="leader:t-0")
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.role, receipt.targets, receipt.effective, receipt.note) == ("leader:t-0", ("n1",), True, "")
    old = receipt.evidence["before"]["n1"]
    assert isinstance(old, int)
    assert receipt.evidence["during"] == {"n1": None}
    healed = fault.heal(cluster, receipt)
    assert healed.healing == {"started": ["n1"], "after": {"n1": cluster.pid("n1")}, "answers": {"n1": True}}
    assert cluster.pid("n1") != old
    assert cluster.whole()


def test_two_of_three_brokers_die_when_the_count_is_two():
    cluster = FakeCluster()
    receipt = Kill(count=2).inject(cluster, Random(1))
    assert sorted(node for node in cluster.brokers if cluster.pid(node) is None) == sorted(receipt.targets)
    assert len(receipt.targets) == 2


def test_healing_waits_until_the_broker_answers():
    """It is silent twice after its start; the third question is answered."""
    cluster = FakeCluster()
    fault = Kill(target="broker:n1")
    receipt = fault.inject(cluster, Random(1))
    cluster.mute_for["n1"] = 2
    assert fault.heal(cluster, receipt).healing["answers"] == {"n1": True}


def test_a_broker_that_stays_silent_is_named_with_what_was_last_seen():
    cluster = FakeCluster()
    fault = Kill(target="broker:n1", answer_within_s=0)
    receipt = fault.inject(cluster, Random(1))
    cluster.mute_for["n1"] = 10
    healed = fault.heal(cluster, receipt)
    assert healed.effective is True
    assert healed.note == f"n1 did not answer within 0 s of healing; its process {cluster.pid('n1')} lives"


def test_a_broker_that_does_not_start_is_named():
    cluster = FakeCluster()
    fault = Kill(target="broker:n1", answer_within_s=0)
    receipt = fault.inject(cluster, Random(1))
    cluster.stubborn.add("n1")
    assert "its process is gone" in fault.heal(cluster, receipt).note


def test_killing_a_dead_broker_has_no_effect_and_healing_leaves_it_dead():
    """Whoever killed n1 before will start it; this fault only undoes what it did itself."""
    cluster = FakeCluster()
    cluster.kill("n1")
    fault = Kill(target="broker:n1")
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "n1 was dead already")
    fault.heal(cluster, receipt)
    assert cluster.pid("n1") is None


def test_one_broker_dead_already_and_one_killed_is_an_effect():
    cluster = FakeCluster()
    cluster.kill("n1")
    receipt = Kill(target="all").inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (True, "n1 was dead already")
    assert receipt.evidence["hit"] == ["n2", "n3"]


def test_a_broker_that_survives_is_named_and_the_fault_is_effective_for_the_others(monkeypatch):
    monkeypatch.setattr("fencepost.nemesis.kill.GONE_WITHIN_S", 0)
    cluster = FakeCluster()
    cluster.stubborn.add("n2")
    receipt = Kill(target="all").inject(cluster, Random(1))
    assert (receipt.effective, receipt.note, receipt.evidence["hit"]) == (True, "n2 survived", ["n1", "n3"])
    alone = Kill(target="broker:n2").inject(cluster, Random(1))
    assert (alone.effective, alone.note, "hit" in alone.evidence) == (False, "n2 survived", False)


def test_a_broker_that_the_budget_spares_does_not_make_the_others_death_nothing():
    cluster = FakeCluster()
    kill = cluster.kill

    def within_budget(node):
        if node == "n3":
            raise OverBudget("n3 is spared")
        kill(node)

    cluster.kill = within_budget
    receipt = Kill(target="all").inject(cluster, Random(1))
    assert (receipt.effective, receipt.targets, receipt.note) == (True, ("n1", "n2"), "n3 is spared")
    assert Kill().heal(cluster, receipt).healing["started"] == ["n1", "n2"]


def test_a_broker_that_another_fault_started_did_not_stay_dead():
    cluster = FakeCluster()
    receipt = Kill(target="broker:n1").inject(cluster, Random(1))
    cluster.start("n1")
    healed = Kill().heal(cluster, receipt)
    assert (healed.healing["started"], healed.healing["ended_early"]) == ([], ["n1"])
    assert healed.note == f"n1 did not stay away: it lives already, as process {cluster.pid('n1')}"


def test_a_broker_that_does_not_start_is_left():
    cluster = FakeCluster()
    receipt = Kill(target="broker:n1").inject(cluster, Random(1))
    cluster.stubborn.add("n1")
    healed = Kill(answer_within_s=0).heal(cluster, receipt)
    assert healed.healing["left"] == ["n1"]


def test_healing_twice_starts_nothing_twice():
    cluster = FakeCluster()
    fault = Kill()
    receipt = fault.inject(cluster, Random(1))
    fault.heal(cluster, receipt)
    pids = [cluster.pid(node) for node in cluster.brokers]
    assert fault.heal(cluster, receipt).healing["started"] == []
    assert [cluster.pid(node) for node in cluster.brokers] == pids


def test_a_killed_client_is_left_to_the_harness():
    """Healing neither starts it nor waits for it."""
    cluster = FakeCluster()
    fault = Kill(target="client:c1")
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, cluster.pid("c1")) == (True, None)
    healed = fault.heal(cluster, receipt)
    assert healed.healing == {"started": [], "after": {"c1": None}, "answers": {}}
    assert ("start", "c1") not in cluster.calls


def test_no_target_is_a_receipt_and_no_exception():
    receipt = Kill(target="coordinator").inject(FakeCluster(transactional_ids=()), Random(1))
    assert (receipt.effective, receipt.targets, receipt.role) == (False, (), "coordinator")
    assert receipt.note == "no target: no transactional id is known"


@pytest.mark.parametrize(
    "options", [{"target": "nobody"}, {"count": 0}, {"target": "controller", "count": 2}, {"answer_within_s": -1.0}]
)
def test_meaningless_options_are_refused_without_a_cluster(options):
    with pytest.raises(ValueError, match=r"target|count|answer_within_s"):
        Kill(**options)
