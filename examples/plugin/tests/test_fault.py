"""The fault, on a cluster in memory."""

from __future__ import annotations

from random import Random

import pytest
from fencepost_example.fault import Hiccup

from fencepost.harness.conformance.stories import Kit
from fencepost.nemesis.testing import FakeCluster


def test_it_freezes_the_leader_and_thaws_it():
    cluster, fault = FakeCluster(), Hiccup(target="leader:t-1")
    receipt = fault.inject(cluster, Random(7))
    assert (receipt.targets, receipt.effective, cluster.process_state("n2")) == (("n2",), True, "T")
    fault.heal(cluster, receipt)
    assert cluster.whole()


def test_it_behaves_as_required_in_every_story():
    results = list(Kit(FakeCluster(), Hiccup(), seed=7).play())
    assert [result for result in results if result.ok is not True] == []


def test_options_that_cannot_be_meant_are_refused():
    with pytest.raises(ValueError, match='unknown target "leeder"; did you mean "leader"'):
        Hiccup(target="leeder")
    with pytest.raises(ValueError, match="seen_within_s"):
        Hiccup(seen_within_s=0)
