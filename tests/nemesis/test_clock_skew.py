"""Clock skew: a clock is wrong until it is healed, by the date that the broker writes."""

from random import Random

import pytest

from fencepost.harness.api import ClusterError, Receipt
from fencepost.nemesis.clock_skew import ClockSkew
from fencepost.nemesis.testing import FakeCluster


@pytest.mark.parametrize(("direction", "seconds"), [("ahead", 60.0), ("behind", -60.0)])
def test_a_clock_is_wrong_until_it_is_healed(direction, seconds):
    cluster = FakeCluster()
    fault = ClockSkew(target="leader:t-1", direction=direction)
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.targets, receipt.effective, receipt.note) == (("n2",), True, "")
    assert receipt.evidence == {"before": {"n2": 0.0}, "during": {"n2": seconds}, "by_s": seconds}
    healed = fault.heal(cluster, receipt)
    assert healed.healing == {"after": {"n2": 0.0}}
    assert cluster.whole()
    assert fault.heal(cluster, healed) == healed


def test_the_direction_is_drawn_from_the_seed():
    drawn = [ClockSkew().inject(FakeCluster(), Random(seed)).evidence["by_s"] for seed in range(20)]
    assert set(drawn) == {60.0, -60.0}
    assert drawn == [ClockSkew().inject(FakeCluster(), Random(seed)).evidence["by_s"] for seed in range(20)]


def test_a_clock_that_does_not_move_makes_the_fault_ineffective():
    cluster = FakeCluster()
    cluster.stubborn.add("n1")
    receipt = ClockSkew(target="broker:n1", direction="ahead").inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "n1 is 0 s ahead, not 60")


def test_a_broker_that_does_not_answer_makes_the_fault_ineffective():
    cluster = FakeCluster()
    cluster.kill("n1")
    fault = ClockSkew(target="broker:n1")
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "n1 does not tell its time")
    fault.heal(cluster, receipt)
    cluster.start("n1")
    assert cluster.whole()


def test_a_failed_injection_corrects_only_the_clocks_that_it_set():
    """The clock of n3 was set by another fault."""
    cluster = FakeCluster()
    cluster.skew("n3", 5.0)
    was, looks = cluster.clock_ahead, []

    def clock_ahead(node):
        looks.append(node)
        if len(looks) > 1:
            raise RuntimeError("log unreadable")
        return was(node)

    cluster.clock_ahead = clock_ahead
    with pytest.raises(RuntimeError, match="unreadable"):
        ClockSkew(target="broker:n1").inject(cluster, Random(1))
    cluster.clock_ahead = was
    ClockSkew().heal(cluster, Receipt())
    assert (cluster.clock_ahead("n1"), cluster.clock_ahead("n3")) == (0.0, 5.0)


def test_a_clock_that_cannot_be_read_is_left_alone():
    cluster = FakeCluster()
    cluster.clock_ahead = lambda node: (_ for _ in ()).throw(ClusterError("no route"))
    receipt = ClockSkew(target="broker:n1").inject(cluster, Random(1))
    assert (receipt.effective, receipt.note, cluster.calls) == (False, "nobody could look: no route", [])


def test_the_receipt_names_its_targets_when_their_clocks_cannot_be_read():
    cluster = FakeCluster()
    was = cluster.clock_ahead

    def clock_ahead(node):
        if cluster.calls:
            raise ClusterError("no route")
        return was(node)

    cluster.clock_ahead = clock_ahead
    receipt = ClockSkew(target="broker:n1").inject(cluster, Random(1))
    assert (receipt.targets, receipt.effective, receipt.note) == (("n1",), False, "nobody could look: no route")


@pytest.mark.parametrize("options", [{"target": "client"}, {"by_s": 1}, {"direction": "left"}])
def test_meaningless_options_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        ClockSkew(**options)
