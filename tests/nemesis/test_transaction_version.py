"""Transaction version: lowered and raised, seen at every broker, and given back."""

from random import Random

import pytest

from fencepost.harness.api import ClusterError
from fencepost.nemesis import transaction_version
from fencepost.nemesis.testing import FakeCluster
from fencepost.nemesis.transaction_version import FEATURE, TransactionVersion

ALL = ("n1", "n2", "n3")


@pytest.fixture(autouse=True)
def no_patience(monkeypatch):
    monkeypatch.setattr(transaction_version, "SEEN_WITHIN_S", 0)


def inject(cluster, **options):
    fault = TransactionVersion(**options)
    return fault, fault.inject(cluster, Random(1))


def level(cluster):
    (current,) = {features[FEATURE] for features in cluster.features().values()}
    return current


def test_the_level_is_lowered_and_healing_raises_it_again():
    cluster = FakeCluster()
    fault, receipt = inject(cluster)
    assert (receipt.effective, receipt.targets, receipt.note, level(cluster)) == (True, ALL, "", 1)
    assert receipt.evidence["before"] == {FEATURE: dict.fromkeys(ALL, 2)}
    healed = fault.heal(cluster, receipt)
    assert level(cluster) == 2
    assert fault.heal(cluster, healed).healing == healed.healing == {"after": receipt.evidence["before"]}


@pytest.mark.parametrize("wanted", [0, 2])
def test_any_other_level_may_be_set_and_the_former_one_comes_back(wanted):
    cluster = FakeCluster()
    cluster.set_feature(FEATURE, 1)
    fault, receipt = inject(cluster, level=wanted)
    assert (receipt.effective, level(cluster)) == (True, wanted)
    fault.heal(cluster, receipt)
    assert level(cluster) == 1


def test_a_level_that_is_there_already_has_no_effect_and_is_left_alone():
    cluster = FakeCluster()
    fault, receipt = inject(cluster, level=2)
    assert (receipt.effective, receipt.targets, receipt.note) == (False, (), "transaction.version is 2 already")
    fault.heal(cluster, receipt)
    assert cluster.calls == []


def test_a_dead_broker_counts_for_nothing():
    cluster = FakeCluster()
    cluster.kill("n2")
    assert inject(cluster)[1].targets == ("n1", "n3")


def test_what_was_refused_has_no_effect_and_is_undone_if_it_came_through_all_the_same():
    """The answer of a controller may be lost."""
    cluster = FakeCluster()
    late = cluster.set_feature

    def refuse(name, level):
        raise ClusterError("no answer")

    cluster.set_feature = refuse
    fault, receipt = inject(cluster)
    assert (receipt.effective, receipt.note.partition(";")[0]) == (False, "no answer")
    cluster.set_feature = late
    cluster.set_feature(FEATURE, 1)
    assert fault.heal(cluster, receipt).healing["after"] == {FEATURE: dict.fromkeys(ALL, 2)}


def test_what_could_not_be_given_back_is_left():
    cluster = FakeCluster()
    fault, receipt = inject(cluster)

    def refuse(name, level):
        raise ClusterError("no answer")

    cluster.set_feature = refuse
    healed = fault.heal(cluster, receipt)
    assert healed.healing["left"] == [FEATURE]
    assert "no answer; n1 has transaction.version 1" in healed.note


def test_of_two_faults_the_one_that_lasts_keeps_its_level():
    cluster = FakeCluster()
    first, first_receipt = inject(cluster, level=1)
    second, second_receipt = inject(cluster, level=0)
    assert "stays 0 as another fault set it" in first.heal(cluster, first_receipt).note
    assert level(cluster) == 0
    second.heal(cluster, second_receipt)
    assert level(cluster) == 2


def test_there_are_three_levels():
    with pytest.raises(ValueError, match="level"):
        TransactionVersion(level=3)
