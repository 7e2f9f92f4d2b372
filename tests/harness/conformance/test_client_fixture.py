"""Brokers that the client kit freezes stand still before the next call: SIGSTOP takes effect later, on a busy machine 30 ms."""

from __future__ import annotations

import pytest

from fencepost.harness.api import ClusterError
from fencepost.harness.conformance import client_fixture


class Cluster:
    """Two brokers that stand still only when they have been looked at so many times."""

    brokers = ("n1", "n2")

    def __init__(self, looks):
        self.looks, self.paused, self.resumed = dict.fromkeys(self.brokers, looks), [], []

    def pause(self, node):
        self.paused.append(node)

    def resume(self, node):
        self.resumed.append(node)

    def process_state(self, node):
        self.looks[node] -= 1
        return "S" if self.looks[node] >= 0 else "T"


def kit_on(cluster, tmp_path):
    return client_fixture.ClientFixture(cluster, ["driver"], None, tmp_path / "driver.log")


def test_calls_are_made_when_every_broker_stands_still(tmp_path):
    cluster = Cluster(looks=3)
    with kit_on(cluster, tmp_path)._brokers_frozen():
        assert (cluster.paused, cluster.looks, cluster.resumed) == (["n1", "n2"], {"n1": -1, "n2": -1}, [])
    assert cluster.resumed == ["n1", "n2"]


def test_a_broker_that_goes_on_is_an_error_and_all_are_let_go(tmp_path, monkeypatch):
    monkeypatch.setattr(client_fixture, "FREEZE_S", 0.05)
    cluster = Cluster(looks=10**6)
    with (
        pytest.raises(ClusterError, match="n1 is not frozen 0 s after SIGSTOP"),
        kit_on(cluster, tmp_path)._brokers_frozen(),
    ):
        pytest.fail("a call would be made")
    assert cluster.resumed == ["n1", "n2"]
