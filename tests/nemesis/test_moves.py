"""Leaders, coordinators and replicas that move although no broker failed."""

from random import Random

import pytest

from fencepost.harness.api import ClusterError
from fencepost.nemesis.move_coordinator import MoveCoordinator
from fencepost.nemesis.move_group_coordinator import MoveGroupCoordinator
from fencepost.nemesis.move_leaders import MoveLeaders
from fencepost.nemesis.reassign import Reassign
from fencepost.nemesis.support import placement
from fencepost.nemesis.testing import FakeCluster


@pytest.fixture(autouse=True)
def no_patience(monkeypatch):
    monkeypatch.setattr(placement, "LED_WITHIN_S", 0)


def test_a_leader_moves_to_another_replica_and_back():
    cluster = FakeCluster()
    fault = MoveLeaders(target="partition:t-0")
    receipt = fault.inject(cluster, Random(1))
    during = receipt.evidence["during"]["t-0"]
    assert (receipt.effective, receipt.note, receipt.targets) == (True, "", ("n1",))
    assert receipt.evidence["before"]["t-0"]["leader"] == "n1"
    assert during["leader"] == during["replicas"][0] == cluster.leader("t", 0) != "n1"
    healed = fault.heal(cluster, receipt)
    assert (healed.note, cluster.leader("t", 0)) == ("", "n1")
    assert healed.healing["after"]["t-0"]["replicas"] == ("n1", "n2", "n3")
    done = len(cluster.calls)
    assert fault.heal(cluster, healed).note == ""
    assert len(cluster.calls) == done


def test_a_former_leader_that_was_not_the_preferred_one_leads_again_after_healing():
    cluster = FakeCluster()
    cluster.kill("n1")
    cluster.elect = lambda partitions: None
    cluster.reassign({"t-0": ("n1", "n2", "n3")})
    cluster.start("n1")
    del cluster.elect
    cluster.elect = cluster._partitions.elect
    assert cluster.leader("t", 0) == "n2"
    fault = MoveLeaders(target="partition:t-0")
    receipt = fault.inject(cluster, Random(1))
    assert receipt.targets == ("n2",)
    healed = fault.heal(cluster, receipt)
    assert (healed.note, cluster.leader("t", 0)) == ("", "n2")
    assert cluster.placements(["t-0"])["t-0"].replicas == ("n1", "n2", "n3")


def test_all_partitions_move_and_the_same_seed_gives_the_same_leaders():
    first, second = FakeCluster(), FakeCluster()
    receipts = [MoveLeaders(target="all").inject(cluster, Random(5)) for cluster in (first, second)]
    assert receipts[0] == receipts[1]
    assert set(receipts[0].evidence["during"]) == {"t-0", "t-1"}


def test_a_leader_without_another_in_sync_replica_stays():
    cluster = FakeCluster()
    cluster.kill("n2")
    cluster.kill("n3")
    receipt = MoveLeaders(target="partition:t-0").inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "t-0 has no other replica in sync")
    assert MoveLeaders().heal(cluster, receipt) == receipt


def test_an_election_that_fails_has_no_effect_and_is_healed():
    """The replicas have their new order already when the election is refused."""
    cluster = FakeCluster()

    def refuse(partitions):
        raise ClusterError("no controller")

    cluster.elect = refuse
    fault = MoveLeaders(target="partition:t-0")
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "no controller; t-0 is led by n1")
    assert cluster.placements(["t-0"])["t-0"].replicas[0] != "n1"
    fault.heal(cluster, receipt)
    assert cluster.placements(["t-0"])["t-0"].replicas[0] == "n1"


def test_a_leader_that_does_not_return_is_noted():
    cluster = FakeCluster()
    fault = MoveLeaders(target="partition:t-0")
    receipt = fault.inject(cluster, Random(1))
    cluster.kill("n1")
    assert "t-0 is led by n2 after healing" in fault.heal(cluster, receipt).note


def test_partitions_that_do_not_exist_are_no_target():
    cluster = FakeCluster()
    assert MoveLeaders(target="partition:x-9").inject(cluster, Random(1)).note == "no target: there is no partition x-9"
    assert "3 partitions wanted" in MoveLeaders(count=3).inject(cluster, Random(1)).note


@pytest.mark.parametrize("options", [{"target": "t-0"}, {"target": "partition:t"}, {"count": 0}, {"target": "all", "count": 2}])
def test_meaningless_partitions_are_refused(options):
    for fault in (MoveLeaders, Reassign):
        with pytest.raises(ValueError, match=r"target|count"):
            fault(**options)


def test_the_coordinator_of_a_transactional_id_moves_and_returns():
    cluster = FakeCluster()
    before = cluster.transaction_coordinator("tx-0")
    fault = MoveCoordinator()
    receipt = fault.inject(cluster, Random(1))
    during = cluster.transaction_coordinator("tx-0")
    assert (receipt.role, receipt.effective, receipt.evidence["id"]) == ("coordinator", True, "tx-0")
    assert during != before
    fault.heal(cluster, receipt)
    assert cluster.transaction_coordinator("tx-0") == before


def test_the_coordinator_of_a_group_moves_and_without_groups_there_is_no_target():
    cluster = FakeCluster(groups=["g"])
    before = cluster.group_coordinator("g")
    fault = MoveGroupCoordinator()
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, receipt.evidence["group"]) == (True, "g")
    assert cluster.group_coordinator("g") != before
    fault.heal(cluster, receipt)
    assert cluster.group_coordinator("g") == before
    assert "no consumer group is known" in MoveGroupCoordinator().inject(FakeCluster(groups=()), Random(1)).note
    assert MoveGroupCoordinator(target="group-coordinator:h").inject(FakeCluster(groups=()), Random(1)).effective


def test_a_target_of_the_other_coordinator_is_refused():
    with pytest.raises(ValueError, match="target"):
        MoveCoordinator(target="group-coordinator")


def test_a_replica_moves_to_the_broker_that_has_none_and_back():
    cluster = FakeCluster(brokers=4)
    fault = Reassign(target="partition:t-0")
    receipt = fault.inject(cluster, Random(1))
    moved = receipt.evidence["during"]["t-0"]["replicas"]
    assert (receipt.effective, receipt.note) == (True, "")
    assert "n4" in moved
    assert len(moved) == 3
    assert set(receipt.targets) == {"n4", *{"n1", "n2", "n3"} - set(moved)}
    healed = fault.heal(cluster, receipt)
    assert (healed.note, cluster.placements(["t-0"])["t-0"].replicas) == ("", ("n1", "n2", "n3"))
    assert cluster.leader("t", 0) == "n1"
    assert fault.heal(cluster, healed).note == ""


def test_where_every_broker_has_a_replica_one_is_removed():
    cluster = FakeCluster()
    receipt = Reassign(target="all").inject(cluster, Random(1))
    assert [len(place["replicas"]) for place in receipt.evidence["during"].values()] == [2, 2]
    Reassign().heal(cluster, receipt)
    assert len(cluster.placements(["t-0"])["t-0"].replicas) == 3


def test_no_replica_moves_to_a_dead_broker():
    cluster = FakeCluster(brokers=4)
    cluster.kill("n4")
    assert "n4" not in Reassign(target="partition:t-0").inject(cluster, Random(1)).targets


def test_with_two_replicas_on_two_brokers_nothing_can_move():
    cluster = FakeCluster(brokers=2)
    receipt = Reassign(target="partition:t-0").inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (
        False,
        "nothing can move: each has a replica on all of n1, n2, and none is to spare",
    )
    assert Reassign().heal(cluster, receipt) == receipt


def test_a_move_that_takes_too_long_is_noted_and_undone_by_healing():
    """The broker that the replica moved to is frozen, so it is not in sync."""
    cluster = FakeCluster(brokers=4)
    reassign = cluster.reassign
    cluster.reassign = lambda replicas: (reassign(replicas), cluster.pause("n4"))
    fault = Reassign(target="partition:t-0", moved_within_s=0, back_within_s=0)
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (True, "t-0 had not moved after 0 s")
    cluster.reassign = reassign
    fault.heal(cluster, receipt)
    assert cluster.placements(["t-0"])["t-0"].replicas == ("n1", "n2", "n3")
