"""The plug-in `local`: options, what this machine offers, and the way up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusters.fault_tools import faketime
from clusters.fault_tools.disk_throttle import throttles
from clusters.fault_tools.network_capabilities import NEED_A_NETWORK
from clusters.kafka.distribution import fetch
from clusters.kafka.options import FAST_DISK, SurroundedOptions
from clusters.local import class_archive, sandbox
from harness.api import Fillable, Partitionable, Skewable, Throttleable, TopicSpec

if TYPE_CHECKING:
    from clusters.local.cluster import LocalCluster


@dataclass(frozen=True, kw_only=True)
class Local(SurroundedOptions):
    """Brokers as JVMs on this machine, in network namespaces where it allows them; Linux and Java 17 or newer, no root."""

    loopback: bool = False  # no namespaces even where they are allowed
    slow_disks: bool = False  # lets a fault make the brokers' disks slow

    def mistakes(self) -> list[str]:
        found = super().mistakes()
        if (self.disk_mb or self.skewable) and self.loopback:
            found.append("disk_mb and skewable need a namespace to mount in, and loopback = true has none")
        return found

    def sandbox(self, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` in namespaces (or, where refused, under a supervisor alone).

        Makes sure that Kafka and its class archive are there first: inside, nothing can be fetched. Raises ClusterError.
        """
        for version in self.all_versions():
            class_archive.ensure(fetch(version))
        return sandbox.command(argv, loopback=self.loopback)

    def missing(self) -> dict[type, str]:
        found = {**super().missing(), **self._missing_of_the_box()}
        found[Throttleable] = self.no_slow_disk()
        if self.skewable:
            found[Skewable] = faketime.trouble()
        return {capability: reason for capability, reason in found.items() if reason}

    def no_slow_disk(self) -> str:
        """Why no disk can be slow; empty when it can."""
        return throttles.trouble() if self.slow_disks else FAST_DISK

    def _missing_of_the_box(self) -> dict[type, str]:
        if self.loopback:
            return dict.fromkeys(NEED_A_NETWORK, "the campaign asks for loopback = true, where nodes share one address")
        box = sandbox.box()
        if box.reason:
            return dict.fromkeys((*NEED_A_NETWORK, Fillable), box.reason)
        return {one: box.lacks[one.__name__] for one in (*NEED_A_NETWORK, Fillable) if one.__name__ in box.lacks}

    def describe(self) -> dict[str, Any]:
        return {
            "kafka": self.kafka,
            "versions": dict(self.versions),
            "upgrades": list(self.upgrades),
            "jars": {name: checksum for version in self.all_versions() for name, checksum in fetch(version).jars.items()},
            "broker_settings": self.effective_settings(),
            "controllers": self.controllers or "combined",
            "network": "loopback" if Partitionable in self.missing() else "namespaces",
        }

    @contextmanager
    def up(self, run_dir: Path, topics: Mapping[str, TopicSpec]) -> Iterator[LocalCluster]:
        """Start every node, make the topics, yield the cluster ready; at the end kill all and remove the data.

        Raises ClusterError, with the end of the log, when a node dies or is not ready within 90 s.
        """
        from clusters.local.cluster import LocalCluster

        cluster = LocalCluster(self, run_dir, {version: fetch(version) for version in self.all_versions()})
        try:
            cluster.begin(topics)
            yield cluster
        finally:
            cluster.end()
