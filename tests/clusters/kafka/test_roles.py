"""Roles on which brokers disagree, and the place of a coordinator."""

import pytest

from fencepost.clusters.kafka.protocol import Metadata, Partition
from fencepost.clusters.kafka.roles import WireRoles, ask_again, ask_all, coordinator_partition, java_hash, newest
from fencepost.harness.api import ClusterError


def partition(leader, epoch, in_sync=(1, 2, 3)):
    return Partition("t", 0, leader, epoch, (1, 2, 3), in_sync, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("hello", 99162322), ("polygenelubricants", -(1 << 31)), ("\N{GRINNING FACE}", 1772899), ("fp-1-2", -1269970413)],
)
def test_java_hash_equals_string_hash_code(text, expected):
    """Values taken from String.hashCode; a character beyond 16 bits counts as two."""
    assert java_hash(text) == expected


def test_a_negative_hash_becomes_positive_and_the_smallest_becomes_zero():
    """Kafka takes Utils.abs, not the lower 31 bits: with six partitions these differ."""
    assert coordinator_partition("fp-1-2", 6) == 1269970413 % 6
    assert coordinator_partition("polygenelubricants", 6) == 0


def test_of_two_views_the_one_with_the_higher_leader_epoch_counts():
    """A broker that was cut off still names the old leader."""
    stale, fresh = Metadata((1, 2, 3), (partition(1, 4),)), Metadata((2, 3), (partition(2, 5),))
    assert newest([fresh, stale])["t-0"].leader == 2
    assert newest([stale, fresh])["t-0"].leader == 2


def test_at_equal_epochs_the_smaller_in_sync_set_counts():
    """No replica counts as in sync because one broker's metadata is stale."""
    views = [Metadata((1,), (partition(1, 4),)), Metadata((2,), (partition(1, 4, in_sync=(1, 2)),))]
    assert newest(views)["t-0"].in_sync == (1, 2)


def test_nodes_that_do_not_answer_are_left_out_but_other_errors_are_raised():
    """A refused connection is an answer about the node; any other exception is ours and must be seen."""

    def call(address):
        if address[1] == 2:
            raise ConnectionRefusedError
        return address[1]

    assert ask_all(call, {"n1": ("h", 1), "n2": ("h", 2)}) == {"n1": 1}
    with pytest.raises(ZeroDivisionError):
        ask_all(lambda _: 1 // 0, {"n1": ("h", 1)})


def test_where_nobody_answers_in_time_all_are_asked_once_more():
    """Not where somebody does: of a frozen broker nobody waits for long."""

    def busy(address, within_s):
        if within_s < 5.0:
            raise TimeoutError
        return within_s

    def frozen(address, within_s):
        if address == 2:
            raise TimeoutError
        return within_s

    assert ask_again(busy, {"n1": 1, "n2": 2}) == {"n1": 5.0, "n2": 5.0}
    assert ask_again(frozen, {"n1": 1, "n2": 2}) == {"n1": 1.0}


def test_roles_of_a_dead_cluster_raise_an_error_with_the_nodes_tried():
    """No process listens on port 1: the error names the nodes."""
    roles = WireRoles(names={1: "n1"}, brokers={"n1": ("127.0.0.1", 1)}, controllers={"n1": ("127.0.0.1", 1)})
    with pytest.raises(ClusterError, match="none of n1"):
        roles.leader("t", 0)
    with pytest.raises(ClusterError, match="0 of 1 answered"):
        roles.controller()
