"""Scale: instances end in order or are started, and come back as they were."""

from random import Random

import pytest

from fencepost.nemesis.scale import Scale
from fencepost.nemesis.testing import FakeCluster

THREE, ONE_SPARE = dict.fromkeys(("c0", "c1", "c2"), True), {"c0": True, "c1": True, "c2": False}


def inject(states, stubborn=(), **options):
    cluster = FakeCluster(clients=3)
    cluster.note_instances(states)
    cluster.stubborn |= set(stubborn)
    fault = Scale(within_s=0.0, **options)
    return cluster, fault, fault.inject(cluster, Random(1))


def alive(cluster):
    return [node for node in cluster.clients if cluster.pid(node)]


def test_fewer_run_until_it_is_healed():
    cluster, fault, receipt = inject(THREE, to=1)
    assert (receipt.effective, len(receipt.targets), receipt.evidence["instances"]) == (True, 2, [3, 1])
    assert len(alive(cluster)) == 1
    assert set(receipt.evidence["during"].values()) == {None}
    healed = fault.heal(cluster, receipt)
    assert cluster.instances() == THREE
    assert all(healed.healing["after"].values())
    assert fault.heal(cluster, healed).healing == healed.healing


def test_more_run_where_there_are_spares_and_end_when_it_is_healed():
    cluster, fault, receipt = inject(ONE_SPARE, to=3)
    assert (receipt.effective, receipt.targets, receipt.evidence["before"]) == (True, ("c2",), {"c2": None})
    assert alive(cluster) == ["c0", "c1", "c2"]
    fault.heal(cluster, receipt)
    assert cluster.instances() == ONE_SPARE
    assert alive(cluster) == ["c0", "c1"]


def test_the_number_is_drawn_and_never_the_present_one():
    drawn = {len(alive(inject(ONE_SPARE)[0])) for _ in range(3)}
    assert drawn <= {1, 3}
    numbers = set()
    for seed in range(20):
        cluster = FakeCluster(clients=3)
        Scale(within_s=0.0).inject(cluster, Random(seed))
        numbers.add(len(alive(cluster)))
    assert numbers == {1, 2}


def test_a_single_instance_ends_and_comes_back():
    cluster, fault, receipt = inject({"c0": True})
    assert (receipt.effective, receipt.targets, receipt.evidence["instances"]) == (True, ("c0",), [1, 0])
    fault.heal(cluster, receipt)
    assert cluster.instances() == {"c0": True}
    assert cluster.pid("c0")


def test_an_instance_that_does_not_end_makes_it_ineffective():
    _, _, receipt = inject(THREE, stubborn=("c0", "c1", "c2"), to=2)
    assert receipt.effective is False
    assert "has not ended within 0 s" in receipt.note


@pytest.mark.parametrize(
    ("states", "to", "why"),
    [
        ({}, 0, "no instances or members"),
        (THREE, 3, "3 of 3"),
        (THREE, 5, "`spares` gives more"),
    ],
)
def test_where_nothing_can_change_nothing_is_hurt(states, to, why):
    cluster, fault, receipt = inject(states, to=to)
    assert receipt.effective is False
    assert why in receipt.note
    fault.heal(cluster, receipt)
    assert cluster.calls == []


def frozen_and_scaled(*frozen, seed=0, **options):
    """The nodes that a fault changes while others are frozen, and how many instances run then."""
    cluster = FakeCluster(clients=3)
    cluster.note_instances(THREE)
    for node in frozen:
        cluster.pause(node)
    receipt = Scale(within_s=0.0, **options).inject(cluster, Random(seed))
    return receipt.targets, receipt.evidence["instances"][1]


def test_the_highest_numbers_end_so_that_the_others_get_the_same_partitions_again():
    assert {frozen_and_scaled(to=2, seed=seed) for seed in range(5)} == {(("c2",), 2)}
    assert frozen_and_scaled(to=1) == (("c1", "c2"), 1)
    ten = dict.fromkeys((f"c{number}" for number in range(3, 13)), True)
    cluster = FakeCluster(clients=13)
    cluster.note_instances(ten)
    assert Scale(within_s=0.0, to=8).inject(cluster, Random(1)).targets == ("c11", "c12")


def test_frozen_instances_are_left_alone_and_one_that_is_awake_goes_on():
    """A frozen one cannot end in order, and is to wake as a zombie."""
    assert {frozen_and_scaled("c2", seed=seed) for seed in range(20)} == {(("c1",), 2)}


def test_a_number_that_leaves_no_instance_awake_counts_all_the_same():
    assert frozen_and_scaled("c0", "c1", to=1) == (("c1", "c2"), 1)
    assert frozen_and_scaled("c1", to=1) == (("c0", "c2"), 1)
