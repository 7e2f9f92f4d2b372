"""Offsets of the workload's partitions, each looked up at the Kafka cluster that has it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fencepost.harness.api import Admin, Cluster, Isolation
from fencepost.harness.api.clusters import second_of

PAUSE_S = 0.2


class PartitionOffsets:
    """The partitions of a plan's topics, at the clusters that have them."""

    def __init__(self, cluster: Cluster, plan: Mapping[str, Any]) -> None:
        self._cluster = cluster
        self._of: dict[str, list[str]] = {}
        for topic, spec in plan["topics"].items():
            names = [f"{topic}-{number}" for number in range(spec["partitions"])]
            self._of.setdefault(spec.get("cluster", ""), []).extend(names)

    @property
    def all(self) -> list[str]:
        """Every partition."""
        return [name for names in self._of.values() for name in names]

    def at(self, cluster: str) -> list[str]:
        """The partitions that a Kafka cluster has (empty: the one that is judged)."""
        return list(self._of.get(cluster, ()))

    def ends(self, isolation: Isolation) -> dict[str, int]:
        """The end offsets, as `Admin.end_offsets` returns them."""
        return {name: end for admin, names in self._by_cluster() for name, end in admin.end_offsets(names, isolation).items()}

    def starts(self, within_s: float = 0.0) -> dict[str, int]:
        """The log start offsets, as `Admin.log_start_offsets` returns them.

        Asked again for `within_s` seconds while a partition has no answer: a leader that moves just then has none.
        """
        deadline, found = time.monotonic() + within_s, self._starts()
        while len(found) < len(self.all) and time.monotonic() < deadline:
            time.sleep(PAUSE_S)
            found |= self._starts()
        return found

    def _starts(self) -> dict[str, int]:
        return {name: start for admin, names in self._by_cluster() for name, start in admin.log_start_offsets(names).items()}

    def _by_cluster(self) -> Iterator[tuple[Admin, Sequence[str]]]:
        second = second_of(self._cluster)
        for cluster, names in self._of.items():
            if not cluster:
                yield self._cluster.admin(), names
            elif second is not None:
                yield second.admin(), names
