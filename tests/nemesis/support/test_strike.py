"""The same thing done to several nodes: who is left alone, who was tried, who was hit, and what is undone."""

import pytest

from fencepost.harness.api import ClusterError, OverBudget
from fencepost.nemesis.support.strike import strike


class Nodes:
    """Nodes that are up or down. spared: over the budget; stubborn: they stay up; broken: the call fails, and does its work."""

    def __init__(self, spared=(), stubborn=(), broken=(), down=(), confused=()):
        self.spared, self.stubborn, self.broken, self.confused = spared, stubborn, broken, confused
        self.state = {node: "down" if node in down else "up" for node in ("n1", "n2", "n3")}
        self.undone = []

    def hurt(self, node):
        if node in self.confused:
            raise RuntimeError("a mistake of the fault's")
        if node in self.spared:
            raise OverBudget(f"{node}: enough are hurt")
        if node not in self.stubborn:
            self.state[node] = "down"
        if node in self.broken:
            raise ClusterError(f"{node} did not answer")

    def struck(self):
        return strike(
            ["n1", "n2", "n3"],
            self.hurt,
            look=self.state.get,
            is_healthy=lambda state: state == "up",
            is_hit=lambda before, now: now != before,
            undo=self.undone.append,
            within_s=0.0,
        )


def test_all_that_are_healthy_are_hit():
    receipt = Nodes().struck().receipt("all")
    assert (receipt.role, receipt.targets, receipt.effective, receipt.note) == ("all", ("n1", "n2", "n3"), True, "")
    assert receipt.evidence == {"before": dict.fromkeys(receipt.targets, "up"), "during": dict.fromkeys(receipt.targets, "down")}


def test_a_node_that_was_hurt_before_is_left_alone_and_does_not_count_as_hit():
    struck = Nodes(down=["n2"]).struck()
    assert (struck.unhealthy, struck.hit, struck.missed) == (["n2"], ["n1", "n3"], [])
    assert struck.receipt("all").evidence["hit"] == ["n1", "n3"]


def test_a_node_that_the_budget_spares_is_no_target_and_is_not_missed():
    struck = Nodes(spared=["n3"]).struck()
    assert (struck.receipt("all").targets, struck.missed, struck.problems) == (("n1", "n2"), [], ["n3: enough are hurt"])


def test_a_node_that_withstands_is_missed_and_the_others_make_it_effective():
    struck = Nodes(stubborn=["n1"]).struck()
    receipt = struck.receipt("all", ["n1 survived"], {"more": 1})
    assert (struck.missed, receipt.effective, receipt.note) == (["n1"], True, "n1 survived")
    assert (receipt.evidence["hit"], receipt.evidence["more"]) == (["n2", "n3"], 1)


def test_a_call_that_failed_may_have_hit():
    struck = Nodes(broken=["n2"]).struck()
    assert (struck.hit, struck.receipt("all").note) == (["n1", "n2", "n3"], "n2 did not answer")


def test_without_any_hit_it_is_without_effect():
    assert Nodes(stubborn=["n1", "n2", "n3"]).struck().receipt("all").effective is False


def test_what_breaks_off_is_undone_for_all_that_were_healthy():
    nodes = Nodes(down=["n1"], confused=["n3"])
    with pytest.raises(RuntimeError):
        nodes.struck()
    assert nodes.undone == ["n2", "n3"]
