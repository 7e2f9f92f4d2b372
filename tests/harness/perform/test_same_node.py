"""Faults at the same moment at the same node: whom the first has struck, the others strike, and nobody else."""

from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

import pytest
from support.fault_schedule import FREE, KINDS, Stage, planned

from fencepost.harness.api import CampaignError, Killable, Receipt
from fencepost.nemesis.latency import Latency
from fencepost.nemesis.packet_loss import PacketLoss
from fencepost.nemesis.testing import FakeCluster

MADE = {**KINDS, "latency": Latency, "packet-loss": PacketLoss}


def made(injection):
    return MADE[injection.kind](**injection.options)


def staged(*schedule, cluster=None, make=made, **more):
    stage = Stage(*schedule, make=make, cluster=cluster, **more)
    stage.play()
    assert all(line["healed_ns"] for line in stage.last().values() if line["effective"])
    return stage.last()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("target", ["random", "leader:t-1", "coordinator", "client"])
def test_the_second_strikes_the_node_that_the_first_has_struck(target, seed):
    """Whichever it was: a role may have moved by then, and a random node be another one."""
    cluster = FakeCluster()
    first = replace(planned(0, 1.0, "kill", target=target), seed=seed)
    lines = staged(first, planned(1, 1.0, "latency", target="same"), cluster=cluster)
    assert (lines[1]["effective"], lines[1]["role"], lines[1]["evidence"]["same_as"]) == (True, "same", 0)
    assert lines[1]["targets"] == lines[0]["targets"]


def test_a_third_strikes_it_too():
    others = [planned(number, 1.0, kind, target="same") for number, kind in ((1, "packet-loss"), (2, "kill"))]
    lines = staged(planned(0, 1.0, "latency"), *others)
    assert len({tuple(line["targets"]) for line in lines.values()}) == 1
    assert [line["evidence"].get("same_as") for line in lines.values()] == [None, 0, 0]


def test_each_time_that_a_group_strikes_the_others_are_aimed_anew():
    plan = []
    for number, at_s in enumerate((1.0, 10.0, 20.0, 30.0)):
        plan += [planned(2 * number, at_s, "kill", 1.0), planned(2 * number + 1, at_s, "latency", 1.0, target="same")]
    lines = staged(*plan)
    nodes = [tuple(lines[number]["targets"]) for number in range(8)]
    assert nodes[::2] == nodes[1::2]
    assert len(set(nodes)) > 1


def test_nobody_is_struck_where_the_first_struck_nobody():
    cluster = FakeCluster()
    cluster.kill("n2")
    lines = staged(planned(0, 1.0, "kill", target="broker:n2"), planned(1, 1.0, "latency", target="same"), cluster=cluster)
    assert lines[0]["effective"] is False
    assert (lines[1]["effective"], lines[1]["targets"], lines[1]["role"]) == (False, [], "same")
    assert lines[1]["note"] == "not injected: the first fault of its group struck nothing"


def test_of_several_nodes_that_were_struck_none_is_meant():
    lines = staged(planned(0, 1.0, "pause", count=2), planned(1, 1.0, "latency", target="same"), budget=FREE)
    nodes = " and ".join(lines[0]["targets"])
    assert lines[1]["note"] == f"not injected: the first fault of its group struck {nodes}"


def test_of_several_that_were_aimed_at_the_one_that_was_hit_is_meant():
    cluster = FakeCluster()
    cluster.pause("n1")
    cluster.pause("n2")
    lines = staged(planned(0, 1.0, "pause", count=3), planned(1, 1.0, "latency", target="same"), cluster=cluster, budget=FREE)
    assert (lines[1]["effective"], lines[1]["targets"]) == (True, ["n3"])


def test_a_first_fault_that_is_unavailable_leaves_the_second_without_a_node():
    cluster = FakeCluster()
    cluster.missing[Killable] = "nobody may"
    lines = staged(planned(0, 1.0, "kill"), planned(1, 1.0, "latency", target="same"), cluster=cluster)
    assert lines[0]["note"].startswith("unavailable here")
    assert lines[1]["note"] == "not injected: the first fault of its group struck nothing"


@pytest.mark.parametrize(
    ("node", "note"), [("c0", "no client"), ("k1", "no target leads to k1, which the first fault of its group struck")]
)
def test_what_can_only_be_known_when_it_is_struck_is_said_by_the_receipt(node, note):
    """A fault of somebody's own that names no target."""

    @dataclass(frozen=True)
    class Odd:
        needs: ClassVar[tuple[type, ...]] = ()

        def inject(self, cluster, rng):
            return Receipt(targets=(node,), effective=True)

        def heal(self, cluster, receipt):
            return receipt

    def make(injection):
        if injection.options.get("target") == "client:c0":
            raise CampaignError(["no client"])
        return Odd() if injection.kind == "odd" else made(injection)

    lines = staged(planned(0, 1.0, "odd"), planned(1, 1.0, "latency", target="same"), make=make)
    assert (lines[1]["effective"], lines[1]["note"]) == (False, f"not injected: {note}")


def test_the_draws_of_the_second_are_those_of_its_own_seed(monkeypatch):
    seen = []

    class Drawn(Latency):
        def inject(self, cluster, rng):
            seen.append(rng.random())
            return super().inject(cluster, rng)

    monkeypatch.setitem(MADE, "drawn", Drawn)
    staged(planned(0, 1.0, "kill"), planned(1, 1.0, "drawn", target="same"))
    assert seen == [Random(1).random()]
