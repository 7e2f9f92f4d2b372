"""The options that all providers share that run brokers themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clusters.kafka.broker_settings import broker_settings
from harness.api import CampaignError, Fillable, Skewable, Throttleable, Wipeable

MOST_MB = 1 << 16
SMALLEST_DISK_MB = 64
COMBINED_CONTROLLER = "a controller's disk holds its vote: give the test separate controllers (controllers = 1, or 3)"
NO_SMALL_DISK = "the brokers' data lies on their machine's own disk; give each a small one: disk_mb = 300 in [test.cluster]"
THROTTLE_ONLY_LOCAL = (
    'what brokers write is held back only where they are processes of this machine: kind = "local" in [test.cluster]'
)
NO_THROTTLE = "nothing stands between the brokers and their disk; let something: slow_disks = true in [test.cluster]"
NO_SETTABLE_CLOCK = "brokers read their machine's clock; let theirs be set: skewable = true in [test.cluster]"


@dataclass(frozen=True, kw_only=True)
class KafkaOptions:
    """What is to be started. Raises CampaignError with every mistake."""

    brokers: int = 3
    kafka: str = "4.3.0"  # any released version, fetched once
    versions: Mapping[str, str] = field(default_factory=dict)  # node -> another version: { n1 = "3.9.1" }
    upgrades: tuple[str, ...] = ()  # versions that nodes may change to during a run (see the fault `rolling-restart`)
    controllers: int = 0  # separate KRaft controllers k1...; 0: every broker is one too
    settings: Mapping[str, Any] = field(default_factory=dict)  # broker settings, laid over ours
    heap_mb: int = 512  # of each JVM
    keep_storage: bool = False  # copy the nodes' log segments into the run's `storage/`

    def __post_init__(self) -> None:
        if mistakes := self.mistakes():
            raise CampaignError(mistakes)

    def mistakes(self) -> list[str]:
        """What is wrong with the options, a sentence each."""
        names = sorted([f"n{i + 1}" for i in range(self.brokers)] + [f"k{i + 1}" for i in range(self.controllers)])
        lost = [f"versions.{node}: no such node; there are {', '.join(names)}" for node in self.versions if node not in names]
        limits = {"brokers": (1, 50), "controllers": (0, 9), "heap_mb": (128, MOST_MB), **self.limits()}
        return [
            f"{name} = {value}: must be between {low} and {high}"
            for name, (low, high) in limits.items()
            if not low <= (value := getattr(self, name)) <= high
        ] + lost

    def missing(self) -> dict[type, str]:
        """What such a cluster cannot do, wherever it runs."""
        return {Throttleable: THROTTLE_ONLY_LOCAL} | ({} if self.controllers else {Wipeable: COMBINED_CONTROLLER})

    def limits(self) -> dict[str, tuple[float, float]]:
        """Lowest and highest value of a provider's own options."""
        return {}

    def version(self, node: str) -> str:
        """The Kafka version of a node."""
        return self.versions.get(node, self.kafka)

    def all_versions(self) -> list[str]:
        """Every version used now or later, oldest first: the first decides how storage is formatted and which features are on."""
        return sorted({self.kafka, *self.versions.values(), *self.upgrades}, key=_numbers)

    def effective_settings(self) -> dict[str, str]:
        """The settings of every broker and controller."""
        return broker_settings(self.brokers, self.settings)


@dataclass(frozen=True, kw_only=True)
class EnvironmentOptions(KafkaOptions):
    """Options of clusters that can give brokers a disk and a clock of their own."""

    disk_mb: int = 0  # gives each node a disk of this size, in memory, that a fault can fill; 0: its machine's own
    skewable: bool = False  # lets a fault set the brokers' wall clocks; needs libfaketime

    def mistakes(self) -> list[str]:
        too_small = f"disk_mb = {self.disk_mb}: a broker needs {SMALLEST_DISK_MB} or more"
        return super().mistakes() + ([too_small] if 0 < self.disk_mb < SMALLEST_DISK_MB else [])

    def limits(self) -> dict[str, tuple[float, float]]:
        return {"disk_mb": (0, MOST_MB)}

    def missing(self) -> dict[type, str]:
        found = super().missing()
        if not self.disk_mb:
            found[Fillable] = NO_SMALL_DISK
        if not self.skewable:
            found[Skewable] = NO_SETTABLE_CLOCK
        return found


def _numbers(version: str) -> list[int]:
    return [int(part) if part.isdigit() else -1 for part in version.split(".")]
