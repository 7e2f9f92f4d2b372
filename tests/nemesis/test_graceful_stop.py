"""Graceful stop: which brokers end, what the receipt shows, and which are started again."""

from random import Random

import pytest

from fencepost.nemesis.graceful_stop import GracefulStop
from fencepost.nemesis.testing import FakeCluster


def test_a_broker_ends_orderly_and_answers_again_after_healing():
    cluster = FakeCluster()
    fault = GracefulStop(target="leader:t-0")
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.targets, receipt.effective, receipt.note) == (("n1",), True, "")
    assert receipt.evidence["during"] == {"n1": None}
    assert (receipt.evidence["status"], receipt.evidence["shutdown_line"]) == ({"n1": 143}, {"n1": "let go"})
    healed = fault.heal(cluster, receipt)
    assert healed.healing == {"started": ["n1"], "after": {"n1": cluster.pid("n1")}, "answers": {"n1": True}}
    assert fault.heal(cluster, healed).healing["started"] == []
    assert cluster.whole()


def test_a_broker_that_does_not_end_makes_the_fault_ineffective_and_is_killed_by_healing():
    """Frozen, it cannot even begin to end."""
    cluster = FakeCluster()
    cluster.pause("n2")
    fault = GracefulStop(target="broker:n2", gone_within_s=0)
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "n2 had not ended after 0 s")
    healed = fault.heal(cluster, receipt)
    assert healed.note.endswith("n2 had to be killed")
    assert cluster.whole()


def test_a_fault_that_stops_some_of_its_targets_is_effective_and_names_them():
    cluster = FakeCluster()
    cluster.pause("n2")
    fault = GracefulStop(count=3, gone_within_s=0)
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, sorted(receipt.evidence["hit"]), receipt.note) == (
        True,
        ["n1", "n3"],
        "n2 had not ended after 0 s",
    )
    fault.heal(cluster, receipt)
    assert cluster.whole()


def test_stopping_a_dead_broker_has_no_effect_and_healing_leaves_it_dead():
    cluster = FakeCluster()
    cluster.kill("n1")
    fault = GracefulStop(target="broker:n1")
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "n1 was dead already")
    fault.heal(cluster, receipt)
    assert cluster.pid("n1") is None


def test_two_of_three_brokers_end_when_the_count_is_two():
    cluster = FakeCluster()
    receipt = GracefulStop(count=2).inject(cluster, Random(1))
    assert sorted(node for node in cluster.brokers if cluster.pid(node) is None) == sorted(receipt.targets)
    assert len(receipt.targets) == 2


def test_no_target_is_a_receipt():
    receipt = GracefulStop(target="coordinator").inject(FakeCluster(transactional_ids=()), Random(1))
    assert (receipt.effective, receipt.note) == (False, "no target: no transactional id is known")


@pytest.mark.parametrize("options", [{"target": "all"}, {"target": "client"}, {"count": 0}, {"gone_within_s": -1.0}])
def test_meaningless_options_are_refused(options):
    """All at once cannot end politely: no controller would be left to let them go."""
    with pytest.raises(ValueError, match=r"target|count|gone_within_s"):
        GracefulStop(**options)
