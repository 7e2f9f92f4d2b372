"""One rule for faults of several targets: effective where one of them was hurt; `hit` and the note tell the others apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from random import Random
from typing import Any

import pytest

from fencepost.harness.api import ClusterError, clock
from fencepost.nemesis.support import network_partition
from fencepost.nemesis.testing import FakeCluster

ONE = {
    "abort-transaction": "one transaction on one partition",
    "corrupt": "one copy of one partition",
    "cut-client": "one client, by its links",
    "isolate-then-kill": "one broker, which has to die",
    "membership": "one broker",
    "packet-loss": "losses of all links are counted together: by chance one may have none",
    "protocol": "its targets are those at which a message was caught",
    "move-coordinator": "the leader of one partition",
    "move-group-coordinator": "the leader of one partition",
}


class Resisting(FakeCluster):
    """A cluster some of whose nodes, ids, topics or partitions resist."""

    resisting: tuple[str, ...] = ()

    def resist(self, names):
        self.resisting = tuple(names)
        self.stubborn |= {name for name in names if name in self.servers or name in self.clients}
        others = [*self.servers, *self.clients]
        pairs = network_partition.both_ways(others, others)
        self.leaky = {pair for pair in pairs if {*pair, network_partition.pair_name(pair)} & {*names}}
        self.client_rights.deaf |= {*names}

    def fence_producer(self, name):
        if name in self.resisting:
            raise ClusterError("no answer")
        return self.coordinated.fence_producer(name)

    def set_topic_settings(self, topic, settings):
        if topic in self.resisting:
            raise ClusterError(f"{topic}: no answer")
        self._partitions.set_topic_settings(topic, settings)

    def reassign(self, replicas):
        self._partitions.reassign({name: nodes for name, nodes in replicas.items() if name not in self.resisting})

    def elect(self, partitions):
        self._partitions.elect([name for name in partitions if name not in self.resisting])

    def topic_ids(self, topic):
        """Brokers that resist have not learnt of a deletion."""
        ids = self._partitions.topic_ids(topic)
        return {node: f"{topic}#0" if node in self.resisting else name for node, name in ids.items()}

    def features(self):
        seen = self._partitions.features()
        return {node: {"transaction.version": 2} if node in self.resisting else level for node, level in seen.items()}


class Workers(Resisting):
    """Three instances, workers of Connect, of which those that resist do not end."""

    def __init__(self):
        super().__init__(clients=3)
        own = {"support": "disabled", "version": "4.3.0", "versions": "4.3.0 3.9.1"}
        self.note_instances(dict.fromkeys(self.clients, True), {node: dict(own) for node in self.clients})


class TwoIds(Resisting):
    def __init__(self):
        super().__init__(transactional_ids=("tx-0", "tx-1"))


class TwoTopics(Resisting):
    def __init__(self):
        super().__init__(brokers=6, topics=("a-0", "b-3"))


@dataclass(frozen=True, kw_only=True)
class Partly:
    """A fault of several targets.

    spared: the target that resists: a node, an id, a topic or a partition; it stands in the note.
    hit: the nodes that the evidence then names; None: the targets that are no nodes do not tell.
    """

    options: dict[str, Any]
    spared: str = "n1"
    hit: tuple[str, ...] | None = ("n2", "n3")
    cluster: Callable[[], Resisting] = lambda: Resisting()


ALL, SOON = {"target": "all"}, {"within_s": 0.0}
WORKER, TOPICS = {"cluster": Workers, "spared": "c1"}, {"cluster": TwoTopics, "options": ALL}
TABLE = {
    "kill": Partly(options=ALL),
    "pause": Partly(options=ALL),
    "graceful-stop": Partly(options={"count": 3}),
    "rolling-restart": Partly(options={}),
    "power-off": Partly(options=ALL),
    "disk-full": Partly(options=ALL),
    "slow-disk": Partly(options=ALL),
    "clock-skew": Partly(options={**ALL, "direction": "ahead"}),
    "latency": Partly(options=ALL),
    "bandwidth": Partly(options=ALL),
    "link-flap": Partly(options=ALL),
    "isolate": Partly(options=ALL),
    "cut-clients": Partly(options=ALL),
    "halves": Partly(options={}, spared="n2>n1", hit=None),
    "bridge": Partly(options={"target": "broker:n3"}, spared="n2>n1", hit=None),
    "one-way": Partly(options={"target": "broker:n1", "direction": "in"}, spared="n2>n1", hit=None),
    "scale": Partly(options={"to": 1}, hit=("c2",), **WORKER),
    "connect-support": Partly(options={}, hit=("c0", "c2"), **WORKER),
    "connect-version": Partly(options={}, hit=("c0", "c2"), **WORKER),
    "revoke-acl": Partly(options={**ALL, "right": "write on topic"}),
    "transaction-version": Partly(options={"level": 1}, hit=None),
    "delete-topic": Partly(options={}, hit=None),
    "fence-producers": Partly(options=ALL, spared="tx-0", hit=None, cluster=TwoIds),
    "topic-settings": Partly(spared="a", hit=("n4", "n5", "n6"), **TOPICS),
    "reassign": Partly(spared="a-0", hit=None, **TOPICS),
    "move-leaders": Partly(spared="a-0", hit=("n4",), **TOPICS),
}


def installed():
    """fencepost's own faults, by name."""
    found = entry_points(group="fencepost.nemesis")
    return {entry.name: entry.load() for entry in found if entry.value.startswith("fencepost.nemesis.")}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    monkeypatch.setattr(clock, "sleep", lambda seconds: now.__setitem__(0, now[0] + max(seconds, 1.0)))


def test_every_installed_fault_of_several_targets_is_in_the_table():
    assert TABLE.keys() | ONE.keys() == installed().keys()
    assert not TABLE.keys() & ONE.keys()


def struck(name, resisting):
    partly = TABLE[name]
    cluster = partly.cluster()
    cluster.resist(resisting)
    return installed()[name](**partly.options).inject(cluster, Random(1))


@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_fault_that_hurts_some_of_its_targets_is_effective_and_names_the_others(name):
    partly = TABLE[name]
    receipt = struck(name, [partly.spared])
    assert receipt.effective is True
    assert partly.spared in receipt.note
    if partly.hit is not None:
        assert sorted(receipt.evidence["hit"]) == [*partly.hit]


@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_fault_that_hurts_none_of_its_targets_is_without_effect(name):
    cluster = TABLE[name].cluster()
    topics = {partition.rpartition("-")[0] for partition in cluster.topics}
    everything = [*cluster.servers, *cluster.clients, *cluster.transactional_ids, *cluster.topics, *topics]
    receipt = struck(name, everything)
    assert (receipt.effective, "hit" in receipt.evidence) == (False, False)
    assert receipt.note


@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_fault_that_hurts_all_of_its_targets_names_no_part_of_them(name):
    receipt = struck(name, [])
    assert (receipt.effective, "hit" in receipt.evidence) == (True, False)
