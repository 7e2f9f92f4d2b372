"""Graceful stop: who ends politely, what the receipt shows of it, and who is started again."""

from random import Random

import pytest

from nemesis.graceful_stop import GracefulStop
from nemesis.testing import FakeCluster


def test_it_ends_in_order_and_answers_again_after_healing():
    cluster = FakeCluster()
    fault = GracefulStop(target="leader:t-0")
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.targets, receipt.effective, receipt.note) == (("n1",), True, "")
    assert receipt.evidence["during"] == {"n1": None}
    assert (receipt.evidence["status"], receipt.evidence["farewell"]) == ({"n1": 143}, {"n1": "let go"})
    healed = fault.heal(cluster, receipt)
    assert healed.healing == {"started": ["n1"], "after": {"n1": cluster.pid("n1")}, "answers": {"n1": True}}
    assert fault.heal(cluster, healed).healing["started"] == []
    assert cluster.whole()


def test_one_that_does_not_end_is_no_effect_and_is_killed_when_it_is_healed():
    """Frozen, it cannot even begin to end."""
    cluster = FakeCluster()
    cluster.pause("n2")
    fault = GracefulStop(target="broker:n2", gone_within_s=0)
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "n2 had not ended after 0 s")
    healed = fault.heal(cluster, receipt)
    assert healed.note.endswith("n2 had to be killed")
    assert cluster.whole()


def test_stopping_the_dead_has_no_effect_and_healing_leaves_them_dead():
    cluster = FakeCluster()
    cluster.kill("n1")
    fault = GracefulStop(target="broker:n1")
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "n1 was dead already")
    fault.heal(cluster, receipt)
    assert cluster.pid("n1") is None


def test_two_of_three_when_two_are_asked_for():
    cluster = FakeCluster()
    receipt = GracefulStop(count=2).inject(cluster, Random(1))
    assert sorted(node for node in cluster.brokers if cluster.pid(node) is None) == sorted(receipt.targets)
    assert len(receipt.targets) == 2


def test_nobody_to_stop_is_a_receipt():
    receipt = GracefulStop(target="coordinator").inject(FakeCluster(transactional_ids=()), Random(1))
    assert (receipt.effective, receipt.note) == (False, "no target: no transactional id is known")


@pytest.mark.parametrize("options", [{"target": "all"}, {"target": "client"}, {"count": 0}, {"gone_within_s": -1.0}])
def test_options_that_cannot_be_meant_are_refused(options):
    """All at once cannot end politely: nobody would be left to let them go."""
    with pytest.raises(ValueError, match=r"target|count|gone_within_s"):
        GracefulStop(**options)
