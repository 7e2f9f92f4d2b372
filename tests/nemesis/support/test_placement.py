"""Partitions as targets."""

from random import Random

import pytest

from fencepost.harness.api import ClusterError
from fencepost.nemesis.support.placement import check, find
from fencepost.nemesis.testing import FakeCluster


def test_partitions_are_found_by_their_topic_which_need_not_be_the_workloads():
    cluster = FakeCluster(topics=("fp-r-orders-0", "fp-r-orders-1", "fp-r-other-0"))
    assert set(find("internal:orders", cluster, Random(1), 2)) == {"fp-r-orders-0", "fp-r-orders-1"}
    assert find("internal:fp-r-other", cluster, Random(1)) == ("fp-r-other-0",)
    (internal,) = find("internal:__transaction_state", cluster, Random(1))
    assert internal.startswith("__transaction_state-")
    with pytest.raises(ClusterError, match="1 partition wanted, but topic ders has 0"):
        find("internal:ders", cluster, Random(1))


def test_the_other_targets_are_the_workloads_partitions():
    cluster = FakeCluster(topics=("t-0", "t-1"))
    assert find("all", cluster, Random(1)) == ("t-0", "t-1")
    assert find("partition:t-1", cluster, Random(1)) == ("t-1",)
    with pytest.raises(ClusterError, match="but the workload has 2"):
        find("random", cluster, Random(1), 3)


@pytest.mark.parametrize(
    ("target", "count", "text"),
    [
        ("internal:", 1, "Allowed: random, all, partition:TOPIC-PARTITION, internal:NAME"),
        ("partition:t", 1, "unknown target"),
        ("all", 2, 'goes with the targets "random" and "internal:NAME" only'),
        ("internal:t", 0, "at least one partition"),
    ],
)
def test_a_target_that_cannot_be_meant_is_refused(target, count, text):
    with pytest.raises(ValueError, match=text):
        check(target, count)
