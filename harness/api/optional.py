"""Optional parts of plug-ins: attributes and methods that a plug-in may have beyond the interface of its kind.

Each is a protocol with one member, or with members that belong together; the harness tests for it by `isinstance`. `OPTIONAL`
lists them by kind: by it a misspelt name is recognised when the plug-in is loaded (`harness.plugins.optional_names`).
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

from fencepost.harness.api.clusters import JudgesSettings, Obtains
from fencepost.harness.api.faults import ChangesTopicSettings, DemandsContract, FiresFault
from fencepost.harness.api.logs import LogEntry, LogRecord


# --------------------------------------------------------------------------------------------------
# Workloads
# --------------------------------------------------------------------------------------------------
@runtime_checkable
class BoundsSettling(Protocol):
    """A workload that bounds how long a last stable offset may lag after healing; 0: by the transaction timeouts."""

    @property
    def settle_s(self) -> float: ...


@runtime_checkable
class RaisesEpochs(Protocol):
    """A workload whose transactional ids have their epochs raised so far before the run; 0: left alone."""

    @property
    def first_epoch(self) -> int: ...


@runtime_checkable
class ReadsBack(Protocol):
    """A workload that has topics read at the end as the brokers have them: of a connector, or changelogs of state stores.

    The place is the run's prefix for workers of Connect, and the run for programs.
    """

    def logs(self, prefix: str) -> Sequence[str]:
        """The topics; `second/NAME`: of the second Kafka cluster."""

    def entry(self, record: LogRecord, place: str) -> LogEntry | None:
        """The meaning of a record of these topics; None: of no interest."""


@runtime_checkable
class ConfiguresMembers(Protocol):
    """A workload with settings of its own for consumers that are members of its groups."""

    def member_settings(self) -> Mapping[str, Any]:
        """Consumer settings, beneath the test's own."""


@runtime_checkable
class DemandsLeast(Protocol):
    """A workload that demands a least performance: `faults`, `transactions`, `operations`, `records`, or occasions
    (`harness.api.occasions`); under the test's own."""

    @property
    def at_least(self) -> Mapping[str, int]: ...


# --------------------------------------------------------------------------------------------------
# Providers and running clusters
# --------------------------------------------------------------------------------------------------
@runtime_checkable
class PrefixesNames(Protocol):
    """A provider whose topics, groups and transactional ids begin with a prefix; the run's id follows."""

    @property
    def prefix(self) -> str: ...


@runtime_checkable
class CountsBrokers(Protocol):
    """A provider that knows how many brokers its cluster will have, `n1`..."""

    @property
    def brokers(self) -> int: ...


@runtime_checkable
class CountsReplicas(Protocol):
    """A provider that knows how many replicas each partition of the run's topics will have."""

    def replicas(self) -> int: ...


@runtime_checkable
class CountsControllers(Protocol):
    """A provider with controllers that are no brokers, `k1`...; 0: none are."""

    @property
    def controllers(self) -> int: ...


@runtime_checkable
class CountsSecondBrokers(Protocol):
    """A provider that can run a second Kafka cluster, with so many brokers, `s1`...; 0: there is none."""

    @property
    def second_brokers(self) -> int: ...


@runtime_checkable
class DeclaresServices(Protocol):
    """A provider whose clients can reach outside services: the address of each on this machine, `host:port`, by its name."""

    @property
    def services(self) -> Mapping[str, str]: ...


@runtime_checkable
class ListsVersions(Protocol):
    """A provider that knows which versions of Kafka its nodes may have, those of upgrades included."""

    def all_versions(self) -> Sequence[str]: ...


@runtime_checkable
class ReportsSettings(Protocol):
    """A provider, or a running cluster that is not ours, that knows the effective settings of its brokers."""

    def effective_settings(self) -> Mapping[str, Any]:
        """Names and values; a running cluster raises ClusterError."""


@runtime_checkable
class ElectsEligibleLeaders(Protocol):
    """A provider that knows whether replicas that fell out of sync may lead in the place of the last one in sync (KIP-966)."""

    def eligible_leaders(self) -> bool: ...


@runtime_checkable
class ReportsUnreachable(Protocol):
    """A running cluster whose brokers are not its own to start, and that sees from outside which of them are away."""

    def unreachable_brokers(self) -> Collection[str]:
        """The brokers to which no connection can be opened now. Asked every two seconds: it returns within some."""


@runtime_checkable
class ReportsClockJumps(Protocol):
    """A running cluster whose nodes are on machines of their own, and that looks at their wall clocks."""

    def clock_jumps(self) -> Mapping[str, Sequence[float]]:
        """Node -> the seconds of each jump of its machine's clock so far, in order, without those that faults made.

        Asked twice a second: it returns at once.
        """


@runtime_checkable
class Connects(Protocol):
    """A provider that knows before the start which client settings a connection needs; secrets are references."""

    def connection(self) -> Mapping[str, Any]: ...


@runtime_checkable
class RunsImages(Protocol):
    """A provider that declares whether its clusters are `RunningImages`."""

    @property
    def runs_images(self) -> bool: ...


@runtime_checkable
class LimitsToClients(Protocol):
    """A provider or a running cluster whose brokers cannot be hurt: why faults only aim at clients (empty: they can)."""

    @property
    def only_clients(self) -> str: ...


@runtime_checkable
class ChoosesNemesis(Protocol):
    """A provider's or a workload's class with the faults of `fencepost run` when none is named, as `kind,key=value...`.

    A provider's go before a workload's.
    """

    @property
    def default_nemesis(self) -> Sequence[str]: ...


@runtime_checkable
class ChoosesLanes(Protocol):
    """A class with `default_nemesis` and the lanes of those faults, as `name,key=value...`."""

    @property
    def default_lanes(self) -> Sequence[str]: ...


@runtime_checkable
class Leases(Protocol):
    """A provider whose hosts undo everything when the harness has been silent for so long."""

    @property
    def lease_s(self) -> float: ...


def only_clients_of(cluster: Any) -> str:
    """The reason of `LimitsToClients`; empty: there is none. Proxies of clusters are looked through, as isinstance does not."""
    return str(getattr(cluster, "only_clients", ""))


# --------------------------------------------------------------------------------------------------
# Faults
# --------------------------------------------------------------------------------------------------
@runtime_checkable
class Targeted(Protocol):
    """A fault that aims at a role: `leader:orders-0`, `client:c3`; checked against the test when a campaign is read."""

    @property
    def target(self) -> str: ...


@runtime_checkable
class Counted(Protocol):
    """A fault that hurts so many nodes of its target; not more than there are."""

    @property
    def count(self) -> int: ...


@runtime_checkable
class CountsOtherThanBrokers(Protocol):
    """A fault whose `count` counts `partitions`, and not `brokers`."""

    @property
    def counts(self) -> str: ...


@runtime_checkable
class ChoosesClient(Protocol):
    """A fault with a client beside its target: a node (`c3`), `random`, `instance`, `connect-leader` or `connect-task`."""

    @property
    def client(self) -> str: ...


@runtime_checkable
class ResizesInstances(Protocol):
    """A fault that lets so many instances run; 0: drawn each time."""

    @property
    def to(self) -> int: ...


@runtime_checkable
class ChoosesVersion(Protocol):
    """A fault that brings nodes to a version of Kafka; empty: whichever is there."""

    @property
    def version(self) -> str: ...


@runtime_checkable
class OfTransactions(Protocol):
    """A fault that declares whether it aims at transactional ids of the workload."""

    @property
    def of_transactions(self) -> bool: ...


@runtime_checkable
class NeedsBrokers(Protocol):
    """A fault that needs so many brokers."""

    @property
    def least_brokers(self) -> int: ...


@runtime_checkable
class NeedsServers(Protocol):
    """A fault that needs so many brokers and controllers."""

    @property
    def least_servers(self) -> int: ...


OPTIONAL: Mapping[str, tuple[type, ...]] = {
    "workload": (BoundsSettling, RaisesEpochs, ReadsBack, ConfiguresMembers, DemandsLeast, ChoosesNemesis, ChoosesLanes),
    "cluster": (
        *(PrefixesNames, CountsBrokers, CountsReplicas, CountsControllers, CountsSecondBrokers, DeclaresServices, ListsVersions),
        *(ReportsSettings, ElectsEligibleLeaders, Connects, RunsImages, LimitsToClients, ChoosesNemesis, ChoosesLanes, Leases),
        *(JudgesSettings, Obtains),
    ),
    "nemesis": (
        *(Targeted, Counted, CountsOtherThanBrokers, ChoosesClient, ResizesInstances, ChoosesVersion, OfTransactions),
        *(NeedsBrokers, NeedsServers, ChangesTopicSettings, DemandsContract, FiresFault),
    ),
}


@lru_cache
def names_of(protocol: type) -> tuple[str, ...]:
    """The members of an optional protocol."""
    members = {name: member for name, member in vars(protocol).items() if not name.startswith("_")}
    return tuple(name for name, member in members.items() if inspect.isfunction(member) or isinstance(member, property))


@lru_cache
def optional_names(group: str) -> tuple[str, ...]:
    """Every optional name of a kind of plug-in; none of a kind that has none."""
    return tuple(name for protocol in OPTIONAL.get(group, ()) for name in names_of(protocol))
