"""A sink: somebody's own program, or a sink connector, that reads a topic and writes to a store outside of Kafka.

What it stores is judged as the output of a program is (`application`), by a listing of the store at the end: at least once, or
exactly once by idempotent writes, by offsets in the store, or by a commit in two phases.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random
from typing import Annotated, Any, ClassVar

from fencepost.harness.api import (
    HOUR_S,
    OWN_GROUP,
    Between,
    ConnectInstance,
    Isolation,
    LogEntry,
    LogRecord,
    Operation,
    Outcome,
    PlannedOperation,
    Program,
    ProgramInstance,
    Reader,
    Role,
    Store,
    TopicSpec,
    Writer,
)
from fencepost.harness.api.bounds import demand_bounds
from fencepost.harness.system.command_words import resolved
from fencepost.workloads.application import Application
from fencepost.workloads.connect import Connect
from fencepost.workloads.support.connect_conductor import NAME as CONNECTOR_NAME
from fencepost.workloads.support.default_faults import OF_MEMBERS_LANES, OF_SINKS
from fencepost.workloads.support.inputs_and_outputs import HOWS

TEXT = "org.apache.kafka.connect.storage.StringConverter"
STORE = "store"  # in histories, as the topic of what is stored
BUILT_IN = "{python} {examples}/sinks/sqlite_sink.py"
BUILT_IN_LISTING = "SELECT input FROM items ORDER BY rowid"
BUILT_IN_POSITIONS = "SELECT topic, part, next FROM positions"
SQLITE, POSTGRES = "sqlite:", ("postgresql:", "postgres:")
ROWS = "fencepost.harness.system.sqlite_rows"
OF_ITEMS = tuple(how for how in HOWS if how not in ("header", "key"))


@dataclass(frozen=True, kw_only=True)
class Sink:
    """A program of your own that writes what it reads to a store of its own (docs/sinks.md).

    command: what runs an instance, as of `application`; the default is a sink to SQLite that comes along, or with an `image` what
        that runs by itself
    database: where `listing` and `positions` are queries: `sqlite:FILE`, in FENCEPOST_STORE unless it is absolute, or
        `postgresql://...`, asked by psql; empty: they are commands. In these three `{service.NAME}`, `{service.NAME.host}` and
        `{service.NAME.port}` are the address of an outside service that the cluster declares
    connector: the class of a sink connector of Kafka Connect, in the place of `command`; its workers are the instances
    version: of Kafka Connect
    upgrades: versions that its workers may change to during a run (the fault `connect-version`)
    plugins: directories and jars with the connector; none for Kafka's own
    config: of the connector; in its values `{store}` is FENCEPOST_STORE. Its consumers read at read_uncommitted unless
        `consumer.override.isolation.level` says otherwise
    tasks: `tasks.max` of the connector
    listing: what lists the store at the end, an item a line: a command, as `command`, or a query, whose rows are lines with tabs
    positions: where the store has its own offsets, what lists them, the next ones to be read, `TOPIC PARTITION OFFSET` a line:
        likewise; empty: it has none
    names_input_by: how an item names its input: json POINTER, regex PATTERN, value (the line begins with it)
    content: where an item has the value of its input, unchanged or as its SHA-256 in hex: json POINTER, regex PATTERN, value;
        with `value`, which says what that is; empty: nowhere, so that no content is judged
    items_per_input: how many items an input has, (fewest, most); fewest = 0: it may be dropped
    ordered_by_key: the items of inputs with one key keep their order in the listing; keys are then shared by several inputs
    keys: how many keys the inputs of one writer in one partition share, with ordered_by_key
    value: the value of an input record, {input} stands for its name; empty: text of ours
    group: the sink's consumer group, whose offsets count where there are no `positions`; FENCEPOST_GROUP: the one that its
        environment names, of a connector its own; empty: unknown
    image: on clusters in Docker: the image in which it runs
    instances: how many run
    spares: how many more the fault `scale` may start
    writers: processes that write input records, in transactions
    readers: read_committed processes that only poll the input
    input_topic: its name
    input_partitions: of the input topic
    inputs_per_transaction: input records that a writer sends in one transaction, (fewest, most)
    input_abort_share: share of input transactions that are aborted, so that the input topic has gaps
    think_ms: a writer's pause before each record
    quiet_s: for how long the store must not grow until the sink is taken for done, where no offsets say so
    drain_s: how long the sink may take to catch up at the end
    listing_s: how long a listing may take
    record_bytes: about the size of an input record's value
    """

    default_nemesis: ClassVar[Sequence[str]] = OF_SINKS
    default_lanes: ClassVar[Sequence[str]] = OF_MEMBERS_LANES

    command: str | tuple[str, ...] = BUILT_IN
    database: str = ""
    connector: str = ""
    version: str = "4.3.0"
    upgrades: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    tasks: Annotated[int, Between(1, 500)] = 1
    listing: str | tuple[str, ...] = ""
    positions: str | tuple[str, ...] = ""
    names_input_by: str = "value"
    content: str = ""
    items_per_input: Annotated[tuple[int, int], Between(0, 10_000)] = (1, 1)
    ordered_by_key: bool = False
    keys: Annotated[int, Between(1, 1_000_000)] = 1
    value: str = ""
    group: str = OWN_GROUP
    image: str = ""
    instances: Annotated[int, Between(1, 200)] = 3
    spares: Annotated[int, Between(0, 200)] = 0
    writers: Annotated[int, Between(1, 200)] = 2
    readers: Annotated[int, Between(0, 200)] = 1
    input_topic: str = "in"
    input_partitions: Annotated[int, Between(1, 5000)] = 6
    inputs_per_transaction: Annotated[tuple[int, int], Between(1, 4000)] = (2, 12)
    input_abort_share: Annotated[float, Between(0, 1)] = 0.1
    think_ms: Annotated[float, Between(0, 600_000)] = 2.0
    quiet_s: Annotated[float, Between(0, HOUR_S)] = 20.0
    drain_s: Annotated[float, Between(0, HOUR_S)] = 120.0
    listing_s: Annotated[float, Between(1, 600)] = 60.0
    record_bytes: Annotated[int, Between(0, 10_000_000)] = 100

    def __post_init__(self) -> None:
        demand_bounds(self)
        if self.image and self.command == BUILT_IN and not self.connector:
            self._set(command="")  # what the image runs by itself
        if self.command == BUILT_IN and not (self.listing or self.database or self.connector):
            self._set(database="sqlite:store.db", listing=BUILT_IN_LISTING, positions=self.positions or BUILT_IN_POSITIONS)
        if not self.listing:
            raise ValueError("listing: a command, or with `database` a query, that lists what is stored, an item a line")
        if self.database and not self.database.startswith((SQLITE, *POSTGRES)):
            raise ValueError(f'database: sqlite:FILE or postgresql://..., not "{self.database}"')
        if self.names_input_by.partition(" ")[0] not in OF_ITEMS:
            raise ValueError("names_input_by: json POINTER, regex PATTERN or value, for an item of a store is a line of text")
        if self.content and self.content.partition(" ")[0] not in OF_ITEMS:
            raise ValueError("content: json POINTER, regex PATTERN or value, for an item of a store is a line of text")
        if self.content and not self.value:
            raise ValueError('content: with `value`, which says what an input has, such as {"id": "{input}", "amount": 7}')
        if self.input_topic == STORE:
            raise ValueError(f"input_topic: another name than {STORE}, which stands for the sink's store")
        low, high = self.items_per_input
        if low > high or not high:
            raise ValueError(f"items_per_input: (fewest, most) with fewest <= most and 1 <= most, not ({low}, {high})")
        if self.connector and self.command != BUILT_IN:
            raise ValueError("connector: in the place of a command, so only one of the two is given")
        if self.connector and (self.spares or self.image):
            raise ValueError("connector: its workers are processes, as many as `instances`: without `spares` and `image`")
        alone = [name for name in ("upgrades", "plugins", "config") if getattr(self, name) and not self.connector]
        if alone:
            raise ValueError(f"{alone[0]}: is of a `connector`, which names none; give it, or leave {alone[0]} out")
        _ = self._store, self._outside, self._connect

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @cached_property
    def _store(self) -> Store:
        return Store(
            items=self._words("listing", self.listing),
            positions=self._words("positions", self.positions) if self.positions else (),
            bound_s=self.listing_s,
        )

    def _words(self, option: str, text: str | tuple[str, ...]) -> tuple[str, ...]:
        """The command line that lists something. Raises ValueError."""
        if self.database and not isinstance(text, str):
            raise ValueError(f"{option}: with `database` a query, which is one text")
        if self.database.startswith(SQLITE):
            return (sys.executable, "-m", ROWS, self.database.removeprefix(SQLITE), str(text))
        if self.database:
            return ("psql", "-XAtq", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-c", str(text), self.database)
        try:
            return resolved(shlex.split(text) if isinstance(text, str) else text)
        except ValueError as error:
            raise ValueError(f"{option}: {error}") from error

    @cached_property
    def _outside(self) -> Application:
        """The writers, and what is judged."""
        return Application(
            command=self.command,
            image=self.image,
            input_topic=self.input_topic,
            output_topic=STORE,
            names_input_by=self.names_input_by,
            content=self.content,
            value=self.value,
            ordered_by_key=self.ordered_by_key,
            keys=self.keys,
            inputs_per_transaction=self.inputs_per_transaction,
            input_abort_share=self.input_abort_share,
            think_ms=self.think_ms,
            record_bytes=self.record_bytes,
        )

    @cached_property
    def _connect(self) -> Connect | None:
        """The workers of Connect and their conductor; None: the sink is a program."""
        if not self.connector:
            return None
        ours = {"topics": self.input_topic, "key.converter": TEXT, "value.converter": TEXT, "errors.tolerance": "none"}
        return Connect(
            version=self.version,
            upgrades=self.upgrades,
            workers=self.instances,
            support="disabled",
            connector=self.connector,
            plugins=self.plugins,
            config={**ours, **self.config},
            tasks=self.tasks,
            topic=self.input_topic,
            positions="dense",
            offset_position="",  # a sink has no source
            readers=0,
        )

    @property
    def _group(self) -> str:
        return f"connect-{CONNECTOR_NAME}" if self.connector and self.group == OWN_GROUP else self.group

    @cached_property
    def program(self) -> Program:
        """The sink, as a program whose output is its store."""
        words = self.connector or self._outside.command
        return Program(
            command=tuple(shlex.split(words) if isinstance(words, str) else words),
            input=self.input_topic,
            output=STORE,
            image=self.image,
            group=self._group,
            outputs=self.items_per_input,
            ordered=self.ordered_by_key,
            keys=self.keys,
            transaction_timeout_s=0.0,
            quiet_s=self.quiet_s,
            drain_s=self.drain_s,
            store=self._store,
        )

    def topics(self) -> dict[str, TopicSpec]:
        return {self.input_topic: TopicSpec(partitions=self.input_partitions)}

    def roles(self) -> tuple[Role, ...]:
        program = self.program
        workers = self._connect.roles() if self._connect else ()
        return (
            *[Writer(transactional=True, polls=False)] * self.writers,
            *([] if workers else [ProgramInstance(program=program)] * self.instances),
            *(replace(role, program=program) if isinstance(role, ConnectInstance) else role for role in workers),
            *[Reader(isolation=Isolation.COMMITTED)] * self.readers,
            *[ProgramInstance(program=program, spare=True)] * self.spares,
        )

    def producer_settings(self) -> Mapping[str, Any]:
        return self._outside.producer_settings()

    def operations(self, role: Role, partitions: Sequence[str], rng: Random) -> Iterator[PlannedOperation]:
        part = self._connect if self._connect and role.conducts else self._outside
        return part.operations(role, partitions, rng)

    def perform(self, op: Operation, client: Any, run: str) -> Outcome:
        """An operation of a writer, a reader or a conductor, or a poll of the items of the store."""
        part = self._connect if self._connect and op.planned.f == "rest" else self._outside
        return part.perform(op, client, run)

    def logs(self, prefix: str) -> tuple[str, ...]:
        """Topics that are read at the end as the brokers have them: none, since a sink's state is its store."""
        return ()

    def entry(self, record: LogRecord, prefix: str) -> LogEntry | None:
        """The entry of a record of these topics."""
        return None
