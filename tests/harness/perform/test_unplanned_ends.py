"""What ends though no fault ends it."""

from types import SimpleNamespace

import pytest

from fencepost.harness.api import ClusterError
from fencepost.harness.perform.unplanned_ends import EVERY_S, UnplannedEnds
from fencepost.nemesis.testing import FakeCluster


class Looks:
    """A run's looks, two seconds apart; `hurt`: what faults hurt now; `told`: what was told, each time."""

    def __init__(self, cluster):
        self.hurt, self.told, self.now_s = set(), [], 0.0
        self.ends = UnplannedEnds(cluster, lambda: self.hurt, lambda names: self.told.append(list(names)), lambda: self.now_s)

    def look(self, times=1):
        for _ in range(times):
            self.now_s += EVERY_S
            self.ends.look()


@pytest.fixture
def cluster():
    return FakeCluster()


def test_a_broker_that_somebody_has_killed_is_told_once(cluster):
    looks = Looks(cluster)
    looks.look(3)
    cluster.kill("n2")
    looks.look(3)
    looks.ends.look_at_the_end()
    assert looks.told == [["n2"]]


def test_one_that_a_fault_has_killed_or_is_just_killing_is_not(cluster):
    looks = Looks(cluster)
    looks.look()
    cluster.kill("n2")  # by a fault, whose strike is entered a moment later
    looks.look()
    looks.hurt = {"n2"}
    looks.look(5)
    looks.ends.look_at_the_end()
    cluster.start("n2")
    looks.hurt = set()
    looks.look(2)
    assert looks.told == []


def test_a_proxy_that_ended_is_told_and_what_ended_before_stays(cluster):
    proxied = {"n1": True, "n2": True}
    cluster.proxied = lambda: proxied
    looks = Looks(cluster)
    looks.look(2)
    proxied["n1"] = False
    looks.look(2)
    cluster.kill("n3")
    looks.ends.look_at_the_end()
    assert looks.told == [["the proxy before n1"], ["the proxy before n1", "n3"]]


def test_a_look_that_nobody_answers_tells_nothing(cluster):
    looks = Looks(cluster)
    cluster.kill("n1")
    cluster.pid = lambda node: (_ for _ in ()).throw(ClusterError("no answer"))
    looks.look(3)
    looks.ends.look_at_the_end()
    assert looks.told == []


def test_a_broker_of_somebody_elses_cluster_is_looked_at_from_outside():
    away = set()
    cluster = SimpleNamespace(brokers=("n1", "n2"), unreachable_brokers=lambda: away)
    looks = Looks(cluster)
    looks.look(2)
    away.add("n2")
    looks.look(3)
    assert looks.told == [["n2"]]


def test_a_cluster_without_processes_to_look_at():
    looks = Looks(SimpleNamespace(brokers=("n1",)))
    looks.look(3)
    assert looks.told == []
