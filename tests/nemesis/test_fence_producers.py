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
