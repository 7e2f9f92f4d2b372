"""The budget: two faults cannot by accident take more nodes than the test allows."""

from dataclasses import dataclass
from random import Random

import pytest
from support.fault_schedule import T0, S, Stage, planned

from fencepost.harness.api import Killable, OverBudget, Skewable
from fencepost.harness.api.plans import Budget
from fencepost.harness.perform.budget import Ledger, sides
from fencepost.nemesis.disk_full import DiskFull
from fencepost.nemesis.kill import Kill
from fencepost.nemesis.support.network_partition import both_ways
from fencepost.nemesis.testing import FakeCluster


def refused(stage, id_):
    """The note of a fault that was refused, which must have had no effect."""
    line = stage.last()[id_]
    assert line["effective"] is False
    return line["note"]


def test_a_second_fault_may_not_take_the_majority():
    """n1 is frozen and n2 is to die: one of three would be left."""
    stage = Stage(planned(0, 1.0, lasts_s=9.0, target="broker:n1"), planned(1, 2.0, "kill", lane="b", target="broker:n2"))
    stage.play(until_s=3)
    assert stage.cluster.awake("n2")
    assert "over the test's budget: n1, n2 of 3 brokers would be hurt at a time" in refused(stage, 1)
    assert "Active: pause (fault 0)" in refused(stage, 1)
    stage.play()
    assert stage.cluster.whole()


def test_what_was_done_before_a_refusal_is_healed():
    """A clock was set and a leader moved before the kill was refused."""

    @dataclass(frozen=True)
    class Both:
        needs = (Skewable, Killable)

        def inject(self, cluster, rng):
            cluster.skew("n2", 60)
            cluster.admin().set_topic_settings("t", {"max.message.bytes": "2000000"})
            cluster.kill("n2")

        def heal(self, cluster, receipt):
            cluster.skew("n2", 0)
            return receipt

    def make(injection):
        return Both() if injection.kind == "both" else Kill(target="broker:n1")

    stage = Stage(planned(0, 1.0, "kill", lasts_s=9.0), planned(1, 2.0, "both", lane="b"), make=make)
    stage.play(until_s=4)
    assert "over the test's budget" in refused(stage, 1)
    assert stage.cluster.clock_ahead("n2") == 0


def test_two_faults_may_hurt_the_same_node():
    stage = Stage(planned(0, 1.0, lasts_s=9.0, target="broker:n1"), planned(1, 2.0, "isolate", lane="b", target="broker:n1"))
    stage.play()
    assert [line["effective"] for line in stage.last().values()] == [True, True]


def test_without_a_budget_a_single_fault_may_hurt_a_majority():
    """Nothing else is on, and nothing was said of a budget."""
    (line,) = Stage(planned(0, 1.0, "kill", target="all")).last_after_play()
    assert line["effective"] is True


def test_a_healed_fault_frees_the_budget():
    stage = Stage(planned(0, 1.0, lasts_s=2.0, target="broker:n1"), planned(1, 4.0, "kill", lane="b", target="broker:n2"))
    stage.play()
    assert [line["effective"] for line in stage.last().values()] == [True, True]


def test_a_node_that_does_not_answer_yet_is_still_hurt():
    cluster = FakeCluster()
    stage = Stage(
        planned(0, 1.0, "kill", lasts_s=2.0, target="broker:n1", answer_within_s=0),
        planned(1, 4.0, "kill", lane="b", target="broker:n2"),
        planned(2, 20.0, "kill", lane="b", target="broker:n2"),
        cluster=cluster,
    )
    stage.play(until_s=2)
    cluster.mute_for["n1"] = 2
    stage.play()
    assert "n1 does not answer yet" in refused(stage, 1)
    assert stage.last()[2]["effective"] is True


def test_a_budget_of_the_test_holds_for_a_single_fault_too():
    single = Budget(nodes=1)
    stage = Stage(planned(0, 1.0, "kill", count=2), budget=single)
    stage.play(until_s=2)
    assert stage.last()[0]["effective"] is True, "one died, and one was spared"
    assert "would be hurt at a time; 1 may be" in stage.last()[0]["note"]
    assert sum(stage.cluster.pid(node) is None for node in stage.cluster.brokers) == 1
    stage.play()
    assert stage.cluster.whole()
    (line,) = Stage(planned(0, 1.0, "halves"), cluster=FakeCluster(brokers=5), budget=single).last_after_play()
    assert (line["effective"], line["pairs"]) == (False, [])
    (line,) = Stage(planned(0, 1.0, "kill", target="all"), budget=Budget(keep_quorum=True)).last_after_play()
    assert "most of them must stay well" in line["note"]


def test_more_nodes_than_a_minority_may_be_allowed():
    stage = Stage(
        planned(0, 1.0, lasts_s=9.0, target="broker:n1"),
        planned(1, 2.0, lane="b", target="broker:n2"),
        planned(2, 3.0, lane="c", target="broker:n3"),
        budget=Budget(nodes=2),
    )
    stage.play()
    assert [line["effective"] for line in stage.last().values()] == [True, True, False]


def test_clients_and_their_links_cost_nothing():
    stage = Stage(
        planned(0, 1.0, lasts_s=9.0, target="broker:n1"),
        planned(1, 2.0, "kill", lane="b", target="client:c0"),
        planned(2, 2.0, "cut-clients", lane="c", target="broker:n2"),
    )
    stage.play(until_s=3)
    assert [line["effective"] for line in stage.last().values()] == [True, True, True]


def test_a_quorum_of_separate_controllers_stays_as_well():
    """One broker and one controller are a minority of each; a second controller is not."""
    cluster = FakeCluster(controllers=3)
    ledger = Ledger(cluster, Budget())
    ledger.view(1, "kill").kill("n1")
    ledger.view(2, "kill").kill("k1")
    with pytest.raises(OverBudget, match="k1, k2 of 3 controllers"):
        ledger.view(3, "pause").pause("k2")
    assert ledger.hurt() == {"n1", "k1"}
    assert cluster.awake("k2")


def test_a_full_disk_takes_a_node():
    cluster = FakeCluster()
    ledger = Ledger(cluster, Budget())
    ledger.view(1, "disk-full").fill_disk("n1")
    with pytest.raises(OverBudget):
        ledger.view(2, "kill").kill("n2")
    refused = DiskFull(target="broker:n2").inject(ledger.view(3, "disk-full"), Random(1))
    assert (refused.effective, refused.targets) == (False, ())
    ledger.view(1, "disk-full").clear_disk("n1")
    ledger.view(1, "disk-full").start("n1")
    ledger.view(2, "kill").kill("n2")
    assert ledger.hurt() == {"n2"}


def test_nodes_that_are_stopped_and_started_in_turn_count_as_one_at_a_time():
    """As a rolling restart does it: each is back before the next one ends."""
    cluster = FakeCluster()
    view = Ledger(cluster, Budget(nodes=1)).view(1, "rolling-restart")
    for node in cluster.brokers:
        view.stop(node)
        view.start(node)
    view.stop("n1")
    with pytest.raises(OverBudget):
        view.stop("n2")


def test_a_mended_cut_frees_the_budget():
    cluster = FakeCluster()
    ledger = Ledger(cluster, Budget(nodes=1))
    view = ledger.view(1, "isolate")
    pairs = both_ways(["n1"], ["n2", "n3"])
    view.drop(pairs)
    assert ledger.hurt() == {"n1"}
    view.undrop(pairs)
    assert ledger.hurt() == set()
    ledger.view(2, "kill").kill("n2")
    with pytest.raises(OverBudget):
        view.drop(pairs)
    assert cluster.closed() == set()


def test_what_is_cut_from_a_dead_node_costs_nothing_more():
    cluster = FakeCluster()
    ledger = Ledger(cluster, Budget(nodes=1))
    ledger.view(1, "kill").kill("n2")
    ledger.view(2, "one-way").drop([("n1", "n2"), ("n3", "n2")])
    assert ledger.hurt() == {"n2"}


@pytest.mark.parametrize(
    ("cut", "hurt"),
    [
        (both_ways(["n2"], ["n1", "n3", "n4", "n5"]), 1),
        (both_ways(["n1", "n2"], ["n3", "n4", "n5"]), 2),
        (both_ways(["n1", "n2"], ["n4", "n5"]), 2),
        ((("n1", "n2"),), 1),
        (both_ways(["n1", "n2", "n3"], ["n1", "n2", "n3"]), 2),
        ((), 0),
    ],
)
def test_of_a_cut_the_smaller_side_counts_as_hurt(cut, hurt):
    """One from all, halves, a bridge, one way, everybody from everybody."""
    assert len(sides(set(), cut)) == hurt


def test_a_refused_fault_does_not_delay_the_next_of_its_lane():
    """A refusal takes no time: the next fault of the lane comes as planned."""
    stage = Stage(
        planned(0, 1.0, lasts_s=20.0, target="broker:n1"),
        planned(1, 2.0, "kill", lasts_s=3.0, lane="b", target="broker:n2"),
        planned(2, 8.0, "kill", lasts_s=3.0, lane="b", target="broker:n1"),
    )
    stage.play()
    assert stage.last()[2]["injected_ns"] == T0 + 8 * S


def test_faults_of_one_host_share_one_object_of_a_class_and_faults_of_another_host_another():
    cluster = FakeCluster()
    ledger, other = Ledger(cluster, Budget()), Ledger(cluster, Budget())
    shared = ledger.view(1, "reassign").shared(dict)
    assert ledger.view(2, "move-leaders", strikes=True).shared(dict) is shared
    assert ledger.view(1, "reassign").shared(list) == []
    assert other.view(1, "reassign").shared(dict) is not shared
    assert cluster.shared(dict) is not shared


def test_each_kafka_cluster_has_the_budget_of_its_own():
    ledger = Ledger(FakeCluster(second_brokers=3), Budget(nodes=1))
    ledger.take(0, "kill", ["n1"])
    ledger.take(1, "kill", ["s1"])
    with pytest.raises(OverBudget, match="s1, s2 would be hurt at a time; 1 may be"):
        ledger.take(2, "kill", ["s2"])
    with pytest.raises(OverBudget, match="n1, n2 would be hurt at a time; 1 may be"):
        ledger.take(2, "kill", ["n2"])


def test_most_brokers_of_each_kafka_cluster_stay_well():
    """The only broker of the second cluster may be hurt, as one fault alone may, whatever hurts the first one."""
    ledger = Ledger(FakeCluster(second_brokers=1), Budget())
    ledger.take(0, "kill", ["n1"])
    ledger.take(1, "kill", ["s1"])
    with pytest.raises(OverBudget, match="n1, n2 of 3 brokers would be hurt"):
        ledger.take(2, "kill", ["n2"])
    strict = Ledger(FakeCluster(second_brokers=3), Budget())
    strict.take(0, "kill", ["s3"])
    with pytest.raises(OverBudget, match="s1, s3 of 3 brokers of the second cluster would be hurt"):
        strict.take(1, "kill", ["s1"])
