"""All pairs are probed around every fault, whatever the fault says of itself."""

from dataclasses import dataclass, replace
from itertools import permutations
from typing import ClassVar

from support.fault_schedule import FREE, Stage, planned

from fencepost.harness.api import Partitionable, Receipt
from fencepost.harness.perform.reachability import probe_pairs
from fencepost.nemesis.testing import FakeCluster

NODES = ["n1", "n2", "n3", "c0", "c1"]


def pairs(*nodes):
    """Both ways between the first and each other one."""
    return sorted(f"{a}>{b}" for other in nodes[1:] for a, b in permutations((nodes[0], other)))


@dataclass(frozen=True)
class Forgetful:
    """Cuts a pair, does not say so, and never mends it."""

    needs: ClassVar[tuple[type, ...]] = (Partitionable,)

    def inject(self, cluster, rng):
        cluster.drop([("n1", "n2")])
        return Receipt(effective=True)

    def heal(self, cluster, receipt):
        return receipt


def test_the_harness_sees_a_cut_by_its_own_probes():
    """Nothing before, the isolated node during, nothing after."""
    (line,) = Stage(planned(0, 1.0, "isolate", target="broker:n2")).last_after_play()
    assert line["reach"] == {"nodes": NODES, "before": [], "during": pairs("n2", "n1", "n3"), "after": []}


def test_a_frozen_node_can_still_be_reached():
    """Its network is not what is hurt."""
    (line,) = Stage(planned(0, 1.0, "pause")).last_after_play()
    assert line["reach"] == {"nodes": NODES, "before": [], "during": [], "after": []}


def test_a_pair_that_another_fault_cuts_adds_no_note():
    """One that begins and ends while a node is isolated sees the cut in all three looks."""
    stage = Stage(
        planned(0, 1.0, "isolate", lasts_s=9, target="broker:n2"), planned(1, 3.0, "pause", lasts_s=2, lane="other"), budget=FREE
    )
    cut = pairs("n2", "n1", "n3")
    line = {line["id"]: line for line in stage.last_after_play()}[1]
    assert (line["reach"]["before"], line["reach"]["during"], line["reach"]["after"], line["note"]) == (cut, cut, cut, "")


def test_a_pair_that_stays_closed_is_named():
    """Healed means probed."""
    (line,) = Stage(planned(0, 1.0), make=lambda injection: Forgetful()).last_after_play()
    assert line["reach"] == {"nodes": NODES, "before": [], "during": ["n1>n2"], "after": ["n1>n2"]}
    assert line["note"] == "nothing crosses n1>n2 after healing"


def test_the_receipt_of_a_refused_fault_has_nothing_of_pairs_that_others_cut():
    """It hurt nothing, so it is over at once; nobody looks whether it was healed."""
    cluster = FakeCluster()
    schedule = planned(0, 1.0, "isolate", lasts_s=20, target="broker:n2"), planned(1, 3.0, lane="b", target="broker:n3")
    stage = Stage(*schedule, cluster=cluster)
    stage.play(until_s=6)
    line = stage.last()[1]
    assert line["note"].startswith("over the test's budget")
    assert (line["effective"], line["healed_ns"], line["reach"]) == (False, line["injected_ns"], {})
    cluster.drop([("n1", "n3")])  # by a hand that the runner knows nothing of
    stage.play()
    assert "nothing crosses" not in stage.last()[1]["note"]


def test_pairs_that_were_closed_before_a_fault_are_none_of_its_doing():
    cluster = FakeCluster()
    cluster.drop([("n1", "n3")])
    (line,) = Stage(planned(0, 1.0), cluster=cluster).last_after_play()
    assert (line["reach"]["after"], line["note"]) == (["n1>n3"], "")


def test_a_pair_that_another_fault_mends_while_all_pairs_are_probed_is_none_of_this_ones_doing():
    """The other's cut was seen, and is over when the note is written."""
    cluster = FakeCluster()
    stage = Stage(planned(0, 1.0), cluster=cluster)
    stage.play(until_s=4)
    other, probe = stage.runner._ledger.view(7, "isolate", strikes=True), cluster.probe
    other.drop([("n1", "c0")])

    def mend_afterwards(pairs):
        seen = probe(pairs)
        other.undrop([("n1", "c0")])
        return seen

    cluster.probe = mend_afterwards
    stage.play()
    assert stage.last()[0]["reach"]["after"] == ["n1>c0"]
    assert stage.last()[0]["note"] == ""


def test_pairs_of_a_node_that_another_fault_killed_are_none_of_this_ones_doing():
    """The network of a container goes with it, so nothing crosses to a dead node."""
    cluster = FakeCluster()
    probe = cluster.probe
    cluster.probe = lambda pairs: {
        pair: arrived and all(cluster.pid(node) for node in pair) for pair, arrived in probe(pairs).items()
    }
    schedule = planned(0, 1.0, target="broker:n2"), planned(1, 2.0, "kill", lasts_s=20, lane="b", target="broker:n3")
    stage = Stage(*schedule, cluster=cluster, budget=FREE)
    stage.play(until_s=7)
    assert ("n2>n3" in stage.last()[0]["reach"]["after"], stage.last()[0]["note"]) == (True, "")


def test_a_late_datagram_closes_nothing():
    """A pair that the second look finds open is open."""
    cluster = FakeCluster()
    probe, probed = cluster.probe, []

    def late(wanted):
        probed.append(len(wanted))
        return {pair: arrived and len(probed) > 1 for pair, arrived in probe(wanted).items()}

    cluster.probe = late
    assert probe_pairs(cluster).closed == ()
    assert probed == [20, 20]


def test_without_networks_the_receipt_has_no_reach():
    """On loopback; and where the probe itself breaks, the fault still gets its receipt."""
    loopback, broken = FakeCluster(), FakeCluster()
    loopback.missing[Partitionable] = "no namespaces"
    broken.probe = None
    for cluster in (loopback, broken):
        (line,) = Stage(planned(0, 1.0, "pause"), cluster=cluster).last_after_play()
        assert (line["reach"], line["effective"]) == ({}, True)


def test_nothing_comes_between_a_condition_and_the_blow():
    """All pairs are probed before it is waited for: a transaction might be over by the time that takes."""
    seen, cluster = [], FakeCluster()
    probe = cluster.probe
    cluster.probe = lambda wanted: seen.append("probe") or probe(wanted)
    conditions = {"transaction-open": lambda: seen.append("open") or ["c0"]}
    stage = Stage(replace(planned(0, 1.0, "pause"), when="transaction-open"), cluster=cluster, conditions=conditions)
    pause = cluster.pause
    cluster.pause = lambda node: seen.append("pause") or pause(node)
    stage.play()
    assert seen == ["probe", "open", "pause", "probe", "probe"]
