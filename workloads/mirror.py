"""MirrorMaker 2 as a program between two topics: Connect's MirrorSource copies one to the other, exactly once (KIP-618, KIP-656).

Source and target are one cluster, under two aliases, or two clusters. The copies keep the headers of the input records, so that
each names its input; they are judged as the outputs of a program of somebody's own are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random
from typing import Annotated, Any, ClassVar, Literal

from fencepost.harness.api import (
    SECOND,
    Between,
    ConnectInstance,
    LogEntry,
    LogRecord,
    Operation,
    Outcome,
    PlannedOperation,
    Program,
    Reader,
    Role,
    TopicSpec,
    Writer,
)
from fencepost.harness.api.bounds import demand_bounds
from fencepost.workloads.application import Application
from fencepost.workloads.connect import SECOND_ADDRESS, Connect
from fencepost.workloads.support.connect_conductor import Change
from fencepost.workloads.support.connect_records import UNCOMPARED
from fencepost.workloads.support.default_faults import OF_CONNECT

INPUT, ALIAS = "in", "mirror"
CONNECTOR = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


@dataclass(frozen=True, kw_only=True)
class Mirror:
    """MirrorSource between a topic `in`, which writers fill in transactions, and its copy `mirror.in` (docs/connect.md).

    version: of Kafka Connect and MirrorMaker
    upgrades: versions that workers may change to during a run (the fault `connect-version`)
    workers: how many
    support: their `exactly.once.source.support`: of all, or of each one
    tasks: `tasks.max` of the connector
    boundary: `transaction.boundary` of the connector
    config: of the connector, laid over ours
    isolation: of the connector's consumer; at read_uncommitted it copies what is aborted
    source_cluster: where `in` and its writers are: `same` as the copy's Kafka cluster, under two aliases, or `second`
    changes: what the conductor does meanwhile, one at random every `change_every_s`, as of `connect`; not alter-offsets and
        reset-offsets
    change_every_s: how long the conductor waits between two changes
    partitions: of each topic
    writers: processes that write input records, in transactions
    input_abort_share: share of input transactions that are aborted, so that the input topic has gaps
    think_ms: a writer's pause before each record
    readers: read_committed processes that only poll, both topics
    quiet_s: for how long the copy must not grow until the connector is taken for done
    drain_s: how long the connector may take to catch up at the end
    """

    default_nemesis: ClassVar[Sequence[str]] = OF_CONNECT

    version: str = "4.3.0"
    upgrades: tuple[str, ...] = ()
    workers: Annotated[int, Between(1, 50)] = 2
    support: str | tuple[str, ...] = "enabled"
    tasks: Annotated[int, Between(1, 500)] = 2
    boundary: Literal["poll", "interval"] = "poll"
    config: Mapping[str, Any] = field(default_factory=dict)
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    source_cluster: Literal["same", "second"] = "same"
    changes: tuple[Change, ...] = ()
    change_every_s: Annotated[float, Between(1, 3600)] = 10.0
    partitions: Annotated[int, Between(1, 5000)] = 4
    writers: Annotated[int, Between(1, 200)] = 2
    input_abort_share: Annotated[float, Between(0, 1)] = 0.2
    think_ms: Annotated[float, Between(0, 600_000)] = 5.0
    readers: Annotated[int, Between(0, 200)] = 1
    quiet_s: Annotated[float, Between(0, 3600)] = 20.0
    drain_s: Annotated[float, Between(0, 3600)] = 120.0

    def __post_init__(self) -> None:
        demand_bounds(self)
        if unjudged := [change for change in self.changes if change in ("alter-offsets", "reset-offsets")]:
            raise ValueError(f"changes: after {unjudged[0]} records may be copied again, or not at all: that is not judged here")
        _ = self._connect, self._outside

    @property
    def _elsewhere(self) -> bool:
        """Return whether the input is on another Kafka cluster than the copy."""
        return self.source_cluster == SECOND

    @cached_property
    def _outside(self) -> Application:
        """The writers, and what is judged."""
        return Application(
            command=CONNECTOR,
            input_topic=INPUT,
            output_topic=f"{ALIAS}.{INPUT}",
            input_partitions=self.partitions,
            output_partitions=self.partitions,
            group="",
            writers=self.writers,
            readers=self.readers,
            input_abort_share=self.input_abort_share,
            think_ms=self.think_ms,
            quiet_s=self.quiet_s,
            drain_s=self.drain_s,
        )

    @cached_property
    def _connect(self) -> Connect:
        """The workers, and the conductor."""
        ours = {
            "source.cluster.alias": ALIAS,
            "target.cluster.alias": "copy",
            "source.cluster.bootstrap.servers": SECOND_ADDRESS if self._elsewhere else "{bootstrap}",
            "target.cluster.bootstrap.servers": "{bootstrap}",
            "topics": INPUT,
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "refresh.topics.interval.seconds": "5",
            "sync.topic.acls.enabled": "false",
            "sync.topic.configs.enabled": "false",
            "consumer.isolation.level": self.isolation,
            "consumer.auto.offset.reset": "earliest",
            "key.converter": BYTES,
            "value.converter": BYTES,
            "header.converter": BYTES,  # the default would write bytes as text, in base 64
        }
        honest = {} if self.isolation == "read_committed" else {"exactly.once.support": "requested"}  # else it is refused
        return Connect(
            version=self.version,
            upgrades=self.upgrades,
            workers=self.workers,
            support=self.support,
            connector=CONNECTOR,
            config={**ours, **honest, **self.config},
            tasks=self.tasks,
            boundary=self.boundary,
            topic=f"{ALIAS}.{INPUT}",
            partitions=self.partitions,
            changes=self.changes,
            change_every_s=self.change_every_s,
            offset_position="",  # MirrorMaker's stored offsets are those of its input, and no positions of `connect`
            readers=0,
        )

    def topics(self) -> dict[str, TopicSpec]:
        topics = self._outside.topics()
        return {**topics, INPUT: replace(topics[INPUT], cluster=SECOND)} if self._elsewhere else topics

    def roles(self) -> tuple[Role, ...]:
        program: Program | None = next(role.program for role in self._outside.roles() if role.program)
        connect = self._connect.roles()
        workers = (replace(role, program=program) if isinstance(role, ConnectInstance) else role for role in connect)
        clients = tuple(role for role in self._outside.roles() if isinstance(role, (Writer, Reader)))
        readers = tuple(role for role in clients if role.polls) if self._elsewhere else ()  # of the copy
        clients = tuple(replace(role, cluster=SECOND) for role in clients) if self._elsewhere else clients
        return (*clients, *readers, *workers)

    def producer_settings(self) -> Mapping[str, Any]:
        return self._outside.producer_settings()

    def operations(self, role: Role, partitions: Sequence[str], rng: Random) -> Iterator[PlannedOperation]:
        return (self._connect if role.conducts else self._outside).operations(role, partitions, rng)

    def perform(self, op: Operation, client: Any, run: str) -> Outcome:
        return (self._connect if op.planned.f == "rest" else self._outside).perform(op, client, run)

    def logs(self, prefix: str) -> tuple[str, ...]:
        """The topics that are read at the end as the brokers have them."""
        return self._connect.logs(prefix)

    def entry(self, record: LogRecord, prefix: str) -> LogEntry | None:
        """The entry of a record of these topics; the copies name their inputs, and no positions."""
        entry = self._connect.entry(record, prefix)
        return entry if entry is None or entry.kind not in ("record", "offset", UNCOMPARED, "strange") else None
