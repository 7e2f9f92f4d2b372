"""Latency and bandwidth: links that delay packets, and links with a limited rate."""

from random import Random

import pytest

from fencepost.harness.api import ClusterError
from fencepost.nemesis.bandwidth import Bandwidth
from fencepost.nemesis.latency import Latency
from fencepost.nemesis.testing import FakeCluster


def test_packets_are_delayed_until_the_fault_is_healed():
    cluster = FakeCluster()
    fault = Latency(target="leader:t-0", links="servers", delay_ms=200)
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.targets, receipt.pairs, receipt.effective, receipt.note) == (("n1",), (), True, "")
    assert receipt.evidence["before"] == {"n1>n2": 0.1, "n1>n3": 0.1, "n2>n1": 0.1, "n3>n1": 0.1}
    assert receipt.evidence["during"]["n2>n1"] == 200.1
    healed = fault.heal(cluster, receipt)
    assert healed.healing["after"] == receipt.evidence["before"]
    assert healed.healing["counted"]["n1>n2"] == {"seen": 5, "dropped": 0}
    assert cluster.whole()
    assert fault.heal(cluster, healed) == healed


def test_bandwidth_is_limited_until_the_fault_is_healed():
    cluster = FakeCluster()
    fault = Bandwidth(target="leader:t-0", links="servers", kbit_s=512)
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.targets, receipt.effective, receipt.note) == (("n1",), True, "")
    assert receipt.evidence["before"]["n1>n2"]["spread_ms"] == 0
    during = receipt.evidence["during"]["n1>n2"]
    assert (during["sent"], during["arrived"]) == (13, 13)
    assert 0.9 < during["spread_ms"] / during["expected_ms"] < 1
    assert fault.heal(cluster, receipt).healing["counted"]["n1>n2"] == {"seen": 13, "dropped": 0}
    assert cluster.whole()


@pytest.mark.parametrize("fault", [Latency(target="broker:n1", links="servers"), Bandwidth(target="broker:n1", links="servers")])
def test_a_link_that_is_not_affected_is_named(fault):
    cluster = FakeCluster()
    cluster.leaky = {("n1", "n2")}
    receipt = fault.inject(cluster, Random(1))
    assert receipt.effective is True
    assert receipt.note in ("no slower than before: n1>n2", "as wide as before: n1>n2")


class DeafCluster(FakeCluster):
    """One whose links cannot be made slow: it says that they are."""

    def slow(self, pairs, **how):
        self._numbers += 1
        return self._numbers


@pytest.mark.parametrize("fault", [Latency(target="broker:n1", links="servers"), Bandwidth(target="broker:n1", links="servers")])
def test_links_that_were_as_bad_before_show_no_effect(fault):
    """Somebody had slowed them down already; of this fault nothing shows."""
    cluster = DeafCluster()
    pairs = [(a, b) for a in cluster.brokers for b in cluster.brokers if a != b]
    FakeCluster.slow(cluster, pairs, **({"delay_ms": 300} if isinstance(fault, Latency) else {"kbit_s": 256}))
    receipt = fault.inject(cluster, Random(1))
    assert receipt.effective is False
    assert receipt.note.startswith(("no slower than before: n1>n2", "as wide as before: n1>n2"))


@pytest.mark.parametrize("ends", [lambda number: {}, lambda number: {("n1", "n2"): (1, 0)}])
@pytest.mark.parametrize("fault", [Latency(target="broker:n1", links="servers"), Bandwidth(target="broker:n1", links="servers")])
def test_a_fault_that_did_not_end_is_left(fault, ends):
    """Whatever the call says that ends it."""
    cluster = FakeCluster()
    receipt = fault.inject(cluster, Random(1))
    cluster.unslow = ends
    healed = fault.heal(cluster, receipt)
    assert healed.healing["left"] == ["n1>n2", "n1>n3", "n2>n1", "n3>n1"]
    assert "n1>n2 " in healed.note
    assert " still " in healed.note
    del cluster.unslow
    assert "left" not in fault.heal(cluster, receipt).healing
    assert cluster.whole()


@pytest.mark.parametrize("kind", [Latency, Bandwidth])
def test_links_that_another_fault_slows_down_as_well_are_not_left(kind):
    cluster = FakeCluster()
    first, second = kind(target="broker:n1", links="servers"), kind(target="broker:n2", links="servers")
    of_first, of_second = first.inject(cluster, Random(1)), second.inject(cluster, Random(2))
    assert "left" not in first.heal(cluster, of_first).healing
    assert "left" not in second.heal(cluster, of_second).healing
    assert cluster.whole()


@pytest.mark.parametrize("fault", [Latency(target="broker:n1"), Bandwidth(target="broker:n1")])
def test_a_link_that_another_fault_has_cut_is_noted(fault):
    """The others show that it took hold."""
    cluster = FakeCluster()
    cluster.drop([("n1", "n2")])
    receipt = fault.inject(cluster, Random(1))
    assert receipt.effective is True
    assert receipt.note.endswith(": n1>n2")
    cluster.drop([(a, b) for pair in receipt.evidence["during"] for a, b in [pair.split(">")]])
    assert fault.inject(cluster, Random(1)).effective is False


@pytest.mark.parametrize("fault", [Latency(target="broker:n1"), Bandwidth(target="broker:n1")])
def test_a_failed_injection_leaves_no_link_affected(fault):
    cluster = FakeCluster()
    whole_slow = cluster.slow

    def slow(pairs, **how):
        cluster.measure = lambda *_, **__: (_ for _ in ()).throw(ClusterError("the hub is gone"))
        return whole_slow(pairs, **how)

    cluster.slow = slow
    with pytest.raises(ClusterError):
        fault.inject(cluster, Random(1))
    assert cluster.whole()


@pytest.mark.parametrize("fault", [Latency, Bandwidth])
def test_a_cluster_of_one_broker_has_no_links(fault):
    assert "has no such links" in fault(target="all", links="servers").inject(FakeCluster(brokers=1), Random(1)).note


@pytest.mark.parametrize("options", [{"delay_ms": 1}, {"delay_ms": 99999}, {"jitter_ms": 150}, {"links": "x"}, {"target": "x"}])
def test_meaningless_options_of_latency_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Latency(**options)


@pytest.mark.parametrize("options", [{"kbit_s": 1}, {"kbit_s": 1e6}, {"links": "x"}, {"target": "x"}])
def test_meaningless_options_of_bandwidth_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Bandwidth(**options)


class Paused(FakeCluster):
    """The machine pauses within some measurements, by their numbers from 0: `held` of their datagrams come 400 ms later."""

    def __init__(self, *paused, held=slice(1, None)):
        super().__init__()
        self.paused, self.held, self.measured = paused, held, 0

    def measure(self, pairs, packets, size=64, within_s=1.0):
        own = super().measure(pairs, packets, size, within_s)
        if self.measured in self.paused:
            for took in own.values():
                took[self.held] = [ms if ms is None else ms + 400.0 for ms in took[self.held]]
        self.measured += 1
        return own


@pytest.mark.parametrize(("paused", "measured"), [((), 3), ((0,), 4), ((0, 1), 5), ((2,), 4), ((0, 3, 4), 6)])
@pytest.mark.parametrize(
    "fault",
    [Bandwidth(target="broker:n1", links="servers", kbit_s=512), Latency(target="broker:n1", links="servers", delay_ms=200)],
)
def test_a_pause_of_the_machine_is_taken_for_no_fault(fault, paused, measured):
    """Before, and after healing, links that seem narrow or slow are measured again."""
    cluster = Paused(*paused)
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (True, "")
    healed = fault.heal(cluster, receipt)
    assert ("left" in healed.healing, healed.note) == (False, "")
    assert cluster.measured == measured


class Late(FakeCluster):
    """In one measurement, by its number from 0, nothing arrives in time over the links from n1."""

    def __init__(self, late):
        super().__init__()
        self.late, self.measured = late, 0

    def measure(self, pairs, packets, size=64, within_s=1.0):
        own = super().measure(pairs, packets, size, within_s)
        if self.measured == self.late:
            own |= {pair: [None] * packets for pair in own if pair[0] == "n1"}
        self.measured += 1
        return own


@pytest.mark.parametrize("late", range(3))
@pytest.mark.parametrize("kind", [Latency, Bandwidth])
def test_what_a_pause_has_held_up_until_the_end_is_measured_again(kind, late):
    cluster, fault = Late(late), kind(target="broker:n1", links="servers")
    receipt = fault.inject(cluster, Random(1))
    healed = fault.heal(cluster, receipt)
    assert (receipt.effective, receipt.note, healed.note, "left" in healed.healing) == (True, "", "", False)
    assert cluster.measured == 4


@pytest.mark.parametrize(
    ("paused", "effective", "measured"), [((1,), True, 4), ((2, 3), True, 2), ((1, 2), False, 4), ((1, 3), False, 4)]
)
def test_a_pause_that_holds_up_the_first_datagram_does_not_hide_the_limit(paused, effective, measured):
    """It brings the datagrams closer together; two measurements of three tell."""
    cluster, fault = Paused(*paused, held=slice(0, 1)), Bandwidth(target="broker:n1", links="servers", kbit_s=512)
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, bool(receipt.note), cluster.measured) == (effective, not effective, measured)
