"""The double that refuses a call knows of every call whether it hurts, looks or undoes."""

from __future__ import annotations

from typing import Protocol

import pytest

from fencepost.harness.api import ClusterError
from fencepost.harness.api.effects import hurts_node, restores_node
from fencepost.harness.conformance.doubles import RefusingCluster
from fencepost.nemesis.testing import FakeCluster


class Stallable(Protocol):
    """A capability of a plug-in that declares what its calls do."""

    @hurts_node
    def stall(self, node: str) -> int: ...
    @restores_node
    def unstall(self, node: str) -> None: ...


class Undeclared(Protocol):
    """A capability of a plug-in that declares nothing."""

    def stall(self, node: str) -> None: ...
    def stalled(self, node: str) -> bool: ...


class StallableCluster(FakeCluster):
    def stall(self, node):
        return 1

    def unstall(self, node):
        return None

    def stalled(self, node):
        return True


def test_effects_that_a_plug_ins_capability_declares_are_used():
    cluster = RefusingCluster(StallableCluster(), (Stallable,), 1)
    cluster.stall("n1")
    cluster.unstall("n1")
    assert (cluster.first, cluster.refused) == ("stall", "")
    with pytest.raises(ClusterError, match="stall was refused"):
        cluster.stall("n2")


def test_an_undeclared_call_that_returns_nothing_is_taken_to_hurt_and_any_other_to_look():
    cluster = RefusingCluster(StallableCluster(), (Undeclared,), 1)
    assert cluster.stalled("n1")
    cluster.stall("n1")
    assert cluster.first == "stall"
    with pytest.raises(ClusterError, match="stalled was refused"):
        cluster.stalled("n1")


def test_calls_that_undo_or_prepare_are_never_refused():
    cluster = RefusingCluster(FakeCluster(), (), 1)
    cluster.kill("n1")
    cluster.start("n1")
    cluster.undrop([])
    cluster.use_version("n1", cluster.kafka_version)
    assert (cluster.first, cluster.refused) == ("kill", "")
    with pytest.raises(ClusterError, match="pid was refused"):
        cluster.pid("n1")
