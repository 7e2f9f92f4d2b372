"""The vocabulary: what every room of fencepost knows, and nothing else.

This module imports nothing of ours (the words of a check are looked up on first use). It holds the values that travel between
rooms (tests, operations, receipts, findings, verdicts) and the contracts of the four kinds of plug-in: cluster, workload, fault
(nemesis) and checker. Words are those of Jepsen (op, process, history, nemesis), Adya (anomalies) and KIP-98 (transactional id,
coordinator, last stable offset).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from importlib import import_module
from pathlib import Path
from random import Random
from typing import IO, TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

if TYPE_CHECKING:
    from checkers.anomaly import Check as Check
    from checkers.anomaly import Suspects as Suspects
    from checkers.anomaly import partition_check as partition_check
    from checkers.anomaly import run_check as run_check
    from checkers.log import PartitionLog as PartitionLog
    from checkers.world import World as World

HISTORY_VERSION = 1
VERDICT_SCHEMA = 1
PLAN_SCHEMA = 1


# --------------------------------------------------------------------------------------------------
# Errors: what *we* broke. Findings and outcomes are values and never exceptions.
#
#   HarnessError
#   ├── CampaignError      a campaign, option or plug-in that cannot be used (exit 254)
#   ├── ClusterError       a cluster that did not start, or cannot be reached
#   │   └── OverBudget     a fault that would hurt more nodes than the test allows
#   ├── HistoryError       a history that cannot be read at all
#   └── Interrupted        the person asked us to stop
# --------------------------------------------------------------------------------------------------
class HarnessError(Exception):
    """Something of ours broke. The text says what was tried, what came, and what to do."""


class CampaignError(HarnessError):
    """Bad input: every mistake found, one per line, each with file, key and remedy."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        self.mistakes = list(mistakes)
        super().__init__("\n".join(self.mistakes))


class ClusterError(HarnessError):
    """A cluster could not be started, reached or changed."""


class OverBudget(ClusterError):
    """A fault would hurt more nodes at a time than the test allows."""


class HistoryError(HarnessError):
    """A history could not be read at all."""


class Interrupted(HarnessError):
    """The person pressed Ctrl-C; what there is should still be judged."""


class Exit(IntEnum):
    """Exit codes of the command (as Jepsen's)."""

    VALID = 0
    INVALID = 1
    UNKNOWN = 2
    BAD_CAMPAIGN = 254
    HARNESS_BROKE = 255


# --------------------------------------------------------------------------------------------------
# Operations
# --------------------------------------------------------------------------------------------------
class Outcome(str, Enum):
    """What is known of an operation. ok: it happened; fail: it surely did not; info: unknown."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Isolation(str, Enum):
    """A reader's isolation level, in Kafka's words."""

    COMMITTED = "read_committed"
    UNCOMMITTED = "read_uncommitted"


# A record's identity packs (process, op, seq) into 53 bits, so that it survives JSON readers that use doubles.
_OP_BITS, _SEQ_BITS = 27, 12
MAX_PROCESS, MAX_OP, MAX_SEQ = (1 << 14) - 1, (1 << _OP_BITS) - 1, (1 << _SEQ_BITS) - 1


def record_id(process: int, op: int, seq: int) -> int:
    """The identity ``v`` of the ``seq``-th record sent by operation ``op`` of ``process``; unique in a run."""
    if not (0 <= process <= MAX_PROCESS and 0 <= op <= MAX_OP and 0 <= seq <= MAX_SEQ):
        raise ValueError(f"record identity out of range: process {process}, op {op}, seq {seq}")
    return (process << (_OP_BITS + _SEQ_BITS)) | (op << _SEQ_BITS) | seq


def split_record_id(v: int) -> tuple[int, int, int]:
    """The (process, op, seq) that ``record_id`` packed into ``v``."""
    return v >> (_OP_BITS + _SEQ_BITS), (v >> _SEQ_BITS) & MAX_OP, v & MAX_SEQ


# --------------------------------------------------------------------------------------------------
# A test: one frozen point of a campaign's matrix
# --------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Choice:
    """A plug-in by name and the options given for it (`kind = "pause"`, `count = 2`)."""

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FaultChoice:
    """One `[[nemesis]]` of a test: a fault, how often it strikes and how long it lasts.

    Faults of one lane never overlap; every lane has its own timeline. ``every_s`` is the pause between
    two faults of the lane, ``lasts_s`` how long each lasts, both (low, high) in seconds. Choices of a lane with the same
    ``together`` strike at the same moment. ``when`` is empty, or a condition that a strike waits for (see `WHEN`).
    """

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    every_s: tuple[float, float] = (3.0, 6.0)
    lasts_s: tuple[float, float] = (3.0, 6.0)
    lane: str = "main"
    together: str = ""
    when: str = ""


WHEN = ("transaction-open",)  # some client is inside a transaction


@dataclass(frozen=True, kw_only=True)
class Lane:
    """How the faults of one lane follow each other (`[test.lanes.NAME]`).

    ``order``: `random`, each time any of them, all alike; `in turn`, as they are written, again and again. With ``busy_s`` and
    ``quiet_s`` ((low, high) in seconds) the lane strikes for so long, and then is quiet for so long, by turns.
    """

    order: str = "random"
    busy_s: tuple[float, float] | None = None
    quiet_s: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How many servers all faults together may hurt at a time (`[test.budget]`).

    ``nodes``: so many brokers and controllers. ``keep_quorum``: fewer than half of the brokers, and of the controllers. What
    is said here holds for single faults too. Where nothing is said, several faults together must keep the quorum, while a
    single one, when no other is on, may hurt what it asks for.
    """

    nodes: int | None = None
    keep_quorum: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Test:
    """Everything that decides one run, except the seed's draws. Made by `harness.campaign`."""

    __test__: ClassVar[bool] = False  # not a pytest class

    name: str
    cluster: Choice = field(default_factory=lambda: Choice(kind="auto"))
    workload: Choice = field(default_factory=lambda: Choice(kind="transactions"))
    nemesis: tuple[FaultChoice, ...] = ()
    lanes: Mapping[str, Lane] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    client: str = "librdkafka"
    producer: Mapping[str, Any] = field(default_factory=dict)  # any client setting
    consumer: Mapping[str, Any] = field(default_factory=dict)
    topic: Mapping[str, Any] = field(default_factory=dict)  # any topic setting
    contract: Mapping[str, str] = field(default_factory=dict)  # overrides what the settings promise
    expect: tuple[str, ...] = ("valid",)  # "valid", or the anomalies that must be found
    checkers: tuple[str, ...] = ()  # import paths of checks that are asked beside the installed ones
    tolerate: tuple[str, ...] = ()  # forbidden anomalies that may come along with the expected ones
    time_s: float = 60.0
    rate: float = 0.0  # operations per second over all writers; 0: as fast as the client goes
    seed: int | None = None
    repeat: int = 1
    campaign: str = ""


@dataclass(frozen=True, kw_only=True)
class Injection:
    """One planned fault: when (seconds after the workload starts), what, and for how long."""

    id: int
    at_s: float
    lasts_s: float
    kind: str
    options: Mapping[str, Any]
    lane: str
    seed: int
    when: str = ""


# --------------------------------------------------------------------------------------------------
# Clusters
# --------------------------------------------------------------------------------------------------
Pair = tuple[str, str]  # (source node, destination node): packets from source are dropped on arrival at destination


class Roles(Protocol):
    """Who plays which role right now; asked at the moment of a fault. Each returns a broker's or controller's node name.

    All raise `ClusterError` when nobody answers or nobody plays the role.
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
    """Where a partition is: nodes, the preferred leader first. ``leader`` is empty when there is none."""

    leader: str
    replicas: tuple[str, ...]
    in_sync: tuple[str, ...]


class Admin(Protocol):
    """What the harness asks of a cluster. Partitions are written ``topic-number`` (`orders-0`)."""

    def create_topics(self, topics: Mapping[str, TopicSpec]) -> None:
        """Create topics and wait until every partition has a leader. Raises ClusterError."""

    def lagging(self, topics: Iterable[str]) -> dict[str, str]:
        """Partitions whose in-sync replicas are not all replicas: partition -> what is missing, in words."""

    def end_offsets(self, partitions: Iterable[str], isolation: Isolation) -> dict[str, int]:
        """Last stable offset (read_committed) or high watermark (read_uncommitted) of each partition that answered."""

    def log_start_offsets(self, partitions: Iterable[str]) -> dict[str, int]: ...

    # The rest arranges the cluster anew, for faults. Each asks once, takes a few seconds at most, and raises ClusterError.

    def placements(self, partitions: Iterable[str] | None = None) -> dict[str, Placement]:
        """Where each of these partitions is (None: of all there are, Kafka's own too); one that does not exist is left out."""

    def in_service(self) -> tuple[str, ...]:
        """Brokers that all brokers that answer have for a part of the cluster."""

    def reassign(self, replicas: Mapping[str, Sequence[str]]) -> None:
        """Begin to move partitions to these nodes, the preferred leader first; `placements` shows how far it is."""

    def elect(self, partitions: Iterable[str]) -> None:
        """Let the preferred replica of each lead, now."""

    def unregister(self, node: str) -> None:
        """Strike a broker that is away off the cluster's list; it joins anew when it starts."""

    def topic_settings(self, topic: str) -> dict[str, str]:
        """A topic's own settings, without what it inherits."""

    def set_topic_settings(self, topic: str, settings: Mapping[str, str | None]) -> None:
        """Change a topic's own settings; None takes one away."""


@dataclass(frozen=True, kw_only=True)
class TopicSpec:
    """A topic that a workload needs; ``settings`` are topic settings, laid over by the test's own."""

    partitions: int
    replication: int = 3
    settings: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class Skewable(Protocol):
    """Nodes whose wall clocks can be set."""

    def skew(self, node: str, ahead_s: float) -> None:
        """Set a broker's wall clock so many seconds ahead of ours (behind, if negative); 0 sets it right."""

    def clock_ahead(self, node: str) -> float | None:
        """How many seconds a broker's wall clock is ahead of ours, by its own word; None when it does not answer."""


Took = list[float | None]  # milliseconds that each of some packets took, in sending order; None: it has not arrived


@runtime_checkable
class Killable(Protocol):
    """Nodes that can be killed (SIGKILL) and started again."""

    def kill(self, node: str) -> None: ...
    def start(self, node: str) -> None:
        """Start a dead node; nothing if it runs. A client node is replaced by the harness instead, so nothing here."""

    def pid(self, node: str) -> int | None:
        """The node's process id while it lives, else None."""

    def answers(self, node: str) -> bool:
        """Whether a broker answers a Kafka request right now (a client: whether it lives)."""


@runtime_checkable
class Powered(Killable, Protocol):
    """Nodes that can lose what they had not fsynced, as when their power fails."""

    def lose_unsynced(self, node: str) -> dict[str, tuple[int, int]]:
        """Throw away what a dead broker had written and not fsynced.

        Partitions that lost something: (the offset it ends at now, the one it ended at). Raises ClusterError when it is alive.
        """


@runtime_checkable
class Fillable(Killable, Protocol):
    """Nodes whose disks can be filled."""

    def fill_disk(self, node: str) -> None:
        """Take all room that is left on the disk of the node's data."""

    def clear_disk(self, node: str) -> None:
        """Give back what `fill_disk` took; nothing if it took nothing."""

    def disk_free(self, node: str) -> int:
        """Bytes that are free there."""

    def disk_complaint(self, node: str) -> str:
        """The first line since `fill_disk` in which the node's log says that there is no room; empty when there is none."""


@runtime_checkable
class Stoppable(Protocol):
    """Nodes that can be stopped politely (SIGTERM) and started again: a broker hands its partitions over before it ends."""

    def stop(self, node: str) -> None:
        """Ask a node to end, and return at once; nothing if it is dead. A frozen one begins when it thaws."""

    def status(self, node: str) -> int | None:
        """The exit status of a node that ended (a JVM that SIGTERM ended: 143), None while it lives."""

    def farewell(self, node: str) -> str:
        """The line of its log in which the controller let the broker go, when it was last stopped; empty if there is none."""

    def start(self, node: str) -> None:
        """As in `Killable`; so are `pid` and `answers`."""

    def pid(self, node: str) -> int | None: ...
    def answers(self, node: str) -> bool: ...


@runtime_checkable
class Upgradable(Protocol):
    """Nodes whose version of Kafka can be changed while they are down."""

    def version(self, node: str) -> str:
        """The version that the node's next start runs; the one it runs already, unless `use_version` came after its start."""

    def use_version(self, node: str, version: str) -> None:
        """From its next start on the node runs `version`. Raises ClusterError unless the cluster's options name it."""


@runtime_checkable
class Wipeable(Protocol):
    """Brokers whose data can be removed while they are down, as if they had got a new disk."""

    def wipe(self, node: str) -> None:
        """Remove all that a dead broker holds. Raises ClusterError while it lives, or when it votes in the quorum."""


@runtime_checkable
class Pausable(Protocol):
    """Nodes that can be frozen (SIGSTOP) and thawed (SIGCONT)."""

    def pause(self, node: str) -> None: ...
    def resume(self, node: str) -> None: ...
    def process_state(self, node: str) -> str:
        """The kernel's letter for the process (R, S, D, T, Z; empty: gone). T is frozen."""


@runtime_checkable
class Partitionable(Protocol):
    """Nodes whose network can be cut, pair by pair and direction by direction."""

    def drop(self, pairs: Iterable[Pair]) -> None:
        """From now on drop every packet of each pair (adds to what is dropped already)."""

    def undrop(self, pairs: Iterable[Pair]) -> None:
        """Let these pairs talk again; a pair that is not dropped is left alone."""

    def probe(self, pairs: Iterable[Pair]) -> dict[Pair, bool]:
        """Send one datagram per pair; whether it arrived."""

    def dropped_packets(self, pairs: Iterable[Pair]) -> dict[Pair, int]:
        """How many packets were dropped for each pair since `drop`."""


class Measurable(Protocol):
    """Links whose quality can be measured, pair by pair and direction by direction."""

    def measure(self, pairs: Iterable[Pair], packets: int, size: int = 64, within_s: float = 1.0) -> dict[Pair, Took]:
        """Send `packets` datagrams of `size` bytes per pair, all at once, and wait for them for at most `within_s` seconds."""


@runtime_checkable
class Losable(Measurable, Protocol):
    """Links that can be made to lose packets at random."""

    def lose(self, pairs: Iterable[Pair], share: float) -> int:
        """From now on lose this share (0 to 1) of each pair's packets, beside what is lost already; a number for `unlose`."""

    def unlose(self, number: int) -> dict[Pair, tuple[int, int]]:
        """End what `lose` began; packets (seen, lost) of each pair meanwhile. Nothing for what has ended already."""


@runtime_checkable
class Slowable(Measurable, Protocol):
    """Links that can be made slow and narrow."""

    def slow(self, pairs: Iterable[Pair], delay_ms: float = 0.0, jitter_ms: float = 0.0, kbit_s: float = 0.0) -> int:
        """From now on hold each pair's packets back, beside what holds them back already; a number for `unslow`.

        Each packet waits until those before it have been sent at `kbit_s` (0: any rate), and then `delay_ms` plus or minus up to
        `jitter_ms`. Packets keep their order. A narrow link has room for half a second; what comes then is dropped.
        """

    def unslow(self, number: int) -> dict[Pair, tuple[int, int]]:
        """End what `slow` began; packets (seen, dropped for want of room) of each pair. Nothing for what has ended already."""


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
    """A running cluster. What can be done to it beyond this is in `Killable`, `Pausable`, `Partitionable`."""

    brokers: tuple[str, ...]  # node names, `n1`...
    controllers: tuple[str, ...]  # the same nodes, unless controllers are separate (`k1`...)
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
        """Tell which ids and groups the workload uses, for faults that aim at their coordinators."""

    def bootstrap(self) -> str:
        """Bootstrap servers for clients."""

    def connection(self) -> Mapping[str, Any]:
        """Client settings without which nobody can connect (TLS, SASL), beneath the test's own; secrets are references.

        A client of your own takes `harness.secrets.resolve(cluster.connection())`.
        """

    def admin(self) -> Admin: ...
    def roles(self) -> Roles: ...

    def spawn(self, client: str, argv: Sequence[str], **popen: Any) -> Spawned:
        """Start a client's process at its own node (`local`: in its own network namespace; `docker`: in its own container).

        `popen` are `stdin`, `stdout`, `stderr` and `env` as `subprocess.Popen` takes them. Called from several threads.
        """

    def unavailable(self, capability: type) -> str | None:
        """Why a capability cannot be used here, or None when it can."""

    def heal(self) -> None:
        """Undo every fault of every kind, whoever made it, and wait until every broker answers. Idempotent."""


class ClusterProvider(Protocol):
    """Plug-in `fencepost.cluster`: a frozen dataclass whose fields are the options of `[test.cluster]`.

    It may also have: `prefix`, with which topics, groups and transactional ids of a run then begin (the run's id follows);
    `default_nemesis`, the faults of `fencepost run` when none is named; and, as a running cluster may, `only_clients`: why faults
    can only hurt clients here.
    """

    def sandbox(self, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` inside the cluster's sandbox (`argv` itself when there is none)."""

    def missing(self) -> dict[type, str]:
        """Capabilities that this machine cannot offer, each with the reason and the remedy. Asked before the start."""

    def describe(self) -> dict[str, Any]:
        """Everything worth keeping in the plan: versions, jar checksums, effective settings of every broker."""

    def up(self, run_dir: Path, topics: Mapping[str, TopicSpec]) -> AbstractContextManager[Cluster]:
        """Start the cluster (inside its sandbox), create the topics, yield it ready, and take it down."""


# --------------------------------------------------------------------------------------------------
# Workloads and their clients
# --------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Role:
    """What the process of one slot is: a `writer` (producer and consumer), a `reader` or a `final` reader (consumer only)."""

    name: str
    isolation: Isolation = Isolation.COMMITTED
    transactional: bool = False


@dataclass(frozen=True, kw_only=True)
class Planned:
    """An operation that a generator asks for.

    ``mops`` are `("send", partition)` and `("poll",)` in order; ``think_s`` is slept before each of them and before the
    decision; ``intent`` is `commit` or `abort` for transactions.
    """

    f: str
    mops: Sequence[tuple[str, ...]]
    intent: str | None = None
    think_s: float = 0.0


@dataclass
class Operation:
    """An operation under way. ``value`` grows from its planned to its done form, micro-operation by micro-operation.

    Both forms are those of docs/history.md; ``planned.mops`` and ``value`` run in parallel.
    """

    process: int
    number: int
    planned: Planned
    value: list[list[Any]]
    errors: list[dict[str, Any]] = field(default_factory=list)
    decided: int | None = None  # when commit was first called, CLOCK_MONOTONIC ns
    renew: bool = False  # the producer cannot be used any more: go on as a new process

    @classmethod
    def of(cls, process: int, number: int, planned: Planned) -> Operation:
        """An operation about to be made: every planned record gets its identity, so that the invoke line already names it."""
        value = [
            ["send", mop[1], record_id(process, number, seq)] if mop[0] == "send" else ["poll"]
            for seq, mop in enumerate(planned.mops)
        ]
        return cls(process, number, planned, value)


class CallError(Exception):
    """A client call that failed: which call, and what the client said.

    ``name`` is the client's name of the error (`_TIMED_OUT`, `PRODUCER_FENCED`), ``code`` its number.
    """

    def __init__(
        self, call: str, name: str, code: int, text: str, *, fatal: bool = False, retriable: bool = False, abortable: bool = False
    ) -> None:
        super().__init__(f"{call}: {name}: {text}")
        self.call, self.name, self.code, self.text = call, name, code, text
        self.fatal, self.retriable, self.abortable = fatal, retriable, abortable


@dataclass(frozen=True)
class Polled:
    """One record as a consumer returned it."""

    partition: str
    offset: int
    value: bytes


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """All that a client needs to be opened. Without ``producer`` there is none; likewise ``consumer``."""

    name: str
    bootstrap: str
    partitions: tuple[str, ...]  # assigned to the consumer, from the log's start
    transactional_id: str | None = None
    producer: Mapping[str, Any] | None = field(default=None, repr=False)  # these hold secrets
    consumer: Mapping[str, Any] | None = field(default=None, repr=False)


class Client(Protocol):
    """Plug-in `fencepost.client`: one producer and one consumer. Every call may raise `CallError`."""

    version: ClassVar[str]

    def __init__(self, settings: ClientSettings) -> None: ...
    def open(self, timeout_s: float) -> None: ...
    def begin(self) -> None: ...
    def send(self, partition: str, key: bytes, value: bytes, done: Callable[[int | None, CallError | None], None]) -> None:
        """Hand one record over; `done(offset, error)` is called once, from within a later call."""

    def flush(self, timeout_s: float) -> None: ...
    def commit(self, timeout_s: float) -> None: ...
    def abort(self, timeout_s: float) -> None: ...
    def poll(self, timeout_s: float, limit: int = 1000) -> list[Polled]: ...
    def ends(self) -> Mapping[str, int]:
        """Partitions that the consumer has read to their end, with the offset it stood at."""

    def close(self) -> None:
        """Let go of everything at once; never waits for a broker."""


class Workload(Protocol):
    """Plug-in `fencepost.workload`: a frozen dataclass whose fields are the options of `[test.workload]`."""

    def topics(self) -> dict[str, TopicSpec]: ...
    def roles(self) -> tuple[Role, ...]:
        """One role per slot."""

    def producer_settings(self) -> Mapping[str, Any]:
        """Producer settings the workload stands for (the test's own are laid over them)."""

    def operations(self, role: Role, partitions: Sequence[str], rng: Random) -> Iterator[Planned]:
        """What comes next, for whom: pure, endless, decided by `rng` alone."""

    def perform(self, op: Operation, client: Client, run: str) -> Outcome:
        """Make it happen; fill in `op`; raise nothing for what a cluster may do."""


# --------------------------------------------------------------------------------------------------
# Faults
# --------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What a fault really did. Times are CLOCK_MONOTONIC nanoseconds; evidence is plain JSON.

    ``effective`` is None until it is known, False when the evidence shows that nothing was hurt; then ``note``
    says why. A fault without effect weakens the verdict.
    """

    id: int = -1
    kind: str = ""
    role: str = ""  # the target as asked: "leader:orders-0", "controller"
    targets: tuple[str, ...] = ()  # the nodes it turned out to be
    pairs: tuple[Pair, ...] = ()  # for partitions
    planned_ns: int = 0
    injected_ns: int = 0  # when the fault had taken hold
    healed_ns: int = 0
    evidence: Mapping[str, Any] = field(default_factory=dict)  # before, during
    healing: Mapping[str, Any] = field(default_factory=dict)  # after
    reach: Mapping[str, Any] = field(default_factory=dict)  # the harness's own probes of all pairs: docs/history.md
    effective: bool | None = None
    note: str = ""


class Fault(Protocol):
    """Plug-in `fencepost.nemesis`: a frozen dataclass whose fields are its options."""

    needs: ClassVar[tuple[type, ...]]  # capabilities, e.g. (Killable,)

    def inject(self, cluster: Any, rng: Random) -> Receipt:
        """Hurt the cluster; return what was hurt, with evidence that it took hold."""

    def heal(self, cluster: Any, receipt: Receipt) -> Receipt:
        """Undo what `receipt` says was done, and add the evidence. Idempotent; leaves the cluster whole."""


# --------------------------------------------------------------------------------------------------
# Findings and verdicts
# --------------------------------------------------------------------------------------------------
class Property(str, Enum):
    """The answer for one anomaly."""

    VIOLATED = "violated"
    HELD = "held"
    NOT_EXERCISED = "not exercised"
    UNKNOWN = "unknown"


class Verdict(str, Enum):
    """The answer for one run."""

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"


# --------------------------------------------------------------------------------------------------
# Checks
# --------------------------------------------------------------------------------------------------
# Plug-in `fencepost.checker`: a function over one partition (`PartitionLog`, numpy) or over a whole run (`World`, Spark) that
# returns `Suspects`, decorated with `partition_check` or `run_check`. They bring numpy and Spark along, which nobody needs who
# only performs a test; so they live with the checks, and come from there when they are asked for.
_OF_CHECKS = {
    "Check": "checkers.anomaly",
    "Suspects": "checkers.anomaly",
    "partition_check": "checkers.anomaly",
    "run_check": "checkers.anomaly",
    "PartitionLog": "checkers.log",
    "World": "checkers.world",
}


def __getattr__(name: str) -> Any:
    if name in _OF_CHECKS:
        return getattr(import_module(_OF_CHECKS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
