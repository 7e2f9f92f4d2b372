"""Roles as text: what is accepted without a cluster, and whom they mean at the moment of the fault."""

from random import Random

import pytest

from fencepost.harness.api import ClusterError, ConnectDuties
from fencepost.nemesis.support import targets
from fencepost.nemesis.support.targets import ANY, BROKERS, ONE_BROKER, check, find
from fencepost.nemesis.testing import FakeCluster


@pytest.mark.parametrize(
    "role",
    [
        *("random", "all", "leader", "leader:orders-0", "leader:two-words-11", "controller", "coordinator", "coordinator:tx:1"),
        *("group-coordinator", "group-coordinator:g", "broker:n2", "client", "client:c3", "instance", "instance:in-transaction"),
    ],
)
def test_every_documented_role_is_accepted(role):
    check(role)


def test_a_misspelled_role_gets_a_suggestion_and_the_list():
    with pytest.raises(ValueError, match=r'unknown target "laeder"; did you mean "leader"\? Allowed: random, leader\[:TOPIC'):
        check("laeder")


@pytest.mark.parametrize("role", ["", "broker", "broker:", "leader:", "random:n1", "all:n1", "controller:k1", "leader:orders"])
def test_an_incomplete_role_is_refused(role):
    with pytest.raises(ValueError, match="target"):
        check(role)


def test_an_instance_is_not_named():
    with pytest.raises(ValueError, match=r'target "instance:c2" is spelled instance\[:in-transaction\]; a node is client:c2'):
        check("instance:c2")


def test_a_fault_may_allow_fewer_roles():
    """A partition between servers cannot be asked for a client, and a bridge is one broker."""
    with pytest.raises(ValueError, match='unknown target "client"'):
        check("client", BROKERS)
    with pytest.raises(ValueError, match='unknown target "all"'):
        check("all", ONE_BROKER)


def test_a_count_needs_a_role_of_several_nodes():
    check("random", count=2)
    check("client", count=3)
    check("instance:in-transaction", count=2)
    with pytest.raises(ValueError, match="count = 2 goes with"):
        check("leader", count=2)
    with pytest.raises(ValueError, match="count = 0"):
        check("random", ANY, count=0)


def test_roles_are_looked_up_at_injection():
    """The leader of t-1 is n2 until n2 dies."""
    cluster = FakeCluster()
    assert find("leader:t-1", cluster, Random(1)) == ("n2",)
    cluster.kill("n2")
    assert find("leader:t-1", cluster, Random(1)) == ("n3",)


def test_each_role_finds_its_nodes():
    cluster = FakeCluster(controllers=2, groups=("g",), topics=("t-0",))
    assert find("all", cluster, Random(1)) == ("n1", "n2", "n3")
    assert find("leader", cluster, Random(1)) == ("n1",)
    assert find("controller", cluster, Random(1)) == ("k1",)
    assert find("coordinator", cluster, Random(1)) == (cluster.transaction_coordinator("tx-0"),)
    assert find("coordinator:other", cluster, Random(1)) == (cluster.transaction_coordinator("other"),)
    assert find("group-coordinator", cluster, Random(1)) == (cluster.group_coordinator("g"),)
    assert find("broker:n3", cluster, Random(1)) == ("n3",)
    assert find("client:c1", cluster, Random(1)) == ("c1",)


def test_the_coordinators_of_a_programs_ids_are_struck_too():
    cluster = FakeCluster(brokers=9, transactional_ids=("tx-0",), clients=3)
    of_writer = {cluster.transaction_coordinator("tx-0")}
    assert {find("coordinator", cluster, Random(seed))[0] for seed in range(30)} == of_writer
    cluster.note_instances({"c1": True, "c2": False}, transactional_ids={"c1": "x-1", "c2": "x-2"})
    both = {cluster.transaction_coordinator(name) for name in ("x-1", "x-2")}
    assert {find("coordinator", cluster, Random(seed))[0] for seed in range(30)} == of_writer | both


class ConnectCluster(FakeCluster):
    """c1 leads the workers of Connect, and c2 has its tasks."""

    def connect_duties(self):
        return {"c1": ConnectDuties(leads=True, connectors=("s",)), "c2": ConnectDuties(leads=False, tasks=(("s", 0), ("s", 1)))}


def test_workers_of_connect_are_found_by_what_they_do(monkeypatch):
    monkeypatch.setattr(targets, "REBALANCED_S", 0.0)
    cluster = ConnectCluster(clients=4)
    cluster.note_instances({"c1": True, "c2": True, "c3": False})
    assert find("connect-leader", cluster, Random(1)) == ("c1",)
    assert find("connect-task", cluster, Random(1)) == find("connect-task:1", cluster, Random(1)) == ("c2",)
    assert {find("instance", cluster, Random(seed)) for seed in range(20)} == {("c1",), ("c2",)}
    with pytest.raises(ClusterError, match="no worker of Kafka Connect with task 7 is known"):
        find("connect-task:7", cluster, Random(1))
    with pytest.raises(ClusterError, match="nobody knows the workers of Kafka Connect"):
        find("connect-leader", FakeCluster(), Random(1))


def test_an_instance_that_is_frozen_is_struck_only_when_no_other_runs():
    cluster = FakeCluster(clients=3)
    cluster.note_instances({"c1": True, "c2": True})
    cluster.pause("c1")
    assert {find("instance", cluster, Random(seed)) for seed in range(20)} == {("c2",)}
    assert {*find("instance", cluster, Random(1), 2)} == {"c1", "c2"}
    cluster.pause("c2")
    assert {find("instance", cluster, Random(seed)) for seed in range(20)} == {("c1",), ("c2",)}


def test_workers_whose_group_is_rebalanced_are_queried_again():
    cluster, answers = ConnectCluster(clients=4), iter([{}, {}, {"c1": ConnectDuties(leads=True)}])
    cluster.connect_duties = lambda: next(answers)
    assert find("connect-leader", cluster, Random(1)) == ("c1",)


def test_random_targets_are_distinct_and_decided_by_the_seed():
    cluster = FakeCluster(brokers=9)
    drawn = find("random", cluster, Random(5), count=4)
    assert len(set(drawn)) == 4
    assert drawn == find("random", cluster, Random(5), count=4)
    assert len({find("random", cluster, Random(seed)) for seed in range(50)}) == 9


@pytest.mark.parametrize(
    ("role", "count", "text"),
    [
        ("random", 4, "4 brokers wanted, but there are 3"),
        ("client", 1, "1 client wanted, but there are 0"),
        ("client:c9", 1, 'no client "c9"; there are: none'),
        ("broker:n7", 1, 'no broker "n7"; there are: n1, n2, n3'),
        ("coordinator", 1, "no transactional id is known"),
        ("group-coordinator", 1, "no consumer group is known"),
        ("leader:x-0", 1, "no partition x-0"),
    ],
)
def test_a_role_without_a_node_is_an_error_that_names_the_nodes(role, count, text):
    with pytest.raises(ClusterError, match=text):
        find(role, FakeCluster(clients=0, transactional_ids=(), groups=()), Random(1), count)


# --------------------------------------------------------------------------------------------------
# A second Kafka cluster
# --------------------------------------------------------------------------------------------------
def test_roles_of_the_second_cluster_are_looked_up_there():
    cluster = FakeCluster(second_brokers=3)
    assert find("second:all", cluster, Random(1)) == ("s1", "s2", "s3")
    assert set(find("second:random", cluster, Random(1), count=2)) < {"s1", "s2", "s3"}
    roles = ("leader", "leader:configs-0", "controller", "coordinator", "group-coordinator:workers", "broker:s1")
    assert {find(f"second:{role}", cluster, Random(1)) for role in roles} == {("s1",)}
    assert {find("random", cluster, Random(seed)) for seed in range(30)} == {("n1",), ("n2",), ("n3",)}
    with pytest.raises(ClusterError, match='there is no broker "n1"; there are: s1, s2, s3'):
        find("second:broker:n1", cluster, Random(1))
    with pytest.raises(ClusterError, match="no second Kafka cluster"):
        find("second:random", FakeCluster(), Random(1))


@pytest.mark.parametrize(
    "role", ["second:random", "second:leader:orders-0", "second:broker:s2", "second:all", "second:coordinator:x"]
)
def test_every_role_of_a_broker_may_be_of_the_second_cluster(role):
    check(role)


@pytest.mark.parametrize("role", ["second", "second:", "second:client", "second:laeder", "second:second:random", "second:broker"])
def test_what_no_second_cluster_has_is_refused(role):
    with pytest.raises(ValueError, match="target"):
        check(role)
    with pytest.raises(ValueError, match="target"):
        check("second:all", ONE_BROKER)
