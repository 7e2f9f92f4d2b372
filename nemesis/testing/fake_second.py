"""A second Kafka cluster in memory: brokers that are nodes of a `FakeCluster`, and roles of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fencepost.harness.api import ClusterError, LogRecord


class FakeSecond:
    """`SecondCluster` without admin and logs: the first broker that is awake has every role."""

    def __init__(self, brokers: int, awake: Callable[[str], bool]) -> None:
        self.brokers = tuple(f"s{number}" for number in range(1, brokers + 1))
        self.controllers, self.topics = self.brokers, ("configs-0",)
        self.transactional_ids: tuple[str, ...] = ("leader-0",)
        self.groups: tuple[str, ...] = ("workers",)
        self._awake = awake

    def note_clients(self, *, transactional_ids: Sequence[str], groups: Sequence[str]) -> None:
        self.transactional_ids, self.groups = tuple(transactional_ids), tuple(groups)

    def bootstrap(self) -> str:
        return ",".join(f"{node}:9092" for node in self.brokers)

    def roles(self) -> FakeSecond:
        return self

    def controller(self) -> str:
        awake = [node for node in self.brokers if self._awake(node)]
        if not awake:
            raise ClusterError(f"nobody answered: all of {', '.join(self.brokers)} are dead or frozen")
        return awake[0]

    def leader(self, topic: str, partition: int) -> str:
        return self.controller()

    def transaction_coordinator(self, transactional_id: str) -> str:
        return self.controller()

    def group_coordinator(self, group: str) -> str:
        return self.controller()

    def partitions_of(self, topic: str) -> Sequence[str]:
        return [partition for partition in self.topics if partition.rpartition("-")[0] == topic]

    def log(self, partition: str) -> Sequence[LogRecord]:
        return []
