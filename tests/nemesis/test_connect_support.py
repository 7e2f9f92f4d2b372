"""Connect support: workers are restarted one after another with another level, and get back what they had."""

from random import Random

import pytest

from fencepost.nemesis.connect_support import ConnectSupport
from fencepost.nemesis.testing import FakeCluster

WORKERS = ("c0", "c1", "c2")


def inject(stubborn=(), support="disabled", **options):
    cluster = FakeCluster(clients=4)
    cluster.note_instances(
        {**dict.fromkeys(WORKERS, True), "c3": False}, {node: {"support": support} for node in WORKERS if support}
    )
    cluster.stubborn |= set(stubborn)
    fault = ConnectSupport(within_s=0.0, **options)
    return cluster, fault, fault.inject(cluster, Random(1))


def levels(cluster):
    return [cluster.setting(node, "support") for node in WORKERS]


def test_every_worker_goes_through_every_level_and_back():
    cluster, fault, receipt = inject()
    assert (receipt.effective, sorted(receipt.targets), levels(cluster)) == (True, [*WORKERS], ["enabled"] * 3)
    rounds = [node for verb, node in cluster.calls if verb == "retire"]
    assert sorted(rounds[:3]) == sorted(rounds[3:]) == [*WORKERS]
    assert {len(away) for away in receipt.evidence["away_s"].values()} == {2}
    healed = fault.heal(cluster, receipt)
    assert levels(cluster) == ["disabled"] * 3
    assert healed.healing["after"] == dict.fromkeys(WORKERS, "disabled")
    assert "left" not in healed.healing


def test_a_worker_that_does_not_end_keeps_its_level_and_is_named():
    cluster, fault, receipt = inject(stubborn=["c1"])
    assert levels(cluster) == ["enabled", "disabled", "enabled"]
    assert "c1 did not end within 0 s, and keeps its level" in receipt.note
    assert fault.heal(cluster, receipt).healing["after"]["c1"] == "disabled"


def test_without_workers_there_is_nothing_to_restart():
    cluster, _, receipt = inject(support="")
    assert receipt.effective is False
    assert "no workers of Kafka Connect" in receipt.note
    assert cluster.calls == []


@pytest.mark.parametrize(("wrong", "text"), [((), "at least one of"), (("on",), '"on" is none of')])
def test_levels_that_there_are_not_are_refused(wrong, text):
    with pytest.raises(ValueError, match=text):
        ConnectSupport(levels=wrong)


def test_the_test_has_to_say_what_is_not_promised_meanwhile():
    assert ConnectSupport().demanded_contract() == {"connect": "disabled"}
    assert ConnectSupport(levels=("enabled",)).demanded_contract() == {}
