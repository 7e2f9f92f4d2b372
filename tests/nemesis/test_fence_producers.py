"""Fence producers: epochs rise, once or many times, and what is not known to have happened is no evidence."""

from random import Random

import pytest

from fencepost.harness.api import ClusterError
from fencepost.nemesis.fence_producers import FenceProducers
from fencepost.nemesis.testing import FakeCluster

IDS = ("tx-0", "tx-1")


def inject(cluster, **options):
    fault = FenceProducers(**options)
    return fault, fault.inject(cluster, Random(1))


def test_a_transactional_id_gets_a_higher_epoch_and_its_transaction_ends():
    cluster = FakeCluster(transactional_ids=IDS)
    cluster.coordinated.begin("tx-0", "t-0")
    fault, receipt = inject(cluster, target="id:tx-0")
    assert receipt.effective
    assert receipt.evidence["before"]["tx-0"] == {"producer_id": 1000, "epoch": 0}
    assert receipt.evidence["during"]["tx-0"] == {"producer_id": 1000, "epoch": 1}
    assert [producer.first_offset for producer in cluster.producers(["t-0"])["t-0"]] == [None]
    (call,) = receipt.evidence["fencings"]
    assert call["transactional_id"] == "tx-0"
    assert call["began_ns"] <= call["ended_ns"]
    assert receipt.targets == (cluster.transaction_coordinator("tx-0"),)
    assert fault.heal(cluster, receipt).healing == {"after": receipt.evidence["during"]}


def test_one_of_the_workloads_ids_is_drawn_or_all_are_meant():
    assert len(inject(FakeCluster(transactional_ids=IDS))[1].evidence["fencings"]) == 1
    calls = inject(FakeCluster(transactional_ids=IDS), target="all", times=3)[1].evidence["fencings"]
    assert [call["transactional_id"] for call in calls] == ["tx-0"] * 3 + ["tx-1"] * 3


def fenced(cluster):
    """The transactional ids that any of twenty seeds fences of the instances."""
    receipts = [FenceProducers(target="instance").inject(cluster, Random(seed)) for seed in range(20)]
    return {call["transactional_id"] for receipt in receipts for call in receipt.evidence.get("fencings", ())}


def test_of_an_instance_the_id_that_it_was_given_or_has_chosen_itself_is_fenced():
    """Beside ids of writers, and one that was given and is not used."""
    cluster = FakeCluster(transactional_ids=IDS, clients=4)
    cluster.note_instances({"c2": True, "c3": True}, transactional_ids={"c2": "x-2", "c3": "x-3"})
    assert fenced(cluster) == set()
    for name in ("tx-0", "x-2", "streams-app-0_1"):
        cluster.coordinated.begin(name, "t-0")
    assert fenced(cluster) == {"x-2", "streams-app-0_1"}


def test_members_of_a_group_are_instances_whose_ids_are_the_workloads():
    cluster = FakeCluster(transactional_ids=IDS, clients=2)
    cluster.note_instances({"c1": True}, transactional_ids={"c1": "tx-1"})
    cluster.coordinated.begin("tx-0", "t-0")
    cluster.coordinated.begin("tx-1", "t-0")
    assert fenced(cluster) == {"tx-1"}


def test_a_call_without_an_answer_may_have_fenced_and_shows_nothing():
    cluster = FakeCluster(transactional_ids=IDS)

    def silent(transactional_id):
        raise ClusterError("no answer")

    cluster.fence_producer = silent
    _, receipt = inject(cluster, target="id:tx-0")
    assert receipt.effective is False
    assert receipt.note == "tx-0 may not be fenced: no answer"
    assert receipt.evidence["fencings"][0]["ended_ns"] is None


def test_without_transactional_ids_there_is_no_target():
    _, receipt = inject(FakeCluster(transactional_ids=()))
    assert (receipt.effective, receipt.note) == (False, "no target: no transactional id is known")


@pytest.mark.parametrize(("options", "why"), [({"target": "ids"}, "unknown target"), ({"times": 0}, "times")])
def test_options_that_cannot_be_meant(options, why):
    with pytest.raises(ValueError, match=why):
        FenceProducers(**options)
