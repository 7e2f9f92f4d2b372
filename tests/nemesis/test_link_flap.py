"""Link flap: links go down and up in turn, and stay down until the fault is healed."""

from random import Random

import pytest

from fencepost.harness.api import ClusterError
from fencepost.nemesis.link_flap import LinkFlap
from fencepost.nemesis.testing import FakeCluster


def quick(**options):
    return LinkFlap(down_s=0, up_s=0, **options)


def test_links_go_down_and_up_in_turn_and_stay_down_until_healed():
    cluster = FakeCluster()
    fault = quick(target="leader:t-1", times=3, links="servers")
    receipt = fault.inject(cluster, Random(1))
    assert [verb for verb, _ in cluster.calls] == ["drop", "undrop", "drop", "undrop", "drop"]
    assert (receipt.targets, receipt.effective, receipt.note) == (("n2",), True, "")
    assert [set(down.values()) for down in receipt.evidence["downs"]] == [{False}, {False}]
    assert [set(up.values()) for up in receipt.evidence["ups"]] == [{True}, {True}]
    assert cluster.closed() == {("n2", "n1"), ("n2", "n3"), ("n1", "n2"), ("n3", "n2")}
    healed = fault.heal(cluster, receipt)
    assert set(healed.healing["after"].values()) == {True}
    assert cluster.whole()
    fault.heal(cluster, healed)
    assert cluster.whole()


def test_the_links_lead_to_servers_clients_or_all():
    def reached(links):
        return {pair[1] for pair in quick(target="broker:n1", times=1, links=links).inject(FakeCluster(), Random(1)).pairs} - {
            "n1"
        }

    assert reached("servers") == {"n2", "n3"}
    assert reached("clients") == {"c0", "c1"}
    assert reached("all") == {"n2", "n3", "c0", "c1"}


def test_a_link_that_stays_open_is_named():
    cluster = FakeCluster()
    cluster.leaky = {("n1", "n2")}
    receipt = quick(target="broker:n1", times=2).inject(cluster, Random(1))
    assert receipt.effective is True
    assert receipt.note == "still open: n1>n2; 1 of 2 cuts left a link open"


def test_healing_after_a_failed_injection_mends_the_links():
    cluster = FakeCluster()
    whole_probe, cluster.probe = cluster.probe, lambda pairs: (_ for _ in ()).throw(ClusterError("the hub is gone"))
    fault = quick(target="broker:n1")
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "broke off after 0 cuts: the hub is gone")
    assert not cluster.whole()
    cluster.probe = whole_probe
    fault.heal(cluster, receipt)
    assert cluster.whole()


def test_a_cluster_of_one_broker_has_no_links():
    receipt = quick(target="all", links="servers").inject(FakeCluster(brokers=1), Random(1))
    assert receipt.effective is False
    assert "nothing to cut" in receipt.note


@pytest.mark.parametrize("options", [{"times": 0}, {"down_s": -1}, {"links": "everybody"}, {"target": "client"}])
def test_meaningless_options_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        LinkFlap(**options)
