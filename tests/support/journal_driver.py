"""A driver whose brokers are a file, for the stories of many operations: a journal in SQLite, shared by the clients of a test.

It has transactions, fencing, offsets of groups and both isolation levels, and no network. The bootstrap servers are the
file's path. A test derives liars from `Journal`.
"""

from __future__ import annotations

import sqlite3
import time
from typing import Any

from fencepost.harness.api import ClientSettings, Delivered, Isolation, Outgoing, Polled
from fencepost.workloads.drivers.python.driver import Driver, Failure, Request, Results, bytes_of, text_of

SCHEMA = """
create table if not exists record (
    partition text, offset integer, producer text, state text, key blob, value blob, headers text,
    primary key (partition, offset));
create table if not exists epoch (producer text primary key, epoch integer);
create table if not exists group_offset (name text, partition text, offset integer, primary key (name, partition));
"""
OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"
MEMBER_PARTITIONS = 3


class Journal(Driver):
    """The honest driver."""

    client, version = "journal", "1"
    capabilities = [
        "transactions",
        "idempotence",
        "assign",
        "ends",
        "headers",
        "offsets-in-transactions",
        "groups",
        "seek",
        "isolation",
        "initialise",
    ]

    def check(self, request: Request) -> Results:
        sides = ("producer", "consumer")
        return {"refused": [[side, key, "unknown"] for side in sides for key in request[side] or {} if key.startswith("no.")]}

    def open(self, request: Request) -> Results:
        self.settings = request
        self.at: dict[str, int] = {}
        self.ends: dict[str, int] = {}
        self.offsets: dict[str, int] = {}
        self.subscribed: list[str] = []
        self.store = connected(request["bootstrap"])
        self.name = request["transactional_id"] or request["name"]
        if request["transactional_id"]:
            with self.store:
                old = (self.epoch() or 0) + 1
                self.store.execute("insert or replace into epoch values (?, ?)", (self.name, old))
                self.decide(ABORTED)
            self.own_epoch = old
        consumer = request["consumer"] or {}
        self.visible = (COMMITTED,) if consumer.get("isolation.level") == "read_committed" else (COMMITTED, ABORTED, OPEN)
        return None

    def epoch(self) -> int | None:
        row = self.store.execute("select epoch from epoch where producer = ?", (self.name,)).fetchone()
        return row[0] if row else None

    def decide(self, state: str) -> None:
        self.store.execute("update record set state = ? where producer = ? and state = ?", (state, self.name, OPEN))

    def demand_epoch(self) -> None:
        if self.settings["transactional_id"] and self.epoch() != self.own_epoch:
            raise Failure("PRODUCER_FENCED", 90, "another producer has this id", fatal=True)

    def close(self, request: Request) -> Results:
        self.store.close()
        return None

    def begin(self, request: Request) -> Results:
        self.offsets = {}
        return None

    def send(self, request: Request) -> Results:
        self.demand_epoch()
        partition, offset = f"{request['topic']}-{request['partition']}", self.append(request)
        self.acknowledge(request["record"], int(partition.rpartition("-")[2]), offset)
        return None

    def append(self, request: Request) -> int:
        state = OPEN if self.settings["transactional_id"] else COMMITTED
        return appended(self.store, request, self.name, state)

    def acknowledge(self, record: int, partition: int, offset: int) -> None:
        self.delivered(record, partition, offset)

    def flush(self, request: Request) -> Results:
        return None

    def send_offsets(self, request: Request) -> Results:
        self.offsets.update(request["offsets"])
        return None

    def commit(self, request: Request) -> Results:
        self.demand_epoch()
        with self.store:
            self.decide(COMMITTED)
            for partition, offset in self.offsets.items():
                row = (self.settings["group"], partition, offset)
                self.store.execute("insert or replace into group_offset values (?, ?, ?)", row)
        return None

    def abort(self, request: Request) -> Results:
        self.demand_epoch()
        with self.store:
            self.decide(ABORTED)
        return None

    def assign(self, request: Request) -> Results:
        self.ends, self.at = {}, {}
        return self.seek(request)

    def seek(self, request: Request) -> Results:
        for name, where in request["positions"].items():
            everything = (COMMITTED, ABORTED, OPEN)
            self.at[name] = {"start": 0, "end": end_of(self.store, name, everything)}.get(where, where)
        return None

    def initialise(self, request: Request) -> Results:
        self.store.close()
        return self.open(self.settings)

    def position(self, request: Request) -> Results:
        return {"positions": {name: self.at.get(name) for name in request["partitions"]}}

    def subscribe(self, request: Request) -> Results:
        self.subscribed = [f"{topic}-{number}" for topic in request["topics"] for number in range(MEMBER_PARTITIONS)]
        return None

    def committed(self, request: Request) -> Results:
        return {"offsets": {name: committed(self.store, self.settings["group"], name) for name in request["partitions"]}}

    def group(self, request: Request) -> Results:
        return {"group": {"group_id": self.settings["group"]}}

    def poll(self, request: Request) -> Results:
        if self.subscribed:
            self.rebalanced("assigned", self.subscribed)
            self.subscribed = []
        for partition, at in self.at.items():
            if rows := read(self.store, partition, at, self.visible, request["limit"]):
                self.at[partition] = rows[-1].offset + 1
                return {"records": [self.row(one) for one in rows], "ends": self.ends}
            self.ends[partition] = end_of(self.store, partition, self.visible)
        return {"records": [], "ends": self.ends}

    def row(self, one: Polled) -> list[Any]:
        topic, _, number = one.partition.rpartition("-")
        headers = [[name, text_of(value)] for name, value in one.headers]
        return [topic, int(number), one.offset, text_of(one.key), text_of(one.value), headers, one.timestamp_ms]


def connected(path: str) -> sqlite3.Connection:
    store = sqlite3.connect(path, timeout=30, isolation_level=None)
    store.execute("pragma journal_mode = wal")
    store.execute("pragma synchronous = off")
    store.executescript(SCHEMA)
    return store


def end_of(store: sqlite3.Connection, partition: str, states: tuple[str, ...]) -> int:
    """The end of a partition for a reader of these states: that of the log, or the first open record."""
    query = "select count(*) from record where partition = ?"
    end: int = store.execute(query, (partition,)).fetchone()[0]
    if OPEN not in states:
        query = "select coalesce(min(offset), ?) from record where partition = ? and state = 'open'"
        end = store.execute(query, (end, partition)).fetchone()[0]
    return end


def appended(store: sqlite3.Connection, request: Request, producer: str, state: str) -> int:
    """Append a record; its offset."""
    partition = f"{request['topic']}-{request['partition']}"
    offset: int = store.execute("select coalesce(max(offset) + 1, 0) from record where partition = ?", (partition,)).fetchone()[0]
    headers = " ".join(f"{name}={value}" for name, value in request["headers"])
    content = (bytes_of(request["key"]), bytes_of(request["value"]), headers)
    store.execute("insert into record values (?, ?, ?, ?, ?, ?, ?)", (partition, offset, producer, state, *content))
    return offset


def read(store: sqlite3.Connection, partition: str, at: int, states: tuple[str, ...], limit: int) -> list[Polled]:
    """Records of these states from an offset on."""
    marks = ", ".join("?" * len(states))
    query = f"select offset, value, key, headers from record where partition = ? and offset >= ? and state in ({marks})"
    end = end_of(store, partition, states)
    rows = store.execute(f"{query} and offset < ? order by offset limit ?", (partition, at, *states, end, limit))
    return [
        Polled(partition, offset, value, key, tuple(_header(text) for text in headers.split()), 1_700_000_000_000 + offset)
        for offset, value, key, headers in rows
    ]


def _header(text: str) -> tuple[str, bytes]:
    name, _, value = text.partition("=")
    return name, bytes_of(value) or b""


def committed(store: sqlite3.Connection, group: str, partition: str) -> int | None:
    row = store.execute("select offset from group_offset where name = ? and partition = ?", (group, partition)).fetchone()
    return row[0] if row else None


class Observer:
    """The harness' own client of the journal."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings, self.store = settings, connected(settings.bootstrap)
        consumer = settings.consumer or {}
        self.states = (COMMITTED,) if consumer.get("isolation.level") == Isolation.COMMITTED.value else (COMMITTED, ABORTED, OPEN)

    def open(self, timeout_s: float) -> None:
        self.at: dict[str, int] = {}

    def assign(self, positions: dict[str, Any]) -> None:
        self.at = dict.fromkeys(positions, 0)

    def ends(self) -> dict[str, int]:
        return {name: 1 for name, at in self.at.items() if at < 0}

    def poll(self, timeout_s: float, limit: int = 1000) -> list[Polled]:
        read_now = [one for name, at in self.at.items() if at >= 0 for one in read(self.store, name, at, self.states, 10**9)]
        self.at = dict.fromkeys(self.at, -1)
        return read_now

    def send(self, record: Outgoing, done: Any) -> None:
        message = {"topic": record.topic, "partition": record.partition, "headers": []}
        offset = appended(self.store, {**message, "key": None, "value": text_of(record.value)}, "fill", COMMITTED)
        done(Delivered(f"{record.topic}-{record.partition}", offset))

    def flush(self, timeout_s: float) -> None:
        pass

    def committed(self, partitions: list[str], timeout_s: float) -> dict[str, int | None]:
        return {name: committed(self.store, self.settings.group, name) for name in partitions}

    def close(self) -> None:
        self.store.close()


class Cluster:
    """A cluster of which the kit asks for its address and its offsets alone."""

    def __init__(self, path: str) -> None:
        self.path = path

    def bootstrap(self) -> str:
        return self.path

    def admin(self) -> Cluster:
        return self

    def end_offsets(self, partitions: Any, level: Isolation) -> dict[str, int]:
        store = connected(self.path)
        states = (COMMITTED,) if level is Isolation.COMMITTED else (COMMITTED, ABORTED, OPEN)
        ends = {partition: end_of(store, partition, states) for partition in partitions}
        store.close()
        return ends


def sleep_for_ever() -> None:
    while True:
        time.sleep(1)
