"""The options that all providers share that run brokers themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from fencepost.clusters.kafka.broker_config import fixed_settings
from fencepost.clusters.kafka.broker_settings import broker_settings
from fencepost.clusters.kafka.versions import numbers, refusal
from fencepost.harness.api import Authorizing, Between, CampaignError, Fillable, Interceptable, Skewable, Throttleable, Wipeable
from fencepost.harness.api.bounds import out_of_bounds

MOST_MB, MOST_BROKERS = 1 << 16, 50
SMALLEST_DISK_MB = 64
COMBINED_CONTROLLER = "a controller's disk holds its vote: give the test separate controllers (controllers = 1, or 3)"
NO_SMALL_DISK = "the brokers' data lies on their machine's own disk; give each a small one: disk_mb = 300 in [test.cluster]"
THROTTLE_ONLY_LOCAL = (
    'what brokers write is held back only where they are processes of this machine: kind = "local" in [test.cluster]'
)
NO_THROTTLE = "nothing stands between the brokers and their disk; let something: slow_disks = true in [test.cluster]"
NO_PROXY = "clients reach the brokers directly; put a proxy before each: proxy = true in [test.cluster]"
PROXY_ELSEWHERE = 'no proxy can stand before these brokers: kind = "local" or "docker" in [test.cluster]'
NO_AUTHORIZER = "clients may do everything; let an authorizer rule over them: acls = true in [test.cluster]"
NO_SETTABLE_CLOCK = "brokers read their machine's clock; let theirs be set: skewable = true in [test.cluster]"

_ELIGIBLE, _ELIGIBLE_FROM = "eligible.leader.replicas.version", [4, 1, 0]  # from when on it is set where nobody says otherwise


@dataclass(frozen=True, kw_only=True)
class NodeOptions(ABC):
    """The options of every provider that starts brokers of its own. Raises CampaignError with every mistake."""

    brokers: Annotated[int, Between(1, MOST_BROKERS)] = 3  # n1, n2, ...

    def __post_init__(self) -> None:
        if mistakes := self.mistakes():
            raise CampaignError(mistakes)

    def mistakes(self) -> list[str]:
        """The mistakes in the options, a sentence each."""
        return out_of_bounds(self)

    def nodes(self) -> list[str]:
        """The names of the brokers: n1, n2, ..."""
        return [f"n{i + 1}" for i in range(self.brokers)]

    def missing(self) -> dict[type, str]:
        """The capabilities that such a cluster lacks wherever it runs, each with the reason."""
        return {}

    @abstractmethod
    def version(self, node: str) -> str:
        """The version of the broker that a node runs."""

    @abstractmethod
    def all_versions(self) -> list[str]:
        """Every version used now or later, oldest first."""

    @abstractmethod
    def effective_settings(self) -> dict[str, str]:
        """The settings of every node."""


@dataclass(frozen=True, kw_only=True)
class EnvironmentOptions(NodeOptions):
    """Options of clusters that can give brokers a disk and a clock of their own."""

    disk_mb: Annotated[int, Between(0, MOST_MB)] = 0  # a disk of this size for each node, in memory, to be filled; 0: none
    skewable: bool = False  # lets a fault set the brokers' wall clocks; needs libfaketime

    def mistakes(self) -> list[str]:
        too_small = f"disk_mb = {self.disk_mb}: a broker needs {SMALLEST_DISK_MB} or more"
        return super().mistakes() + ([too_small] if 0 < self.disk_mb < SMALLEST_DISK_MB else [])

    def missing(self) -> dict[type, str]:
        reasons = super().missing()
        if not self.disk_mb:
            reasons[Fillable] = NO_SMALL_DISK
        if not self.skewable:
            reasons[Skewable] = NO_SETTABLE_CLOCK
        return reasons


@dataclass(frozen=True, kw_only=True)
class KafkaOptions(NodeOptions):
    """The options of a Kafka cluster."""

    kafka: str = "4.4.0"  # any released version, fetched once
    versions: Mapping[str, str] = field(default_factory=dict)  # node -> another version: { n1 = "3.9.1" }
    upgrades: tuple[str, ...] = ()  # versions that nodes may change to during a run (see the fault `rolling-restart`)
    replication: Annotated[int, Between(1, MOST_BROKERS)] = 3  # of the run's topics; no more than there are brokers
    controllers: Annotated[int, Between(0, 9)] = 0  # separate KRaft controllers k1...; 0: every broker is one too
    settings: Mapping[str, Any] = field(default_factory=dict)  # broker settings, laid over ours
    features: Mapping[str, int] = field(default_factory=dict)  # levels from the start: { "transaction.version" = 1 }
    acls: bool = False  # an authorizer, and clients with rights of their own, for the fault `revoke-acl`
    heap_mb: Annotated[int, Between(128, MOST_MB)] = 512  # of each JVM
    keep_storage: bool = False  # copy the nodes' log segments into the run's `storage/`

    def mistakes(self) -> list[str]:
        outside = out_of_bounds(self)
        names = [] if outside else sorted(self.nodes())
        lost = [f"versions.{node}: no such node; there are {', '.join(names)}" for node in self.versions if node not in names]
        odd = [f"{key}: {text}" for key, version in self._versions_by_key() if (text := refusal(version))]
        fixed = [f"settings.{name}: is set by fencepost itself" for name in self.settings if name in fixed_settings(self.acls)]
        return [*super().mistakes(), *([] if outside else lost), *odd, *fixed]

    def nodes(self) -> list[str]:
        """The names of the brokers (n1, n2, ...), then of the separate controllers (k1, ...)."""
        return super().nodes() + [f"k{i + 1}" for i in range(self.controllers)]

    def _versions_by_key(self) -> list[tuple[str, str]]:
        of_nodes = [(f"versions.{node}", version) for node, version in self.versions.items()]
        return [("kafka", self.kafka), *of_nodes, *(("upgrades", version) for version in self.upgrades)]

    def judged_settings(self, topic: Mapping[str, str]) -> tuple[list[tuple[str, str, str]], str]:
        """See `harness.api.JudgesSettings`."""
        from fencepost.clusters.kafka.settings_check import known_definitions, refused
        from fencepost.clusters.kafka.storage import refused_features

        known, unchecked = known_definitions(self.all_versions())
        if unchecked:
            return [], unchecked
        given = (("settings", self.settings, "broker"), ("topic", topic, "topic"))
        refusals = [(table, name, text) for table, settings, kind in given for name, text in refused(settings, kind, known)]
        formatted_by = self.all_versions()[0]
        if self.features and (text := refused_features(formatted_by, tuple(self.features.items()))):
            named = sorted((name for name in self.features if name in text), key=text.index)
            refusals.append(("features", (named or [*self.features])[0], text))
        return refusals, ""

    def missing(self) -> dict[type, str]:
        reasons = {**super().missing(), Throttleable: THROTTLE_ONLY_LOCAL, Interceptable: PROXY_ELSEWHERE}
        if not self.controllers:
            reasons[Wipeable] = COMBINED_CONTROLLER
        return reasons if self.acls else {**reasons, Authorizing: NO_AUTHORIZER}

    def version(self, node: str) -> str:
        return self.versions.get(node, self.kafka)

    def all_versions(self) -> list[str]:
        """As in `NodeOptions`: the first decides how storage is formatted and which features are on."""
        return sorted({self.kafka, *self.versions.values(), *self.upgrades}, key=numbers)

    def effective_settings(self) -> dict[str, str]:
        return broker_settings(self.brokers, self.settings)

    def eligible_leaders(self) -> bool:
        """True where replicas that fell out of sync may be eligible to lead (KIP-966): by the version that formats storage."""
        level = self.features.get(_ELIGIBLE)
        return numbers(self.all_versions()[0]) >= _ELIGIBLE_FROM if level is None else level > 0

    def replicas(self) -> int:
        """The number of replicas of each partition of the run's topics."""
        return min(self.replication, self.brokers)


@dataclass(frozen=True, kw_only=True)
class TwoClusterOptions(KafkaOptions, EnvironmentOptions):
    """Options of clusters that can have a second Kafka cluster beside the one that is judged."""

    second_brokers: Annotated[int, Between(0, MOST_BROKERS)] = 0  # a second Kafka cluster: brokers s1... that are controllers too

    def mistakes(self) -> list[str]:
        no_rights = "acls = true rules over one Kafka cluster, and second_brokers asks for two: leave one of them out"
        return super().mistakes() + ([no_rights] if self.acls and self.second_brokers else [])

    def nodes(self) -> list[str]:
        return super().nodes() + self.second_nodes()

    def second_nodes(self) -> list[str]:
        """The names of the second cluster's nodes (s1, s2, ...)."""
        return [f"s{i + 1}" for i in range(self.second_brokers)]

    def second_settings(self) -> dict[str, str]:
        """The settings of every node of the second cluster."""
        return broker_settings(self.second_brokers, self.settings)

    def describe_second(self) -> dict[str, Any]:
        """The plan's entry of the second cluster; empty where there is none."""
        return (
            {"second": {"brokers": self.second_nodes(), "broker_settings": self.second_settings()}} if self.second_brokers else {}
        )
