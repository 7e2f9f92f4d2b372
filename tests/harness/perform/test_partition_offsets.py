"""Offsets of partitions, each asked of the Kafka cluster that has it."""

from fencepost.harness.api import Isolation, Reader
from fencepost.harness.perform import partition_offsets
from fencepost.harness.perform.partition_offsets import PartitionOffsets
from fencepost.harness.perform.plan_roles import roles_of, topics_of
from fencepost.workloads.mirror import Mirror

PLAN = {
    "prefix": "fp-",
    "topics": {"in": {"partitions": 2, "cluster": "second"}, "out": {"partitions": 1}},
}


class Kafka:
    """A cluster that knows an end, and the partitions that it was asked for."""

    def __init__(self, end, second=None):
        self.end, self.second = end, second

    def admin(self):
        return self

    def end_offsets(self, names, isolation):
        return dict.fromkeys(names, self.end + (isolation is Isolation.UNCOMMITTED))

    def log_start_offsets(self, names):
        return dict.fromkeys(names, self.end - 1)


def test_each_partition_is_looked_up_at_its_own_cluster():
    offsets = PartitionOffsets(Kafka(5, Kafka(70)), PLAN)
    assert offsets.all == ["in-0", "in-1", "out-0"]
    assert (offsets.at(""), offsets.at("second")) == (["out-0"], ["in-0", "in-1"])
    assert offsets.ends(Isolation.COMMITTED) == {"in-0": 70, "in-1": 70, "out-0": 5}
    assert offsets.ends(Isolation.UNCOMMITTED) == {"in-0": 71, "in-1": 71, "out-0": 6}
    assert offsets.starts() == {"in-0": 69, "in-1": 69, "out-0": 4}


class Moving(Kafka):
    """A cluster in which the leader of `in-1` moves: the first answers lack it."""

    missed = 2

    def log_start_offsets(self, names):
        self.missed -= 1
        return {name: start for name, start in super().log_start_offsets(names).items() if name != "in-1" or self.missed < 0}


def test_a_partition_whose_leader_moves_is_asked_for_again(monkeypatch):
    monkeypatch.setattr(partition_offsets, "PAUSE_S", 0.0)
    asked = PartitionOffsets(Kafka(5, Moving(70)), PLAN)
    assert asked.starts() == {"in-0": 69, "out-0": 4}
    assert asked.starts(within_s=60.0) == {"in-0": 69, "in-1": 69, "out-0": 4}


def test_a_role_reads_the_topics_of_its_cluster():
    assert topics_of(PLAN, Reader()) == ["out"]
    assert topics_of(PLAN, Reader(cluster="second")) == ["in"]
    assert topics_of(PLAN, Reader(cluster="second", topics=("out",))) == []


def test_each_cluster_with_topics_is_read_back_at_both_levels():
    finals = [(role.cluster, role.isolation.value) for role in roles_of(Mirror(source_cluster="second")) if role.name == "final"]
    levels = ("read_committed", "read_uncommitted")
    assert finals == [(cluster, level) for cluster in ("", "second") for level in levels]
    assert [role.cluster for role in roles_of(Mirror()) if role.name == "final"] == ["", ""]
