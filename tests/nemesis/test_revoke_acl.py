"""Revoke ACL: clients lose a right and get it back."""

from random import Random

import pytest

from fencepost.nemesis.revoke_acl import RevokeAcl
from fencepost.nemesis.testing import FakeCluster


@pytest.mark.parametrize(
    ("options", "role", "gone", "there"),
    [
        ({"right": "write on topic", "target": "all"}, "write on every topic", "allow write on every topic", ""),
        ({"right": "write on topic"}, "write on topic t", "", "deny write on topic t"),
        ({"right": "write on transactional id"}, "write on transactional id tx-0", "", "deny write on transactional id tx-0"),
        ({"right": "read on group", "target": "name:mine"}, "read on group mine", "", "deny read on group mine"),
    ],
)
def test_clients_lose_it_until_it_is_healed(options, role, gone, there):
    cluster = FakeCluster()
    fault = RevokeAcl(**options)
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, receipt.role.partition(": ")[2], receipt.targets) == (True, role, cluster.brokers)
    for node in cluster.brokers:
        before, during = (set(receipt.evidence[when][node]) for when in ("before", "during"))
        assert (before - during, during - before) == ({gone} - {""}, {there} - {""})
    healed = fault.heal(cluster, receipt)
    assert cluster.whole()
    assert healed.healing == {"after": receipt.evidence["before"]}
    assert fault.heal(cluster, healed).healing == healed.healing


def test_each_right_is_drawn():
    drawn = {RevokeAcl().inject(FakeCluster(), Random(seed)).role.partition(": ")[2] for seed in range(20)}
    assert drawn == {"write on topic t", "write on transactional id tx-0", "read on group g-0"}


def test_a_right_that_is_gone_already_is_left_to_the_fault_that_took_it():
    cluster, fault = FakeCluster(), RevokeAcl(right="write on topic")
    first = fault.inject(cluster, Random(1))
    second = fault.inject(cluster, Random(1))
    assert (second.effective, "taken away already" in second.note) == (False, True)
    fault.heal(cluster, second)
    assert not cluster.whole()
    fault.heal(cluster, first)
    assert cluster.whole()


def test_a_broker_that_does_not_learn_of_it_is_named(monkeypatch):
    monkeypatch.setattr("fencepost.nemesis.revoke_acl.SEEN_WITHIN_S", 0.02)
    cluster, fault = FakeCluster(), RevokeAcl(right="write on topic", target="all")
    cluster.client_rights.deaf = {"n2"}
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, receipt.evidence["hit"], receipt.note) == (True, ["n1", "n3"], "n2 still allows it")
    cluster.client_rights.deaf = {"n1"}
    assert fault.heal(cluster, receipt).healing["left"] == ["n1"]


@pytest.mark.parametrize(("right", "target"), [("read", "random"), ("write on topic", "orders")])
def test_what_cannot_be_meant_is_refused(right, target):
    with pytest.raises(ValueError, match=r"must be one of|unknown target"):
        RevokeAcl(right=right, target=target)


def test_without_any_of_the_kind_nothing_is_taken():
    receipt = RevokeAcl(right="read on group").inject(FakeCluster(groups=()), Random(1))
    assert (receipt.effective, receipt.note) == (False, "no target: the workload has none of the kind")
