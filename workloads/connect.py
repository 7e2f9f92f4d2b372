"""A source connector of Kafka Connect under faults: its records and its offsets are one transaction (KIP-618).

Workers of Connect are the processes of instances. A conductor creates the connector and changes it by the REST interface.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Annotated, Any, ClassVar, Literal, get_args

from fencepost.harness.api import (
    SECOND,
    Between,
    CallError,
    Client,
    ConnectClient,
    ConnectInstance,
    ConnectWorker,
    Isolation,
    LogEntry,
    LogRecord,
    Operation,
    Outcome,
    PlannedOperation,
    Polled,
    Reader,
    Role,
    TopicSpec,
    clock,
)
from fencepost.harness.api import Conductor as ConductorRole
from fencepost.harness.api.bounds import demand_bounds
from fencepost.harness.api.connect import MOST_SHOWN, release
from fencepost.harness.api.logs import of_second
from fencepost.harness.fetching import archives
from fencepost.workloads.support import connect_records
from fencepost.workloads.support.connect_conductor import NAME, NUMBERED, Change, Conductor, as_text
from fencepost.workloads.support.connect_records import SourceRecords
from fencepost.workloads.support.connect_refusals import FirstRecords, without_definitions
from fencepost.workloads.support.connect_services import with_services
from fencepost.workloads.support.default_faults import OF_CONNECT
from fencepost.workloads.support.polling import failed_poll, note, poll_records, reader_operations

GROUP = "connect"  # of the workers
KAFKAS = "org.apache.kafka."  # the connectors that come along, beside the numbered one
JAR = Path(__file__).with_name("connectors") / "numbered.jar"
FILE, STORE, BOOTSTRAP, WORKERS, SECOND_ADDRESS = (
    "{file}",
    "{store}",
    "{bootstrap}",
    "{workers}",
    "{second}",
)  # in a value of the connector's configuration
CLIENTS = ("producer", "consumer", "admin")  # of a connector: what `.override.` may change (KIP-458)
SUPPORT = ("disabled", "preparing", "enabled")
CHANGES: tuple[Change, ...] = get_args(Change)
SINCE = {"stop": (3, 5), "alter-offsets": (3, 6), "reset-offsets": (3, 6)}  # the first release with a change (KIP-875)
UNSIGNED_PROTOCOLS = ("eager", "compatible")


@dataclass(frozen=True, kw_only=True)
class Connect:
    """A source connector on distributed workers of Kafka Connect (docs/connect.md).

    version: of Kafka Connect
    upgrades: versions that workers may change to during a run (the fault `connect-version`); from 3.2 on
    workers: how many
    support: their `exactly.once.source.support`: of all, or of each one
    worker_settings: of the workers, laid over ours
    connector: the class of the connector; the default, the numbered source, comes along
    plugins: where the connector is: the directory with its jars, one that holds such directories, a jar, or Maven's coordinates
        of its archive, fetched by `fencepost connect plugin`; none for the numbered source
    config: of the connector, laid over ours. In its values `{topic}` is the topic, `{bootstrap}` the address of its cluster,
        `{workers}` that of the workers', `{second}` that of the second one, `{file}` the path of the file that `lines` makes;
        `{service.NAME}`, `{service.NAME.host}` and `{service.NAME.port}` the address of an outside service of the cluster's
    tasks: `tasks.max` of the connector
    boundary: `transaction.boundary` of the connector
    own_offsets: the connector has an offsets topic of its own (`offsets.storage.topic`)
    workers_cluster: where the workers are: `same` as the topic's Kafka cluster, or `second` (`second_brokers` of the cluster).
        Their configuration, status and offsets are on that one then, and the connector's clients go to the topic's
        (`producer.override.bootstrap.servers` and the like)
    connect_clusters: how many Connect clusters there are, each with `workers` workers, a group, internal topics, a connector of
        the same name and a target topic of its own: `records`, `records2`, ... The conductor of each does its own changes
    topic: where its records go
    partitions: of that topic
    sources: source partitions of the numbered source
    records_per_s: about how many records the numbered source makes in a second, in all
    source_by: how a record names its source partition: header NAME, key, json POINTER, regex PATTERN, value; empty: there is one
        without a name
    position_by: how a record tells its position there: header NAME, json POINTER, regex PATTERN; a list: the parts of its
        position, the first one first, like ["json /file", "json /offset"]
    positions: what positions are: dense (they rise by one), sparse (they rise with gaps, and each record has its own, also when
        it is read again), ordered (they never go back); empty: dense for connectors of Kafka and fencepost, and for others what
        their records show, with what cannot be shown unknown
    sequence_by: how a record tells its number among all records of its source, rising by one, where its position is no such
        number; empty: it does not
    place_by: where a position gives several records, an ordered list: how a record tells its place in it, from 0: header NAME,
        json POINTER, regex PATTERN; empty: a position gives one record
    count_by: how it tells how many records its position gives: the same, or a number
    offset_source: JSON pointer to the source partition in the key of a stored offset
    offset_position: JSON pointer to the position in the value of a stored offset; a list: to its parts; empty: a stored offset
        has no position that could be compared with a record's
    next_offset: the stored position is that of the next record
    offset_unit: how much a stored position grows by a position
    lines: makes a file with so many lines, each its own number in 11 digits; 0: none
    changes: what the conductor does meanwhile, one at random every `change_every_s` (own-offsets: it sets
        `offsets.storage.topic`; alter-offsets, reset-offsets: it stops the connector, sets stored offsets to and fro, or removes
        them all, and lets it go on; preflight: it asks for another numbered source that says it cannot keep its configuration;
        overrides: it sets a transactional id and isolation.level of the connector's clients, which have to be ignored;
        unsigned: it makes a request that only workers may make)
    change_every_s: how long the conductor waits between two changes
    most_changes: after so many changes the conductor makes none any more; 0: no limit
    restart_failed: the conductor restarts tasks that have failed, as an operator does
    readers: read_committed processes that only poll
    rest: where workers answer that run already, like http://worker-1:8083; none is started then, `support` says what they are
    internal_topics: their configuration and their offsets topic, in this order, if what the connector stores is to be judged
    transaction_timeout_s: of the tasks' producers
    """

    default_nemesis: ClassVar[Sequence[str]] = OF_CONNECT

    version: str = "4.3.0"
    upgrades: tuple[str, ...] = ()
    workers: Annotated[int, Between(1, 50)] = 3
    support: str | tuple[str, ...] = "enabled"
    worker_settings: Mapping[str, Any] = field(default_factory=dict)
    connector: str = NUMBERED
    plugins: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    tasks: Annotated[int, Between(1, 500)] = 3
    boundary: Literal["poll", "interval", "connector"] = "poll"
    own_offsets: bool = False
    workers_cluster: Literal["same", "second"] = "same"
    connect_clusters: Annotated[int, Between(1, 9)] = 1
    topic: str = "records"
    partitions: Annotated[int, Between(1, 5000)] = 4
    sources: Annotated[int, Between(1, 5000)] = 6
    records_per_s: Annotated[float, Between(1, 1_000_000)] = 300.0
    source_by: str = "json /source"
    position_by: str | tuple[str, ...] = "json /number"
    positions: Literal["", "dense", "sparse", "ordered"] = ""
    sequence_by: str = ""
    place_by: str = ""
    count_by: str = ""
    offset_source: str = "/source"
    offset_position: str | tuple[str, ...] = "/number"
    next_offset: bool = False
    offset_unit: Annotated[int, Between(1, 1_000_000)] = 1
    lines: Annotated[int, Between(0, 10_000_000)] = 0
    changes: tuple[Change, ...] = ()
    change_every_s: Annotated[float, Between(1, 3600)] = 10.0
    most_changes: Annotated[int, Between(0, 1_000_000)] = 0
    restart_failed: bool = True
    readers: Annotated[int, Between(0, 200)] = 1
    rest: tuple[str, ...] = ()
    internal_topics: tuple[str, ...] = ()
    transaction_timeout_s: Annotated[float, Between(1, 900)] = 10.0

    def __post_init__(self) -> None:
        demand_bounds(self)
        for level in self._levels:
            if level not in SUPPORT:
                raise ValueError(f'support: "{level}" is none of {", ".join(SUPPORT)}')
        if len(self._levels) not in (1, self.workers):
            raise ValueError(f"support: one for all workers, or one for each of the {self.workers}, not {len(self._levels)}")
        for change in self.changes:
            if change not in CHANGES:
                raise ValueError(f'changes: "{change}" is none of {", ".join(CHANGES)}')
            for version in (self.version, *self.upgrades):
                if release(version) < SINCE.get(change, ()):
                    raise ValueError(f"changes: {change} needs Kafka Connect {'.'.join(map(str, SINCE[change]))}, not {version}")
        protocol = self.worker_settings.get("connect.protocol")
        if "unsigned" in self.changes and protocol in UNSIGNED_PROTOCOLS:
            raise ValueError(f"changes: unsigned needs workers that sign requests; with connect.protocol={protocol} none does")
        if self.connector != NUMBERED and not (self.plugins or self.rest or self.connector.startswith(KAFKAS)):
            raise ValueError("plugins: the directory or jar that holds the class of `connector`")
        if "preflight" in self.changes and (self.connector != NUMBERED or "enabled" not in self._levels):
            raise ValueError("changes: preflight is for the numbered source, on workers with `support` enabled")
        if any(FILE in str(value) for value in self.config.values()) and not self.lines:
            raise ValueError("lines: how many lines {file} in `config` is to have")
        if self.rest and self._elsewhere:
            raise ValueError("workers_cluster: workers that run already are where they are; leave it out, or `rest`")
        if self.connect_clusters > 1 and (self.rest or self.internal_topics):
            raise ValueError("connect_clusters: workers that run already are one Connect cluster")
        if self.internal_topics and len(self.internal_topics) != 2:
            raise ValueError("internal_topics: two names, of the configuration topic and of the offsets topic")
        for url in self.rest:
            if not url.startswith("http://"):
                raise ValueError(f'rest: "{url}" is no address like http://worker-1:8083')
        _ = self._records
        self._demand_dense()

    def _demand_dense(self) -> None:
        """Raise ValueError where what is asked for needs positions that rise by one."""
        if self.positions == "dense" and not isinstance(self.position_by, str):
            raise ValueError("positions: what has several parts does not rise by one: sparse, or ordered where some repeat")
        if "alter-offsets" in self.changes and self._positions not in ("dense", "unstated"):
            raise ValueError("changes: alter-offsets needs dense positions: a source has no others where a task could read on")

    @property
    def _positions(self) -> str:
        """The kind of positions, as a contract has it."""
        aborts = self.boundary == "connector"  # what a task aborts by itself need not come again
        if self.positions:
            return "ordered" if self.positions == "sparse" and aborts else self.positions
        parted = not isinstance(self.position_by, str) or bool(self.sequence_by)
        known = self.connector == NUMBERED or self.connector.startswith(KAFKAS)
        return "dense" if known and not parted else "unstated"

    @property
    def _levels(self) -> tuple[str, ...]:
        return (self.support,) if isinstance(self.support, str) else tuple(self.support)

    @property
    def _elsewhere(self) -> bool:
        """Return whether the workers are on another Kafka cluster than the topic."""
        return self.workers_cluster == SECOND

    @cached_property
    def _records(self) -> SourceRecords:
        return SourceRecords(
            self.source_by,
            self.position_by,
            self.offset_source,
            self.offset_position,
            self.next_offset,
            self.offset_unit,
            self.place_by,
            self.count_by,
            self.sequence_by,
        )

    def topics(self) -> dict[str, TopicSpec]:
        return {f"{self.topic}{suffix}": TopicSpec(partitions=self.partitions) for suffix in self._suffixes}

    @property
    def _suffixes(self) -> list[str]:
        """The ends of the names of each Connect cluster's group and topic."""
        return [str(number) if number > 1 else "" for number in range(1, self.connect_clusters + 1)]

    def roles(self) -> tuple[Role, ...]:
        levels = self._levels * (self.workers if len(self._levels) == 1 else 1)
        lowest, cluster = min(levels, key=SUPPORT.index), SECOND if self._elsewhere else ""
        instances = [
            ConnectInstance(connect=self._worker(level, suffix), cluster=cluster)
            for suffix in self._suffixes
            for level in (() if self.rest else levels)
        ]
        conductors = [ConductorRole(connect=self._worker(lowest, suffix), rest=self.rest) for suffix in self._suffixes]
        return (*instances, *conductors, *[Reader(isolation=Isolation.COMMITTED)] * self.readers)

    def _worker(self, level: str, suffix: str) -> ConnectWorker:
        return ConnectWorker(
            version=self.version,
            support=level,
            ours=not self.plugins,
            plugins=tuple(map(_plugin, self.plugins)) or (str(JAR),),
            settings=tuple((key, as_text(value)) for key, value in self.worker_settings.items()),
            connectors=(NAME,),
            transaction_timeout_s=self.transaction_timeout_s,
            group=f"{GROUP}{suffix}",
            positions=self._positions,
            classes=(self.connector,),
            upgrades=self.upgrades,
        )

    def producer_settings(self) -> Mapping[str, Any]:
        return {}

    # -- the conductor -----------------------------------------------------------------------------
    def operations(self, role: Role, partitions: Sequence[str], rng: Random) -> Iterator[PlannedOperation]:
        if role.name != "conductor":
            return reader_operations()
        suffix = role.connect.group.removeprefix(GROUP) if role.connect else ""
        topic = next(name for name in map(_topic, partitions) if name.endswith(f"{self.topic}{suffix}"))
        return Conductor(self, topic, rng).operations()

    def configuration(self, topic: str, tasks: int, moved: bool = False) -> dict[str, str]:
        """The connector's configuration, with so many tasks. moved: its offsets have a topic of its own by now."""
        enabled = "enabled" in self._levels
        own = {"offsets.storage.topic": own_offsets(topic)} if moved or self.own_offsets else {}
        once = {"exactly.once.support": "required", "transaction.boundary": self.boundary} if enabled else {}
        numbered = {**self._numbered(topic), **self._transform()} if self.connector == NUMBERED else {}
        remote = {f"{part}.override.bootstrap.servers": BOOTSTRAP for part in CLIENTS} if self._elsewhere else {}
        ours = {"connector.class": self.connector, "tasks.max": str(tasks), **once, **own, **remote, **numbered}
        return {**ours, **{key: as_text(value).replace("{topic}", topic) for key, value in self.config.items()}}

    def moved(self, stored: Mapping[str, Any], by: int, topic: str = "") -> tuple[dict[str, Any], list[Any]]:
        """A stored offset of so many positions more, and what it says: its source, and the position of its last record.

        topic: the connector's.
        """
        offset, entry = self._records.moved(stored["partition"], stored["offset"], by)
        entry = _of_cluster(entry, self._suffix_of(topic))
        return {"partition": stored["partition"], "offset": offset}, [entry.name, entry.number]

    def unplaced(self, stored: Mapping[str, Any]) -> str:
        """The reason why a stored offset of an answer tells no position; empty when it tells one."""
        try:
            self._records.stored(stored["partition"], stored["offset"])
        except connect_records.NOTHING as error:
            shown = f"{stored['partition']} {stored['offset']}"[:MOST_SHOWN]
            return f"A stored offset of the connector tells no position (`offset_source`, `offset_position`): {error}: {shown}"
        return ""

    def _suffix_of(self, topic: str) -> str:
        """The suffix of the Connect cluster whose connector writes to a topic."""
        return next((suffix for suffix in reversed(self._suffixes) if topic.endswith(f"{self.topic}{suffix}")), "")

    def _numbered(self, topic: str) -> dict[str, str]:
        per_poll = 20
        of_task = self.records_per_s / self.tasks
        return {
            "topic": topic,
            "topic.partitions": str(self.partitions),
            "sources": str(self.sources),
            "records.per.poll": str(per_poll),
            "poll.interval.ms": str(max(1, round(1000 * per_poll / of_task))),
        }

    def _transform(self) -> dict[str, str]:
        """The transform that drops what the numbered source marks."""
        if not self.config.get("drop.every") or "transforms" in self.config:
            return {}
        filtering = {"type": f"{KAFKAS}connect.transforms.Filter", "predicate": "marked"}
        marked = {"type": f"{KAFKAS}connect.transforms.predicates.HasHeaderKey", "name": "fencepost.dropped"}
        return {
            "transforms": "drop",
            "predicates": "marked",
            **{f"transforms.drop.{key}": value for key, value in filtering.items()},
            **{f"predicates.marked.{key}": value for key, value in marked.items()},
        }

    def perform(self, op: Operation, client: Any, run: str) -> Outcome:
        return self._ask(op, client) if op.planned.f == "rest" else self._read(op, client)

    def _ask(self, op: Operation, client: ConnectClient) -> Outcome:
        """One request to Connect, its answer recorded; what was not done for sure has failed."""
        clock.sleep(op.planned.think_s)
        for name, value in self._values:
            if name in str(op.value.get("body")):
                op.value["body"] = {key: text.replace(name, value(client)) for key, text in op.value["body"].items()}
        try:
            op.value |= with_services(op.value, client)
        except LookupError as error:
            op.broken = f"`config` of the workload: {error}"
            return Outcome.FAIL
        try:
            answer = client.ask(op.value["method"], op.value["path"], op.value.get("body"))
        except CallError as error:
            note(op, error)
            return Outcome.FAIL if error.retriable else Outcome.INFO
        op.value = {**op.value, "status": answer.status, "worker": answer.worker, "answer": without_definitions(answer.document)}
        return Outcome.OK if answer.status < 300 else Outcome.FAIL if answer.status < 500 else Outcome.INFO

    @property
    def _values(self) -> tuple[tuple[str, Callable[[ConnectClient], str]], ...]:
        """The replacement of each name in a value of the connector's configuration."""
        addresses = ((BOOTSTRAP, lambda client: client.bootstrap), (SECOND_ADDRESS, lambda client: client.second))
        return ((FILE, self._file), (STORE, _store), (WORKERS, self._workers_address), *addresses)

    def _workers_address(self, client: ConnectClient) -> str:
        return client.second if self._elsewhere else client.bootstrap

    def _file(self, client: ConnectClient) -> str:
        """The path of the file with numbered lines, which is made when it is first asked for."""
        path = client.directory / "lines"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{number:011d}\n" for number in range(self.lines)))
        return str(path)

    # -- readers, and what is in the logs ------------------------------------------------------------
    def _read(self, op: Operation, client: Client) -> Outcome:
        try:
            records = poll_records(client, op.planned.limit)
        except CallError as error:
            return failed_poll(op, error)
        rows = self._rows(records)
        op.value = [["entries", partition, entries] for partition, entries in rows.items()]
        op.broken = self._first.unreadable([(row[5], row[6]) for entries in rows.values() for row in entries])
        return Outcome.OK

    @cached_property
    def _first(self) -> FirstRecords:
        return FirstRecords()

    def _rows(self, records: Sequence[Polled]) -> dict[str, list[list[Any]]]:
        rows: dict[str, list[list[Any]]] = {}
        for record in records:
            topic = _topic(record.partition)
            entry = _of_cluster(self._records.entry(record), self._suffix_of(topic))
            row = [record.offset, record.timestamp_ms, None, None, None, entry.kind, entry.name, entry.number]
            rows.setdefault(record.partition, []).append(row)
        return rows

    def logs(self, prefix: str) -> tuple[str, ...]:
        """The topics that are read at the end as the brokers have them; not every one exists."""
        names = [name for suffix in self._suffixes for name in (f"{self.topic}{suffix}", own_offsets(f"{self.topic}{suffix}"))]
        if self.rest:  # what else is in somebody's topics is theirs
            return (*(prefix + name for name in names), *self.internal_topics[1:])
        groups = [f"{prefix}{GROUP}{suffix}" for suffix in self._suffixes]
        internal = self.internal_topics or tuple(f"{group}-{name}" for group in groups for name in ("configs", "offsets"))
        here = (*names, *(prefix + name for name in names), *internal, connect_records.TRANSACTIONS)
        there = (*internal, connect_records.TRANSACTIONS) if self._elsewhere else ()
        return (*here, *(of_second(name) for name in there))

    def entry(self, record: LogRecord, prefix: str) -> LogEntry | None:
        """The entry of a record of these topics; None for a record that concerns another connector or id."""
        meaning, suffix = self._meanings.get(record.topic.removeprefix(prefix), ("", ""))
        if meaning == "record":
            known = _of_cluster(self._records.entry(record), suffix)
            tells = self.connector == NUMBERED and known.kind == "record"
            told, dropped = connect_records.told(record), connect_records.dropped(record)
            return replace(known, told=told, dropped=dropped) if tells else known
        if meaning == "offset":
            if self.rest and connect_records.connector_of(record) != f"{prefix}{self.topic}-{NAME}":
                return None  # of a connector of somebody's own
            entry = self._records.offset(record)
            return entry if entry is None else _of_cluster(entry, suffix)
        if meaning == "configuration":
            return connect_records.configuration(record)
        return connect_records.transaction(record, (f"{prefix}{GROUP}", f"connect-cluster-{prefix}", connect_records.OVERRIDDEN))

    @cached_property
    def _meanings(self) -> dict[str, tuple[str, str]]:
        """The content of each topic, by its name without the run's prefix, and the suffix of its Connect cluster."""
        meanings: dict[str, tuple[str, str]] = {}
        for suffix in self._suffixes:
            topic, group = f"{self.topic}{suffix}", f"{GROUP}{suffix}"
            configs, offsets = self.internal_topics or (f"{group}-configs", f"{group}-offsets")
            meanings |= {topic: ("record", suffix), configs: ("configuration", suffix)}
            meanings |= dict.fromkeys((offsets, own_offsets(topic)), ("offset", suffix))
        return meanings


def _store(client: ConnectClient) -> str:
    """The directory for the store of a sink."""
    return str(client.directory.parent / "store")


def _plugin(path: str) -> str:
    """The path of a directory or jar, or of an archive in the cache."""
    return str(archives.directory_of(path) if archives.is_coordinates(path) else Path(path).resolve())


def own_offsets(topic: str) -> str:
    """The offsets topic of a connector of its own."""
    return f"{topic}-source-offsets"


def _of_cluster(entry: LogEntry, suffix: str) -> LogEntry:
    """An entry whose source is named as that of one of several Connect clusters, which all have sources of the same names."""
    return replace(entry, name=f"{suffix}/{entry.name}") if suffix and entry.kind != connect_records.STRANGE else entry


def _topic(partition: str) -> str:
    return partition.rpartition("-")[0]
