"""The fake for authors of faults behaves like a cluster where it matters."""

import pytest

from fencepost.harness.api import ClusterError, Killable, Partitionable, Pausable, Stoppable, Upgradable
from fencepost.nemesis.testing import FakeClock, FakeCluster


def test_a_fake_cluster_has_every_capability():
    cluster = FakeCluster()
    assert isinstance(cluster, Killable)
    assert isinstance(cluster, Pausable)
    assert isinstance(cluster, Partitionable)
    assert isinstance(cluster, Stoppable)
    assert isinstance(cluster, Upgradable)


def test_a_dead_node_cannot_be_frozen_thawed_or_killed_again():
    cluster = FakeCluster()
    cluster.kill("n1")
    for verb in (cluster.kill, cluster.pause, cluster.resume):
        with pytest.raises(ClusterError, match="n1 is dead"):
            verb("n1")
    assert (cluster.pid("n1"), cluster.process_state("n1"), cluster.answers("n1")) == (None, "", False)


def test_a_stopped_node_ends_and_frozen_and_stubborn_nodes_go_on():
    cluster = FakeCluster()
    cluster.pause("n2")
    cluster.stubborn.add("n3")
    for node in cluster.brokers:
        cluster.stop(node)
    cluster.stop("n1")
    assert [cluster.pid(node) is None for node in cluster.brokers] == [True, False, False]
    assert [cluster.status(node) for node in cluster.brokers] == [143, None, None]
    cluster.start("n1")
    assert cluster.status("n1") is None


def test_a_node_changes_its_version_to_one_that_is_known():
    cluster = FakeCluster()
    cluster.use_version("n1", "newer")
    assert [cluster.version("n1"), cluster.version("n2")] == ["newer", "fake"]
    with pytest.raises(ClusterError, match="n1 cannot run 0"):
        cluster.use_version("n1", "0")


def test_starting_a_node_that_runs_changes_nothing_even_when_it_is_frozen():
    cluster = FakeCluster()
    cluster.pause("n1")
    pid = cluster.pid("n1")
    cluster.start("n1")
    assert (cluster.pid("n1"), cluster.process_state("n1"), cluster.answers("n1")) == (pid, "T", False)


def test_a_frozen_process_can_be_killed_and_comes_back_awake():
    cluster = FakeCluster()
    cluster.pause("n1")
    cluster.kill("n1")
    cluster.start("n1")
    assert cluster.process_state("n1") == "S"


def test_a_killed_client_comes_back_only_when_it_is_replaced():
    cluster = FakeCluster()
    cluster.kill("c0")
    cluster.start("c0")
    assert cluster.pid("c0") is None
    cluster.replace("c0")
    assert cluster.whole()


def test_drops_are_one_way_and_counted_since_the_drop():
    cluster = FakeCluster()
    cluster.drop([("n1", "n2")])
    assert [cluster.send("n1", "n2"), cluster.send("n1", "n2"), cluster.send("n2", "n1")] == [False, False, True]
    assert cluster.dropped_packets([("n1", "n2"), ("n2", "n1")]) == {("n1", "n2"): 2, ("n2", "n1"): 0}
    cluster.drop([("n1", "n2")])
    assert cluster.dropped_packets([("n1", "n2")]) == {("n1", "n2"): 2}
    cluster.undrop([("n1", "n2"), ("n2", "n3")])
    assert cluster.probe([("n1", "n2")]) == {("n1", "n2"): True}


def test_an_unknown_node_is_an_error():
    with pytest.raises(ClusterError, match="no node n9"):
        FakeCluster().drop([("n1", "n9")])
    with pytest.raises(ClusterError, match="no node n9"):
        FakeCluster().pid("n9")


def test_the_cluster_heals_everything_that_was_done():
    cluster = FakeCluster()
    cluster.kill("n1")
    cluster.pause("n2")
    cluster.drop([("n2", "n3")])
    assert not cluster.whole()
    cluster.heal()
    assert cluster.whole()


def test_a_cluster_of_dead_nodes_has_no_controller():
    cluster = FakeCluster(brokers=1)
    cluster.kill("n1")
    with pytest.raises(ClusterError, match="nobody answered"):
        cluster.controller()


def test_the_clock_resumes_the_timeline_that_is_due_first():
    clock, seen = FakeClock(now_ns=0), []

    def line(name, *times):
        for wake_ns in times:
            yield wake_ns
            seen.append((name, clock()))

    clock.play([line("a", 5, 30), line("b", 10, 20)])
    assert seen == [("a", 5), ("b", 10), ("b", 20), ("a", 30)]


def test_the_clock_stops_at_the_given_time():
    clock, seen = FakeClock(now_ns=0), []

    def line():
        for wake_ns in (10, 20, 30):
            yield wake_ns
            seen.append(wake_ns)

    clock.play([line()], until_ns=25)
    assert (seen, clock()) == ([10, 20], 25)
