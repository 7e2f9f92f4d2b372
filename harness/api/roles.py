"""Roles: the processes of a workload, a type per kind, and the programs and workers that instances run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from fencepost.harness.api.connect import ConnectWorker
from fencepost.harness.api.values import Isolation

ONLY_READ = ("reader", "final", "instance", "conductor")
"""Names of roles without a producer of the harness."""
OWN_GROUP = "FENCEPOST_GROUP"
"""The `group` of a program that takes its consumer group from the environment variable of this name."""
STORE_OFFSETS = "the store"
"""In the place of a group, where a sink's store has the offsets."""


@dataclass(frozen=True, kw_only=True)
class Store:
    """The store of a sink, outside of Kafka. Both commands find it as the sink's instances do, by their environment.

    items: command line that lists what is stored, an item a line, in the order of the store.
    positions: command line that lists the store's own offsets, the next ones to be read, `TOPIC PARTITION OFFSET` a line; empty:
        it has none.
    bound_s: seconds that a listing may take.
    """

    items: tuple[str, ...]
    positions: tuple[str, ...] = ()
    bound_s: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program of the user between two topics of a workload, or a topic and a store. Its instances are the processes of a role.

    command: its command line; may be empty where there is an image.
    input: the input topic, by its name in the workload.
    output: the output topic, likewise; of a sink the name of its store.
    image: of a container in which it runs, on a cluster in Docker.
    group: its consumer group; `OWN_GROUP`: the one that its environment names; empty: not known.
    outputs: number of records that it makes of an input, (fewest, most).
    ordered: it keeps the order of inputs of one key.
    counts: its outputs have the number of inputs of their key that it has counted.
    keys: number of keys that the inputs of one writer in one partition share.
    stores: names of its state stores; their copies and changelogs (`changelog_of`) are recorded at the end.
    transaction_timeout_s: seconds for which a transaction of it may stay open after its end.
    quiet_s: seconds without an output after which it is taken for done, where its group does not say.
    drain_s: seconds that it may take to process the rest of its input.
    store: the store of a sink, which takes the place of the output topic; None: it writes to a topic.
    fed: writers of the run fill its input; else that is the output of another program of the run.
    wire: what it sends and reads is taken from the requests that proxies recorded, and judged too (docs/wire.md).
    """

    command: tuple[str, ...]
    input: str
    output: str
    image: str = ""
    group: str = OWN_GROUP
    outputs: tuple[int, int] = (1, 1)
    ordered: bool = False
    counts: bool = False
    keys: int = 1
    stores: tuple[str, ...] = ()
    transaction_timeout_s: float = 60.0
    quiet_s: float = 60.0
    drain_s: float = 180.0
    store: Store | None = None
    fed: bool = True
    wire: bool = False


def own_group(prefix: str) -> str:
    """The group that the environment of a program's instances names, in a run with this prefix."""
    return f"{prefix}application"


def changelog_of(group: str, store: str) -> str:
    """The topic of a state store: as Kafka Streams names it, or after a `=` in the store's name."""
    name, _, topic = store.partition("=")
    return topic or f"{group}-{name}-changelog"


class Role:
    """The process of one slot. Its kinds: Writer, Member, Reader, FinalReader, ProgramInstance, ConnectInstance, Conductor.

    The attributes hold for roles of every kind. A kind declares those that apply to it as fields; the others have their values
    of this class.

    name: name of the kind, in histories and messages.
    cluster: the Kafka cluster to which its clients connect; empty: the one that is judged, else `SECOND`.
    isolation: isolation level of its consumer.
    topics: topics that its consumer reads; empty: every topic of the workload.
    polls: whether it has a consumer.
    transactional: whether its producer has a transactional id.
    producers: number of producers in the process, each with a transactional id of its own (`Operation.producers`).
    new_ids: whether each process has a transactional id of its own, against Kafka's advice.
    rivals: whether its operations may open rivals (`Operation.rivals`).
    operator: whether its operations may use actions from outside (`Operation.operator`).
    group: consumer group of its consumer, which subscribes to its topics; empty: it is assigned their partitions.
    joins: whether it joins its group; else it only asks for the group's offsets.
    static: whether it is a static member of its group (KIP-345).
    needs: further capabilities that its client must have (`CAPABILITIES`).
    spare: whether only the fault `scale` starts it.
    program: the program that an instance is, or as which it is judged; of a final reader the sink whose store it lists.
    connect: the workers of Connect: the one that an instance is, or those that a conductor asks.
    conducts: whether its client is one of Connect's REST interface (`ConnectClient`), and none of Kafka.
    rest: addresses of workers of Connect that run already.
    """

    name: ClassVar[str]
    cluster: str = ""
    isolation: Isolation = Isolation.COMMITTED
    topics: tuple[str, ...] = ()
    polls: bool = False
    transactional: bool = False
    producers: int = 1
    new_ids: bool = False
    rivals: bool = False
    operator: bool = False
    group: str = ""
    joins: bool = True
    static: bool = False
    needs: tuple[str, ...] = ()
    spare: bool = False
    program: Program | None = None
    connect: ConnectWorker | None = None
    conducts: bool = False
    rest: tuple[str, ...] = ()

    @property
    def runs(self) -> Program | ConnectWorker | None:
        """The thing that an instance runs; None of a role with clients of the harness."""
        return None

    @property
    def worker(self) -> ConnectWorker | None:
        """The worker of Connect that an instance is."""
        return None


@dataclass(frozen=True, kw_only=True)
class Writer(Role):
    """A process with a producer and, if it polls, a consumer that is assigned partitions."""

    name: ClassVar[str] = "writer"
    transactional: bool = False
    polls: bool = True
    isolation: Isolation = Isolation.COMMITTED
    topics: tuple[str, ...] = ()
    producers: int = 1
    new_ids: bool = False
    rivals: bool = False
    operator: bool = False
    needs: tuple[str, ...] = ()
    cluster: str = ""


@dataclass(frozen=True, kw_only=True)
class Member(Role):
    """A process with a transactional producer, and a consumer that is a member of a group: consume, transform, produce."""

    name: ClassVar[str] = "member"
    polls = True
    transactional = True
    group: str = field()
    topics: tuple[str, ...] = ()
    isolation: Isolation = Isolation.COMMITTED
    static: bool = False
    producers: int = 1
    new_ids: bool = False
    needs: tuple[str, ...] = ()
    spare: bool = False
    cluster: str = ""


@dataclass(frozen=True, kw_only=True)
class Reader(Role):
    """A process with a consumer alone. With a group that it does not join, it only asks for the group's offsets."""

    name: ClassVar[str] = "reader"
    polls = True
    isolation: Isolation = Isolation.COMMITTED
    topics: tuple[str, ...] = ()
    group: str = ""
    joins: bool = True
    needs: tuple[str, ...] = ()
    cluster: str = ""


@dataclass(frozen=True, kw_only=True)
class FinalReader(Role):
    """A reader of the final phase, which the harness adds: it reads every partition of its cluster from its start to its end, or
    lists the store of a sink."""

    name: ClassVar[str] = "final"
    polls = True
    isolation: Isolation = Isolation.COMMITTED
    cluster: str = ""
    program: Program | None = None


@dataclass(frozen=True, kw_only=True)
class ProgramInstance(Role):
    """An instance of a program of the user."""

    name: ClassVar[str] = "instance"
    program: Program = field()
    spare: bool = False

    @property
    def runs(self) -> Program:
        return self.program


@dataclass(frozen=True, kw_only=True)
class ConnectInstance(Role):
    """A worker of Connect. With a program, it is judged as that program too: a copy of an input topic."""

    name: ClassVar[str] = "instance"
    connect: ConnectWorker = field()
    program: Program | None = None
    cluster: str = ""

    @property
    def runs(self) -> ConnectWorker:
        return self.connect

    @property
    def worker(self) -> ConnectWorker:
        return self.connect


@dataclass(frozen=True, kw_only=True)
class Conductor(Role):
    """A process that directs workers of Connect by their REST interface.

    connect: the declaration of the workers.
    rest: addresses of workers that run already; empty: the workers are instances of this run.
    """

    name: ClassVar[str] = "conductor"
    conducts = True
    connect: ConnectWorker = field()
    rest: tuple[str, ...] = ()
