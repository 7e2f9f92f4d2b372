"""Instances inside a transaction: those with a record in an open one, as long as there are any."""

from __future__ import annotations

from random import Random

import pytest

from fencepost.nemesis.kill import Kill
from fencepost.nemesis.pause import Pause
from fencepost.nemesis.support import open_transactions
from fencepost.nemesis.support.targets import find
from fencepost.nemesis.testing import FakeCluster

INSIDE = "instance:in-transaction"


@pytest.fixture
def cluster(monkeypatch):
    """Instances c1 to c3 with the ids x-1 to x-3, beside a writer with the id tx-0."""
    monkeypatch.setattr(open_transactions, "WITHIN_S", 0.05)
    made = FakeCluster(clients=4)
    nodes = ("c1", "c2", "c3")
    made.note_instances(dict.fromkeys(nodes, True), transactional_ids={node: f"x-{node[1:]}" for node in nodes})
    return made


def chosen(cluster, count=1):
    """Whoever is struck by any of twenty seeds."""
    return {node for seed in range(20) for node in find(INSIDE, cluster, Random(seed), count)}


def test_only_an_instance_with_a_record_in_an_open_transaction_is_struck(cluster):
    cluster.coordinated.begin("x-2", "t-0")
    cluster.coordinated.begin("tx-0", "t-0")
    cluster.coordinated.begin("x-3")  # its coordinator has it open, and no leader has a record of it
    assert chosen(cluster) == {"c2"}


def test_the_dead_and_the_frozen_are_not_inside_what_they_in_transaction(cluster):
    for name in ("x-1", "x-2", "x-3"):
        cluster.coordinated.begin(name, "t-0")
    cluster.kill("c1")
    cluster.pause("c2")
    assert chosen(cluster) == {"c3"}


def test_where_nobody_begins_a_transaction_any_is_struck(cluster):
    cluster.coordinated.begin("tx-0", "t-0")
    assert chosen(cluster) == {"c1", "c2", "c3"}


def test_of_a_program_with_ids_of_its_own_any_is_struck_when_one_is_open(cluster):
    cluster.coordinated.begin("streams-app-0_1", "t-0")
    assert chosen(cluster) == {"c1", "c2", "c3"}


def test_two_are_struck_when_two_are_inside(cluster):
    cluster.coordinated.begin("x-1", "t-0")
    cluster.coordinated.begin("x-3", "t-1")
    assert chosen(cluster, 2) == {"c1", "c3"}
    cluster.coordinated.begin("x-2", "t-1")
    assert chosen(cluster, 2) == {"c1", "c2", "c3"}


def asked_of(cluster, begins):
    """Notes how long each question may take. begins: the id of the transaction that begins at the third one."""
    ask, asked = cluster.transaction_listing, []

    def listing(partitions, within_s=2.0):
        asked.append(within_s)
        if len(asked) == 3:
            cluster.coordinated.begin(begins, "t-0")
        return ask(partitions, within_s)

    cluster.transaction_listing = listing
    return asked


@pytest.mark.parametrize(("begins", "struck"), [("x-2", {"c2"}), ("streams-app-0_1", {"c1", "c2", "c3"})])
def test_one_that_begins_is_waited_for_and_goes_before_those_that_were_open(cluster, monkeypatch, begins, struck):
    """What was open may be a dead process's, whose successor has its node."""
    monkeypatch.setattr(open_transactions, "WITHIN_S", 60.0)
    cluster.coordinated.begin("x-1", "t-0")
    asked = asked_of(cluster, begins)
    assert {*find(INSIDE, cluster, Random(1))} <= struck
    assert asked == [60.0, open_transactions.ASK_S, open_transactions.ASK_S]


def test_nobody_waits_for_a_program_without_transactional_ids(cluster, monkeypatch):
    monkeypatch.setattr(open_transactions, "WITHIN_S", 60.0)
    cluster.coordinated.begin("tx-0", "t-0")  # a writer's
    assert chosen(cluster) == {"c1", "c2", "c3"}


class Mute(FakeCluster):
    """A cluster whose answers to KIP-664's requests are not known."""

    transaction_listing = None


def test_a_cluster_that_cannot_be_asked_has_any_struck_at_once(monkeypatch):
    monkeypatch.setattr(open_transactions, "WITHIN_S", 60.0)
    cluster = Mute(clients=4)
    cluster.note_instances({"c1": True, "c2": True}, transactional_ids={"c1": "x-1", "c2": "x-2"})
    cluster.coordinated.begin("x-2", "t-0")
    assert chosen(cluster) == {"c1", "c2"}


@pytest.mark.parametrize("fault", [Kill, Pause])
def test_a_receipt_says_whether_the_struck_left_a_transaction_open(cluster, fault):
    cluster.coordinated.begin("x-2", "t-0")
    inside = fault(target=INSIDE).inject(cluster, Random(1))
    assert (inside.targets, inside.evidence["in_transaction"]) == (("c2",), {"c2": True})
    cluster.coordinated.ids.clear()
    outside = fault(target=INSIDE).inject(cluster, Random(1))
    assert outside.effective
    assert outside.evidence["in_transaction"] == dict.fromkeys(outside.targets, False)


@pytest.mark.parametrize("fault", [Kill, Pause])
def test_a_receipt_says_nothing_of_what_nobody_was_asked_or_knows(cluster, fault):
    cluster.coordinated.begin("x-2", "t-0")
    assert "in_transaction" not in fault(target="instance").inject(cluster, Random(1)).evidence
    cluster.note_instances(dict.fromkeys(("c1", "c2", "c3"), True), transactional_ids={})
    assert "in_transaction" not in fault(target=INSIDE).inject(cluster, Random(1)).evidence
