"""Clusters: the interface of a running cluster, and the provider that brings it up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol, runtime_checkable

from fencepost.harness.api import admin_aspects
from fencepost.harness.api.effects import changes, looks, prepares
from fencepost.harness.api.logs import LogRecord
from fencepost.harness.api.observation import Subjects, shown_by, shows, undone_by, unobservable
from fencepost.harness.api.values import Isolation


class Roles(Protocol):
    """Nodes by their present role, looked up at the moment of a fault. Each returns a broker's or controller's node name.

    All raise `ClusterError` when no node answers or none has the role.
    """

    def leader(self, topic: str, partition: int) -> str: ...
    def controller(self) -> str: ...
    def transaction_coordinator(self, transactional_id: str) -> str: ...
    def group_coordinator(self, group: str) -> str: ...

    def transaction_partition(self, transactional_id: str) -> str:
        """The partition of Kafka's own topic whose leader is the coordinator: `__transaction_state-3`."""

    def group_partition(self, group: str) -> str:
        """The same for a group: `__consumer_offsets-1`."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The replicas of a partition, by the names of their nodes.

    leader: the leader; empty when there is none.
    replicas: all replicas, the preferred leader first.
    in_sync: the in-sync replicas.
    """

    leader: str
    replicas: tuple[str, ...]
    in_sync: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TransactionState:
    """A transactional id as its coordinator knows it (DescribeTransactions, KIP-664).

    state: Kafka's word: `Empty`, `Ongoing`, `PrepareCommit`, `CompleteAbort`.
    producer_id: the present producer id.
    epoch: the present producer epoch.
    timeout_ms: the transaction timeout; -1: not known.
    started_ms: start of the open transaction, milliseconds since 1970; -1: none is open.
    partitions: partitions of the open transaction, as `topic-number`.
    """

    state: str
    producer_id: int
    epoch: int
    timeout_ms: int = -1
    started_ms: int = -1
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ActiveProducer:
    """A producer as the leader of a partition knows it (DescribeProducers, KIP-664).

    producer_id: its producer id.
    epoch: its producer epoch.
    last_sequence: sequence number of its last record; -1: none.
    last_timestamp_ms: timestamp of its last batch, milliseconds since 1970; -1: none.
    coordinator_epoch: coordinator epoch of its last marker; -1: there is none.
    first_offset: first offset of its open transaction on the partition; None: none is open.
    """

    producer_id: int
    epoch: int
    last_sequence: int = -1
    last_timestamp_ms: int = -1
    coordinator_epoch: int = -1
    first_offset: int | None = None


class Admin(Protocol):
    """The administrative requests that the harness makes of a cluster. Partitions are written ``topic-number`` (`orders-0`)."""

    @prepares
    def create_topics(self, topics: Mapping[str, TopicSpec]) -> None:
        """Create topics and wait until every partition has a leader. Raises ClusterError."""

    @looks
    def lagging(self, topics: Iterable[str]) -> dict[str, str]:
        """Partitions whose in-sync replicas are not all replicas: partition -> what is missing, in words."""

    @looks
    def end_offsets(self, partitions: Iterable[str], isolation: Isolation) -> dict[str, int]:
        """Last stable offset (read_committed) or high watermark (read_uncommitted) of each partition that answered."""

    @looks
    def log_start_offsets(self, partitions: Iterable[str]) -> dict[str, int]: ...

    @looks
    def group_offsets(self, group: str, partitions: Iterable[str]) -> dict[str, int | None]:
        """A group's committed offsets, without those of open transactions; None of partitions of which it has none. Raises
        ClusterError."""

    # The rest arranges the cluster anew, for faults. Each asks once, takes a few seconds at most, and raises ClusterError.

    @shows("leader", look=admin_aspects.leaders, restored=False, drifts=True)
    @shows("replicas", look=admin_aspects.replicas)
    @shows("order of replicas", look=admin_aspects.order_of_replicas, drifts=True)
    @looks
    def placements(self, partitions: Iterable[str] | None = None) -> dict[str, Placement]:
        """The placement of each of these partitions that exists (None: of all there are, Kafka's own too)."""

    @shows("service", look=admin_aspects.service, drifts=True)
    @looks
    def in_service(self) -> tuple[str, ...]:
        """Brokers that all brokers that answer have for a part of the cluster."""

    @shown_by("leader")
    @shown_by("replicas")
    @changes
    def reassign(self, replicas: Mapping[str, Sequence[str]]) -> None:
        """Begin to move partitions to these nodes, the preferred leader first; `placements` shows how far it is."""

    @shown_by("leader")
    @changes
    def elect(self, partitions: Iterable[str]) -> None:
        """Let the preferred replica of each lead, now."""

    @undone_by("start")
    @shown_by("service", becomes="out")
    @changes
    def unregister(self, node: str) -> None:
        """Strike a broker that is away off the cluster's list; it joins anew when it starts."""

    @shows("settings", Subjects.TOPICS)
    @looks
    def topic_settings(self, topic: str) -> dict[str, str]:
        """A topic's own settings, without what it inherits."""

    @shown_by("settings")
    @changes
    def set_topic_settings(self, topic: str, settings: Mapping[str, str | None]) -> None:
        """Change a topic's own settings; None takes one away."""

    @shows("level", state=admin_aspects.features)
    @looks
    def features(self) -> dict[str, dict[str, int]]:
        """Node -> the cluster's features (`transaction.version`) and their levels, as each broker that answers has them.

        A feature that a broker knows and the cluster does not use is at level 0.
        """

    @shown_by("level")
    @changes
    def set_feature(self, name: str, level: int) -> None:
        """Raise or lower a feature of the whole cluster (KIP-584); brokers learn of it one by one, as `features` shows."""

    @shown_by("id of topic")
    @changes
    def delete_topic(self, name: str) -> None:
        """Delete a topic; one that is not there is no error. Brokers learn of it one by one. Raises ClusterError."""

    @shows("id of topic", Subjects.TOPICS, state=admin_aspects.topic_id, restored=False)
    @looks
    def topic_ids(self, topic: str) -> dict[str, str]:
        """Node -> a topic's id (KIP-516) as each broker that answers has it; empty: of a broker that knows no such topic.

        Raises ClusterError when no broker answers, or none reports ids.
        """

    @prepares
    def create_placed_topic(self, topic: str, replicas: Sequence[Sequence[str]], settings: Mapping[str, str]) -> None:
        """Create a topic whose partitions, the first one first, are on these nodes, the preferred leader first.

        Does not wait for leaders. Raises ClusterError, also when the topic is there already.
        """

    @prepares
    def add_partitions(self, topic: str, count: int) -> None:
        """Give a topic more partitions, so many in all; they cannot be taken away again. Raises ClusterError."""

    # Administrative requests about transactions.

    @shows(
        "producer id and epoch",
        Subjects.TRANSACTIONAL_IDS,
        state=admin_aspects.producer_epoch,
        restored=False,
        drifts=True,
    )
    @looks
    def transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionState]:
        """The states of these ids at their coordinators, without unknown ids. Raises ClusterError."""

    @looks
    def producers(self, partitions: Iterable[str]) -> dict[str, tuple[ActiveProducer, ...]]:
        """The producers that each partition's leader remembers. Raises ClusterError."""

    @shown_by("producer id and epoch")
    @changes
    def fence_producer(self, transactional_id: str) -> tuple[int, int]:
        """Fence every producer with this id, as `Admin.fenceProducers` of the Java client; the new producer id and epoch.

        Its open transaction is aborted. Raises ClusterError; without an answer it is not known whether it happened.
        """

    @prepares
    def raise_epoch(self, transactional_id: str, epoch: int) -> None:
        """Fence again and again until the epoch is this one, or a later one; some milliseconds for each. Raises ClusterError."""

    @unobservable
    @changes
    def end_transaction(self, transactional_id: str, producer_id: int, epoch: int, commit: bool) -> None:
        """Commit or abort the open transaction of a producer, in its stead. Raises ClusterError, as above."""

    @unobservable
    @changes
    def abort_on_partition(self, partition: str, producer: ActiveProducer) -> None:
        """Write an abort marker into one partition, as `kafka-transactions.sh abort`; the coordinator does not learn of it."""


@dataclass(frozen=True, kw_only=True)
class TopicSpec:
    """A topic that a workload needs. Names of topics differ between the two Kafka clusters.

    partitions: number of partitions.
    replication: number of replicas of each partition.
    settings: topic settings, beneath the test's own.
    cluster: the Kafka cluster that has it; empty: the one that is judged, else `SECOND`.
    """

    partitions: int
    replication: int = 3
    settings: Mapping[str, str] = field(default_factory=dict)
    cluster: str = ""


class SecondCluster(Protocol):
    """The Kafka cluster beside the one that is judged: brokers that are nodes of the same test, and all of a cluster's own.

    `partitions_of` and `log` are those of `ReadingLogs`.

    brokers: node names, `s1`...
    controllers: node names; the brokers, unless controllers are separate.
    transactional_ids: transactional ids of its clients, for faults that aim at their coordinators.
    groups: consumer groups of its clients, likewise.
    """

    brokers: tuple[str, ...]
    controllers: tuple[str, ...]
    transactional_ids: tuple[str, ...]
    groups: tuple[str, ...]

    @property
    def topics(self) -> tuple[str, ...]: ...

    def note_clients(self, *, transactional_ids: Sequence[str], groups: Sequence[str]) -> None: ...
    def bootstrap(self) -> str: ...
    def admin(self) -> Admin: ...
    def roles(self) -> Roles: ...
    def partitions_of(self, topic: str) -> Sequence[str]: ...
    def log(self, partition: str) -> Sequence[LogRecord]: ...


def second_of(cluster: Any) -> SecondCluster | None:
    """The Kafka cluster beside the one that is judged; None: there is none."""
    second: SecondCluster | None = getattr(cluster, "second", None)
    return second


def services_of(cluster: Any) -> tuple[str, ...]:
    """The nodes of a cluster's declared outside services, whose links can be hurt; most clusters have none."""
    services: tuple[str, ...] = getattr(cluster, "services", ())
    return services


class Spawned(Protocol):
    """A client's process, wherever it runs: the part of `subprocess.Popen` that the harness uses."""

    @property
    def pid(self) -> int | None: ...
    @property
    def stdin(self) -> IO[bytes] | None: ...
    @property
    def stdout(self) -> IO[bytes] | None: ...
    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int:
        """Its exit status. Raises subprocess.TimeoutExpired."""

    def kill(self) -> None: ...


class Cluster(Protocol):
    """A running cluster. What can be done to it beyond this is in `Killable`, `Pausable`, `Partitionable`.

    It may also have `second`, a `SecondCluster` (None: this test has none), and `services`, the nodes of outside services
    that the test declares.

    brokers: node names, `n1`...
    controllers: node names; the brokers, unless controllers are separate (`k1`...).
    kafka_version: the version of Kafka that the brokers run.
    """

    brokers: tuple[str, ...]
    controllers: tuple[str, ...]
    kafka_version: str

    @property
    def clients(self) -> tuple[str, ...]:
        """Names of the client nodes spawned so far, `c0`..."""

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics of the workload (for faults that aim at a partition's leader), as `topic-number`."""

    @property
    def transactional_ids(self) -> tuple[str, ...]: ...

    @property
    def groups(self) -> tuple[str, ...]: ...

    def note_clients(self, *, transactional_ids: Sequence[str], groups: Sequence[str]) -> None:
        """Note the transactional ids and groups of the workload, for faults that aim at their coordinators."""

    def note_instances(
        self,
        states: Mapping[str, bool],
        settings: Mapping[str, Mapping[str, str]] | None = None,
        transactional_ids: Mapping[str, str] | None = None,
    ) -> None:
        """Note the client nodes that are instances of a program or members of a group (True: it is to run), what can be set of
        them, and the transactional ids of all clients (`Scalable`)."""

    def bootstrap(self) -> str:
        """Bootstrap servers for clients."""

    def connection(self) -> Mapping[str, Any]:
        """Client settings without which no client can connect (TLS, SASL), beneath the test's own; secrets are references.

        A client of your own takes `harness.secrets.resolve(cluster.connection())`.
        """

    def admin(self) -> Admin: ...
    def roles(self) -> Roles: ...

    def spawn(self, client: str, argv: Sequence[str], *, reads: Sequence[str] = (), **popen: Any) -> Spawned:
        """Start a client's process at its own node (`local`: in its own network namespace; `docker`: in its own container).

        The process and all that it starts are one node: killed and frozen together. reads: directories that it needs to see
        beside the system's own and what was imported here. `popen` are `stdin`, `stdout`, `stderr` and `env` as
        `subprocess.Popen` takes them. Called from several threads.
        """

    def unavailable(self, capability: type) -> str | None:
        """The reason why a capability cannot be used here, or None when it can."""

    def heal(self) -> None:
        """Undo every fault of every kind, from whichever caller, and wait until every broker answers. Idempotent."""


@runtime_checkable
class JudgesSettings(Protocol):
    """A provider that knows which settings its brokers and topics have."""

    def judged_settings(self, topic: Mapping[str, str]) -> tuple[list[tuple[str, str, str]], str]:
        """Mistakes in its own `settings` and `features`, and with the settings of the topics, before anything starts.

        Triples of a table (`settings`, `features`: of the cluster; `topic`), a name and a sentence; and the reason why they
        cannot be judged now, empty when they can.
        """


@runtime_checkable
class Obtains(Protocol):
    """A provider that fetches what its clusters need."""

    def obtain(self, on_progress: Callable[[str], None]) -> None:
        """Fetch it, unless it is there. Raises CampaignError (there is no such version) and ClusterError."""


StoredRow = Sequence[Any]
"""A stored record: partition, offset, leader epoch, producer id, producer epoch, sequence, timestamp, kind, value's head.

After them may come the optional columns of `harness.api.history.STORED`, in their order; a state as the list of its fields.
"""


@runtime_checkable
class Storing(Protocol):
    """A running cluster whose nodes' logs can be read where they lie."""

    def stored_records(self, node: str) -> tuple[Sequence[StoredRow], str]:
        """Every record in a broker's log segments (`harness.api.history.STORED`); and why there are none, if so.

        Raises ClusterError.
        """


@runtime_checkable
class RunningImages(Protocol):
    """A running cluster that can run an image of the user at a client node, beside the worker there; both are one node."""

    def run_image(
        self, client: str, image: str, argv: Sequence[str], environment: Mapping[str, str], log: Path, directory: Path
    ) -> Spawned:
        """Start it, in the place of the one that runs there. argv: empty: what the image runs by itself.

        Its output is appended to `log`; it may write to `directory`. Raises ClusterError.
        """

    def signal_image(self, client: str, signal: str) -> None:
        """Send a signal to it; nothing when it has ended."""


class ClusterProvider(Protocol):
    """Plug-in `fencepost.cluster`: a frozen dataclass whose fields are the options of `[test.cluster]`.

    What it may have beyond this is in `harness.api.optional`, and in `JudgesSettings` and `Obtains`.
    """

    def sandbox(self, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` inside the cluster's sandbox (`argv` itself when there is none)."""

    def missing(self) -> dict[type, str]:
        """Capabilities that this machine cannot offer, each with the reason and the remedy. Asked before the start."""

    def describe(self) -> dict[str, Any]:
        """The description in the plan: versions, jar checksums, effective settings of every broker."""

    def up(self, run_dir: Path, topics: Mapping[str, TopicSpec]) -> AbstractContextManager[Cluster]:
        """Start the cluster (inside its sandbox), create the topics, yield it ready, and take it down."""
