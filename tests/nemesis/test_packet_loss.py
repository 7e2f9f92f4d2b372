"""Packet loss: a share of the packets of a node's links is lost, and counted."""

from random import Random

import pytest

from fencepost.harness.api import ClusterError
from fencepost.nemesis.packet_loss import PacketLoss
from fencepost.nemesis.testing import FakeCluster


def test_a_share_of_the_packets_is_lost_until_the_fault_is_healed():
    cluster = FakeCluster()
    fault = PacketLoss(target="leader:t-0", links="servers", share=0.5)
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.targets, receipt.pairs, receipt.effective, receipt.note) == (("n1",), (), True, "")
    assert receipt.evidence["before"]["n1>n2"] == {"sent": 10, "lost": 0}
    assert receipt.evidence["during"]["n1>n2"] == {"sent": 10, "lost": 5}
    assert set(receipt.evidence["during"]) == {"n1>n2", "n1>n3", "n2>n1", "n3>n1"}
    healed = fault.heal(cluster, receipt)
    assert healed.healing["counted"]["n3>n1"] == {"seen": 10, "lost": 5}
    assert healed.healing["after"]["n3>n1"] == {"sent": 10, "lost": 0}
    assert cluster.whole()
    assert fault.heal(cluster, healed) == healed


def test_a_small_share_is_measured_with_more_datagrams():
    receipt = PacketLoss(target="broker:n1", links="servers", share=0.01).inject(FakeCluster(), Random(1))
    assert receipt.evidence["during"]["n1>n2"] == {"sent": 250, "lost": 2}
    assert receipt.effective is True


def test_two_faults_on_one_link_end_separately():
    cluster = FakeCluster()
    first, second = PacketLoss(target="broker:n1", share=0.5), PacketLoss(target="broker:n2", share=0.5)
    of_first, of_second = first.inject(cluster, Random(1)), second.inject(cluster, Random(2))
    first.heal(cluster, of_first)
    assert not cluster.whole()
    second.heal(cluster, of_second)
    assert cluster.whole()


def test_links_that_lost_as_much_before_show_no_effect():
    cluster = FakeCluster()
    cluster.lose([(a, b) for a in cluster.brokers for b in cluster.brokers if a != b], 0.5)
    cluster.lose = lambda pairs, share: 99
    receipt = PacketLoss(target="broker:n1", links="servers", share=0.5).inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "50.0% of the datagrams were lost before already")


@pytest.mark.parametrize("ends", [lambda number: {}, lambda number: {("n1", "n2"): (10, 5)}])
def test_a_loss_that_did_not_end_is_left(ends):
    """Whatever the call says that ends it."""
    cluster = FakeCluster()
    fault = PacketLoss(target="broker:n1", links="servers", share=0.5)
    receipt = fault.inject(cluster, Random(1))
    cluster.unlose = ends
    healed = fault.heal(cluster, receipt)
    assert healed.healing["left"] == ["n1>n2", "n1>n3", "n2>n1", "n3>n1"]
    assert healed.note.startswith("packets are still lost: n1>n2")
    assert healed.effective is True


def test_the_count_of_the_kernel_decides_the_effect():
    """No datagram of ours was lost, by luck or because nothing was done: the counters tell which."""
    cluster = FakeCluster()
    cluster.leaky = {(a, b) for a in ("n1", "n2", "n3") for b in ("n1", "n2", "n3")}
    fault = PacketLoss(target="broker:n1", links="servers")
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "no datagram of 100 was lost")
    cluster.leaky.clear()
    for _ in range(10):
        cluster.send("n1", "n2")
    assert fault.heal(cluster, receipt).effective is True
    silent = fault.inject(cluster, Random(1))
    cluster.unlose, was = lambda number: dict.fromkeys(was(number), (0, 0)), cluster.unlose
    healed = fault.heal(cluster, silent)
    assert (healed.effective, healed.note) == (False, "the kernel dropped no packet on these links")


def test_a_failed_injection_leaves_no_loss():
    cluster = FakeCluster()
    whole_lose = cluster.lose

    def lose(pairs, share):
        cluster.measure = lambda *_, **__: (_ for _ in ()).throw(ClusterError("the hub is gone"))
        return whole_lose(pairs, share)

    cluster.lose = lose
    fault = PacketLoss(target="broker:n1")
    with pytest.raises(ClusterError):
        fault.inject(cluster, Random(1))
    assert cluster.whole()


def test_a_client_has_links_to_servers_only():
    receipt = PacketLoss(target="client:c0", share=0.5).inject(FakeCluster(), Random(1))
    assert {node for pair in receipt.evidence["during"] for node in pair.split(">")} == {"c0", "n1", "n2", "n3"}
    assert PacketLoss(target="client:c0", links="clients").inject(FakeCluster(), Random(1)).effective is False


@pytest.mark.parametrize("options", [{"share": 0}, {"share": 1}, {"links": "all of them"}, {"target": "clients"}])
def test_meaningless_options_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        PacketLoss(**options)
