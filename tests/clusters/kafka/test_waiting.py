"""Waiting for a cluster's nodes: one that dies meanwhile is an error at once, but while healing only the second time."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fencepost.clusters.kafka.cluster import KafkaCluster
from fencepost.harness.api import ClusterError


class Dying(SimpleNamespace):
    """Two nodes, of which n2 dies so many times after it was started."""

    def __init__(self, deaths: int) -> None:
        super().__init__(_planned={"n1": None, "n2": None}, deaths=deaths, alive={"n1", "n2"}, starts=0)

    def start(self, node: str) -> None:
        self.alive.add(node)
        self.starts += 1

    def pid(self, node: str) -> int | None:
        return 1 if node in self.alive else None

    def status(self, node: str) -> int:
        return 1

    def _tail(self, node: str) -> str:
        return "its last words"

    def problem(self) -> str:
        """n2 does not answer, and dies while it is asked; when it dies no more, all is well."""
        if self.deaths:
            self.deaths -= 1
            self.alive.discard("n2")
            return "n2 does not answer"
        return ""


def test_a_node_that_dies_while_starting_is_an_error_with_the_end_of_its_log():
    cluster = Dying(deaths=1)
    with pytest.raises(ClusterError, match="n2 ended with status 1 while waiting for the end: its last words"):
        KafkaCluster._wait(cluster, 120.0, "the end", cluster.problem)
    assert cluster.starts == 0


def test_while_healing_a_node_that_dies_is_started_once_more_and_not_twice():
    cluster = Dying(deaths=1)
    KafkaCluster._wait(cluster, 120.0, "the end", cluster.problem, once_more=cluster._planned)
    assert cluster.starts == 1
    cluster = Dying(deaths=2)
    with pytest.raises(ClusterError, match="n2 ended with status 1"):
        KafkaCluster._wait(cluster, 120.0, "the end", cluster.problem, once_more=cluster._planned)
