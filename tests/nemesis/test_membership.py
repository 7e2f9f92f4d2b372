"""Membership: a broker leaves, is unregistered, and returns as a new one; and when its data must stay."""

from random import Random

import pytest

from fencepost.harness.api import Wipeable
from fencepost.nemesis.membership import Membership
from fencepost.nemesis.testing import FakeCluster


def cluster_of_three():
    return FakeCluster(controllers=1)


def test_a_broker_leaves_loses_its_data_and_joins_again():
    cluster = cluster_of_three()
    fault = Membership(target="broker:n2")
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, receipt.note, receipt.targets) == (True, "", ("n2",))
    assert receipt.evidence["before"]["in_service"] == ["n1", "n2", "n3"]
    assert receipt.evidence["during"] == {"pid": None, "in_service": ["n1", "n3"], "bytes": 0, "status": 143}
    assert cluster.calls == [("stop", "n2"), ("wipe", "n2"), ("unregister", "n2")]
    healed = fault.heal(cluster, receipt)
    assert (healed.note, healed.healing["answers"]) == ("", {"n2": True})
    assert healed.healing["after"]["in_service"] == ["n1", "n2", "n3"]
    assert fault.heal(cluster, healed).healing["started"] == []
    assert cluster.whole()


def test_a_broker_may_stay_registered():
    cluster = cluster_of_three()
    Membership(target="broker:n2", unregister=False).inject(cluster, Random(1))
    assert ("unregister", "n2") not in cluster.calls


def test_the_last_in_sync_replica_is_not_removed():
    """n1 is dead and n3 frozen, so n2 has what no other broker has in sync."""
    cluster = cluster_of_three()
    cluster.kill("n1")
    cluster.pause("n3")
    fault = Membership(target="broker:n2", gone_within_s=0, back_within_s=0)
    receipt = fault.inject(cluster, Random(1))
    assert receipt.note == "n2 is left alone, for t-0 is in sync on n2, led by n2"
    assert (receipt.effective, receipt.targets) == (False, ())
    fault.heal(cluster, receipt)
    assert cluster.calls == [("kill", "n1"), ("pause", "n3")]


def test_a_broker_whose_followers_fall_behind_once_it_has_stopped_keeps_its_data():
    """Then it has not left the cluster: it only stopped, which is not what the fault claims to do."""
    cluster = cluster_of_three()
    stop = cluster.stop
    cluster.stop = lambda node: (stop(node), [cluster.kill(other) for other in ("n1", "n3")])
    fault = Membership(target="broker:n2", gone_within_s=0, back_within_s=0)
    receipt = fault.inject(cluster, Random(1))
    assert receipt.note.startswith("only stopped: the data of n2 is left alone, for t-0 is in sync on nobody")
    assert (receipt.effective, receipt.evidence["during"]["bytes"]) == (False, 1_000_000)
    assert ("wipe", "n2") not in cluster.calls
    assert "without n1, n3" in fault.heal(cluster, receipt).note
    assert cluster.pid("n2") is not None


def test_a_broker_whose_disk_was_not_emptied_has_not_left():
    """`wipe` returned, and the data are still there."""
    cluster = cluster_of_three()
    cluster.wipe = lambda node: None
    receipt = Membership(target="broker:n2").inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "only stopped: n2 still holds 1000000 bytes")


def test_the_disk_of_a_voter_is_not_wiped():
    cluster = FakeCluster()
    receipt = Membership(target="broker:n2").inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "n2 votes in the quorum")
    assert "a combined controller" in cluster.unavailable(Wipeable)
    assert ("unregister", "n2") not in cluster.calls
    Membership().heal(cluster, receipt)
    assert cluster.whole()


def test_a_broker_that_does_not_end_keeps_its_data_and_is_killed_by_healing():
    cluster = cluster_of_three()
    cluster.pause("n2")
    fault = Membership(target="broker:n2", gone_within_s=0)
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "n2 had not ended after 0 s")
    fault.heal(cluster, receipt)
    assert ("wipe", "n2") not in cluster.calls
    assert cluster.whole()


def test_a_broker_that_was_dead_already_is_left_alone():
    cluster = cluster_of_three()
    cluster.kill("n2")
    receipt = Membership(target="broker:n2").inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "n2 was dead already")
    Membership().heal(cluster, receipt)
    assert cluster.pid("n2") is None


@pytest.mark.parametrize("options", [{"target": "controller"}, {"target": "all"}, {"back_within_s": -1.0}])
def test_meaningless_options_are_refused(options):
    with pytest.raises(ValueError, match=r"target|back_within_s"):
        Membership(**options)
