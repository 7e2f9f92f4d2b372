"""Partitions: which pairs are cut, the probes that prove it, and that healing opens all of them again."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.harness.api import ClusterError
from fencepost.nemesis.bridge import Bridge
from fencepost.nemesis.cut_client import CutClient
from fencepost.nemesis.cut_clients import CutClients
from fencepost.nemesis.halves import Halves
from fencepost.nemesis.isolate import Isolate
from fencepost.nemesis.latency import Latency
from fencepost.nemesis.link_flap import LinkFlap
from fencepost.nemesis.one_way import OneWay
from fencepost.nemesis.support import network_partition
from fencepost.nemesis.testing import FakeCluster

EVERY_KIND = [Isolate(), Halves(), Bridge(), OneWay(), CutClients(), CutClient()]


SERVICE = {"target": "service:db"}


@pytest.mark.parametrize(
    "fault", [CutClient(**SERVICE, direction="both"), LinkFlap(**SERVICE, down_s=0, up_s=0), Latency(**SERVICE)]
)
def test_links_of_an_outside_service_are_those_to_clients(fault):
    cluster = FakeCluster(clients=2, services=("db",))
    receipt = fault.inject(cluster, Random(3))
    assert receipt.effective
    links = set(receipt.pairs) or {tuple(link.split(">")) for link in receipt.evidence["during"]}
    assert {node for pair in links for node in pair if node != "db"} <= {"c0", "c1"}
    assert all("db" in pair for pair in links)
    fault.heal(cluster, receipt)
    assert cluster.whole()


def test_a_service_that_the_test_does_not_declare_cannot_be_hurt():
    receipt = CutClient(**SERVICE).inject(FakeCluster(), Random(3))
    assert (receipt.effective, "declares no outside service" in receipt.note) == (False, True)
    with pytest.raises(ValueError, match="unknown target"):
        CutClients(target="service:db")


def kind(fault):
    return type(fault).__name__


@pytest.mark.parametrize("fault", EVERY_KIND, ids=kind)
def test_every_partition_closes_its_pairs_opens_them_again_and_counts_dropped_packets(fault):
    cluster = FakeCluster()
    receipt = fault.inject(cluster, Random(3))
    assert (receipt.effective, receipt.note) == (True, "")
    assert cluster.closed() == set(receipt.pairs)
    names = [network_partition.pair_name(pair) for pair in receipt.pairs]
    assert receipt.evidence["before"] == dict.fromkeys(names, True)
    assert receipt.evidence["during"] == dict.fromkeys(names, False)
    cluster.send(*receipt.pairs[0])
    healed = fault.heal(cluster, receipt)
    assert healed.healing["after"] == dict.fromkeys(names, True)
    assert healed.healing["dropped"] == {**dict.fromkeys(names, 1), names[0]: 2}
    assert cluster.whole()


@pytest.mark.parametrize("fault", EVERY_KIND, ids=kind)
def test_a_pair_that_stays_open_is_named_and_alone_makes_the_fault_ineffective(fault):
    pairs = fault.inject(FakeCluster(), Random(3)).pairs
    cluster = FakeCluster()
    cluster.leaky.add(pairs[0])
    receipt = fault.inject(cluster, Random(3))
    assert (receipt.effective, receipt.note) == (len(pairs) > 1, f"still open: {pairs[0][0]}>{pairs[0][1]}")
    cluster.heal()
    cluster.leaky |= {*pairs}
    assert fault.inject(cluster, Random(3)).effective is False


@pytest.mark.parametrize("fault", EVERY_KIND, ids=kind)
def test_healing_twice_does_no_harm(fault):
    cluster = FakeCluster()
    receipt = fault.inject(cluster, Random(3))
    fault.heal(cluster, receipt)
    assert fault.heal(cluster, receipt).note == ""
    assert cluster.whole()


@pytest.mark.parametrize("fault", EVERY_KIND, ids=kind)
def test_healing_a_receipt_without_pairs_does_nothing(fault):
    """That is what the host hands over when inject raised."""
    cluster = FakeCluster()
    fault.heal(cluster, network_partition.Receipt())
    assert cluster.calls == []


def test_isolate_cuts_one_broker_from_all_servers_both_ways_but_not_from_clients():
    cluster = FakeCluster(controllers=1)
    receipt = Isolate(target="broker:n1").inject(cluster, Random(1))
    assert receipt.targets == ("n1",)
    assert set(receipt.pairs) == {("n1", "n2"), ("n2", "n1"), ("n1", "n3"), ("n3", "n1"), ("n1", "k1"), ("k1", "n1")}


def test_isolate_all_cuts_every_pair_once():
    receipt = Isolate(target="all").inject(FakeCluster(), Random(1))
    assert len(receipt.pairs) == len(set(receipt.pairs)) == 6


def test_halves_cut_all_pairs_between_the_sides_and_none_within_one():
    cluster = FakeCluster(brokers=5)
    receipt = Halves().inject(cluster, Random(1))
    some, others = (set(side) for side in receipt.evidence["sides"])
    assert (len(some), len(others), some | others) == (2, 3, set(cluster.brokers))
    assert set(receipt.targets) == some
    assert cluster.closed() == {(a, b) for a in cluster.brokers for b in cluster.brokers if (a in some) != (b in some)}


def test_the_bridge_talks_to_both_halves():
    cluster = FakeCluster(brokers=5)
    receipt = Bridge(target="broker:n3").inject(cluster, Random(1))
    assert all("n3" not in pair for pair in receipt.pairs)
    assert len(receipt.pairs) == 2 * 2 * 2


def test_one_way_in_drops_what_the_broker_receives_and_out_what_it_sends():
    deaf = OneWay(target="broker:n1", direction="in").inject(FakeCluster(), Random(1))
    assert set(deaf.pairs) == {("n2", "n1"), ("n3", "n1")}
    mute = OneWay(target="broker:n1", direction="out").inject(FakeCluster(), Random(1))
    assert set(mute.pairs) == {("n1", "n2"), ("n1", "n3")}
    drawn = {OneWay().inject(FakeCluster(), Random(seed)).evidence["direction"] for seed in range(20)}
    assert drawn == {"in", "out"}


def test_cut_clients_drops_what_clients_send_and_lets_answers_through():
    receipt = CutClients(target="broker:n2").inject(FakeCluster(clients=3), Random(1))
    assert set(receipt.pairs) == {("c0", "n2"), ("c1", "n2"), ("c2", "n2")}


def test_cut_clients_can_cut_the_other_direction_or_both():
    back = CutClients(target="broker:n2", direction="from-broker").inject(FakeCluster(), Random(1))
    assert set(back.pairs) == {("n2", "c0"), ("n2", "c1")}
    both = CutClients(target="broker:n2", direction="both").inject(FakeCluster(), Random(1))
    assert set(both.pairs) == {("n2", "c0"), ("n2", "c1"), ("c0", "n2"), ("c1", "n2")}


def test_cut_client_cuts_one_client_from_one_broker():
    receipt = CutClient(target="leader:t-1", client="c1").inject(FakeCluster(), Random(1))
    assert (receipt.targets, receipt.pairs) == (("n2", "c1"), (("c1", "n2"),))


@pytest.mark.parametrize(
    ("fault", "cluster", "note"),
    [
        (Isolate(target="broker:n9"), FakeCluster(), "no target: there is no broker"),
        (Isolate(), FakeCluster(brokers=1), "nothing to cut"),
        (Halves(), FakeCluster(brokers=1), "nothing to cut"),
        (Bridge(), FakeCluster(brokers=2), "nothing to cut"),
        (Bridge(target="leader:x-0"), FakeCluster(), "no target"),
        (OneWay(target="coordinator"), FakeCluster(transactional_ids=()), "no target"),
        (CutClients(), FakeCluster(clients=0), "no target: no client runs"),
        (CutClient(client="c9"), FakeCluster(), "no target: there is no client"),
    ],
)
def test_no_pair_to_cut_is_a_receipt_and_no_exception(fault, cluster, note):
    receipt = fault.inject(cluster, Random(1))
    assert receipt.effective is False
    assert receipt.note.startswith(note)
    assert fault.heal(cluster, receipt).note == receipt.note
    assert cluster.whole()


def test_pairs_that_were_closed_already_make_the_fault_ineffective():
    cluster = FakeCluster()
    cluster.drop([("c0", "n1"), ("c1", "n1")])
    receipt = CutClients(target="broker:n1").inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "no pair was open before")


def test_a_pair_that_does_not_open_again_is_named():
    cluster = FakeCluster()
    fault = CutClient(target="broker:n1", client="c0")
    receipt = fault.inject(cluster, Random(1))
    cluster.undrop = lambda pairs: None
    assert fault.heal(cluster, receipt).note == "still closed after healing: c0>n1"


class Busy(FakeCluster):
    """A probe that says of no pair that it is open, by its number from 0: the machine has held the datagrams up."""

    def __init__(self, held_up):
        super().__init__()
        self.held_up, self.probes = held_up, 0

    def probe(self, pairs):
        self.probes += 1
        return dict.fromkeys(pairs, False) if self.probes == self.held_up + 1 else super().probe(pairs)


@pytest.mark.parametrize("held_up", range(4))
@pytest.mark.parametrize("fault", [*EVERY_KIND, LinkFlap(times=2, down_s=0, up_s=0)], ids=kind)
def test_datagrams_that_a_busy_machine_holds_up_are_no_closed_links(fault, held_up):
    cluster = Busy(held_up)
    receipt = fault.inject(cluster, Random(1))
    healed = fault.heal(cluster, receipt)
    assert (receipt.effective, receipt.note, healed.note, "left" in healed.healing) == (True, "", "", False)


def test_nothing_stays_dropped_when_the_second_probe_fails():
    """No receipt could say what is to be mended, so it is mended at once."""
    cluster = FakeCluster()
    probe = cluster.probe

    def fails_once_something_is_dropped(pairs):
        if cluster.closed():
            raise ClusterError("no datagram could be sent")
        return probe(pairs)

    cluster.probe = fails_once_something_is_dropped
    with pytest.raises(ClusterError, match="no datagram"):
        Halves().inject(cluster, Random(1))
    assert cluster.closed() == set()


@pytest.mark.parametrize("cls", [OneWay, CutClients, CutClient])
def test_an_unknown_direction_is_refused_without_a_cluster(cls):
    with pytest.raises(ValueError, match='direction = "sideways": must be one of'):
        cls(direction="sideways")


@pytest.mark.parametrize("cls", [Isolate, Bridge, OneWay, CutClients])
def test_a_client_cannot_be_isolated_from_the_servers(cls):
    with pytest.raises(ValueError, match="Allowed: random"):
        cls(target="client")


@given(st.integers(min_value=0, max_value=9), st.integers())
def test_a_split_gives_every_node_one_side(size, seed):
    nodes = [f"n{number}" for number in range(size)]
    some, others = network_partition.split(nodes, Random(seed))
    assert sorted(some + others) == nodes
    assert len(others) - len(some) == size % 2


@given(st.sets(st.sampled_from("abcdef")), st.sets(st.sampled_from("abcdef")))
def test_both_ways_is_symmetric_and_never_with_itself(some, others):
    pairs = network_partition.both_ways(sorted(some), sorted(others))
    assert len(set(pairs)) == len(pairs)
    assert {(b, a) for a, b in pairs} == set(pairs)
    assert all(a != b for a, b in pairs)


@pytest.mark.parametrize("fault", [Isolate, OneWay, Bridge], ids=lambda fault_type: fault_type.__name__)
def test_a_broker_is_cut_from_the_servers_of_its_own_kafka_cluster(fault):
    """No broker of one cluster talks to the other, but for clients."""
    cluster = FakeCluster(second_brokers=3)
    for target, names in (("second:broker:s1", {"s1", "s2", "s3"}), ("broker:n1", {"n1", "n2", "n3"})):
        receipt = fault(target=target).inject(cluster, Random(3))
        assert receipt.effective
        assert {node for pair in receipt.pairs for node in pair} <= names
        fault().heal(cluster, receipt)


def test_the_links_of_a_client_lead_to_both_kafka_clusters():
    cluster = FakeCluster(second_brokers=2, clients=2)
    assert set(network_partition.links(cluster, ["c0"], "servers")) == set(
        network_partition.both_ways(["c0"], ["n1", "n2", "n3", "s1", "s2"])
    )
    assert ("s1", "n1") not in network_partition.links(cluster, ["s1"], "all")
    assert {("s1", "s2"), ("c1", "s1")} <= set(network_partition.links(cluster, ["s1"], "all"))
