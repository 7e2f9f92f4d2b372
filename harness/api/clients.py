"""Clients: the calls that workloads make, what a client may be unable to do, and the families whose versions run as drivers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

CAPABILITIES: Mapping[str, str] = {
    "transactions": "transactional producers: `begin`, `commit`, `abort`",
    "idempotence": "idempotent producers without transactions",
    "assign": "reading assigned partitions, without a group",
    "ends": "the end of each partition, where there is nothing more to read",
    "partitioner": "sending without naming the partition",
    "headers": "headers of records",
    "offsets-in-transactions": "committing a group's offsets in a transaction",
    "groups": "subscribing with a consumer group",
    "offset-commits": "committing a group's offsets outside transactions",
    "memberless-offsets": "committing a group's offsets in a transaction without naming the member",
    "static-members": "static members of consumer groups",
    "consumer-protocol": "the consumer group protocol of KIP-848",
    "seek": "seeking, and the present position",
    "initialise": "another producer under the same transactional id",
    "leave": "an orderly end",
    "isolation": "both isolation levels",
    "threads": "sending from several threads at once",
}
"""Capabilities of a client, each with what it offers (docs/client-drivers.md)."""
CALLS: Mapping[str, tuple[str, ...]] = {
    "transactions": ("begin", "commit", "abort"),
    "assign": ("assign",),
    "offsets-in-transactions": ("send_offsets", "group"),
    "groups": ("subscribe", "committed"),
    "offset-commits": ("commit_offsets",),
    "memberless-offsets": ("memberless_group",),
    "seek": ("seek", "position"),
    "initialise": ("initialise",),
    "leave": ("leave",),
}
"""Calls of a client by the capability that they need. A client has all other calls in any case."""
RECOVERIES: Mapping[str, str] = {
    "documented": "what the library's documentation tells an application to do",
    "new-producer": "a new producer after each commit or abort that failed, unless the commit was refused unattempted",
}
"""Recoveries: what follows a call of a producer that failed (docs/clients.md)."""
Position = int | Literal["start", "end"]
"""A position of a consumer: an offset, the first record that is still there, or the high watermark."""


class CallError(Exception):
    """An error of a client call.

    call: the call that failed.
    name: the client's name of the error (`_TIMED_OUT`, `ProducerFencedException`).
    code: the number of the error, Kafka's where there is one.
    text: the client's message.
    fatal: the client cannot be used any more.
    retriable: the call may be made again.
    abortable: the transaction must be aborted.
    unconfirmed: of a commit: nobody knows whether it happened, and the library's documentation has the application abort, and go
        on with the same producer.
    """

    def __init__(
        self,
        call: str,
        name: str,
        code: int,
        text: str,
        *,
        fatal: bool = False,
        retriable: bool = False,
        abortable: bool = False,
        unconfirmed: bool = False,
    ) -> None:
        super().__init__(f"{call}: {name}: {text}")
        self.call, self.name, self.code, self.text = call, name, code, text
        self.fatal, self.retriable, self.abortable, self.unconfirmed = fatal, retriable, abortable, unconfirmed

    def row(self) -> dict[str, Any]:
        """The error as a history has it (docs/history.md), raised now."""
        flags = {"fatal": self.fatal, "retriable": self.retriable, "abortable": self.abortable}
        return {"call": self.call, "name": self.name, "code": self.code, "text": self.text, **flags, "time": time.monotonic_ns()}


@dataclass(frozen=True, kw_only=True)
class Outgoing:
    """A record to send.

    topic: the name of its topic.
    partition: the number of its partition; None: the client's partitioner chooses.
    key: None: the record has none.
    value: None: a tombstone.
    headers: names and values, in order.
    """

    topic: str
    partition: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[tuple[str, bytes]] = ()


@dataclass(frozen=True)
class Delivered:
    """The place of an acknowledged record.

    partition: `topic-number`.
    offset: None when the client does not report it.
    """

    partition: str
    offset: int | None


@dataclass(frozen=True)
class Polled:
    """A record as a consumer returned it.

    partition: `topic-number`.
    offset: its offset.
    value: its value.
    key: None: the record has none.
    headers: names and values, in order.
    timestamp_ms: milliseconds since 1970; None when the client has none.
    """

    partition: str
    offset: int
    value: bytes
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes]] = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True)
class Rebalance:
    """A rebalance as a subscribed consumer sees it.

    kind: the partitions were assigned to it, revoked from it, or lost.
    partitions: `topic-number` of each.
    """

    kind: Literal["assigned", "revoked", "lost"]
    partitions: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """The settings that a client is opened with.

    name: the client's name, from which its own consumer group is made.
    bootstrap: the bootstrap servers.
    transactional_id: of its producer; None: the producer is not transactional.
    producer: settings of its producer; None: it has no producer.
    consumer: settings of its consumer; None: it has no consumer.
    shared_group: a consumer group that it shares with other clients; empty: it has its own.
    recovery: name of `RECOVERIES`: what follows a call of its producer that failed.
    """

    name: str
    bootstrap: str
    transactional_id: str | None = None
    producer: Mapping[str, Any] | None = field(default=None, repr=False)  # these hold secrets
    consumer: Mapping[str, Any] | None = field(default=None, repr=False)
    shared_group: str = ""
    recovery: str = "documented"

    @property
    def group(self) -> str:
        """The consumer group of the client: the shared group, or its own."""
        return self.shared_group or consumer_group(self.name)


def consumer_group(name: str) -> str:
    """The consumer group of the client of this name."""
    return f"{name}-readers"


Done = Callable[[Delivered | CallError], None]
"""A callback for the delivery report of one record."""
GroupMetadata = Any
"""The group metadata of a consumer: a client's `group` returns it, its `send_offsets` takes it."""


class Client(Protocol):
    """Plug-in `fencepost.client`: one producer and one consumer. Every call may raise `CallError`.

    A client without a capability lacks the calls of it, or raises a `CallError` named `UNSUPPORTED` from them.

    version: the client library and its release.
    capabilities: names of `CAPABILITIES`.
    """

    version: ClassVar[str]
    capabilities: ClassVar[frozenset[str]]

    @property
    def library(self) -> str:
        """The client library, whose error names decide outcomes (docs/outcomes.md): `librdkafka`, `franz-go`."""

    def __init__(self, settings: ClientSettings) -> None: ...
    def open(self, timeout_s: float) -> None:
        """Make the producer, and initialise its transactions; a consumer fetches nothing before `assign` or `subscribe`."""

    def initialise(self, timeout_s: float) -> None:
        """Let go of the producer without waiting, and make another one under the same transactional id."""

    def begin(self) -> None: ...
    def send(self, record: Outgoing, done: Done) -> None:
        """Hand one record over; `done` is called once, from within a later call, with where it lies or why it was given up."""

    def flush(self, timeout_s: float) -> None: ...
    def send_offsets(self, offsets: Mapping[str, int], group: GroupMetadata, timeout_s: float) -> None:
        """Add a group's offsets to the transaction: partition -> the next offset to read."""

    def commit(self, timeout_s: float) -> None: ...
    def abort(self, timeout_s: float) -> None: ...
    def assign(self, positions: Mapping[str, Position]) -> None:
        """Read these partitions, without a group."""

    def subscribe(self, topics: Sequence[str], rebalanced: Callable[[Rebalance], None]) -> None:
        """Join the group; `rebalanced` is called from within later calls. The client lets each rebalance go on at once."""

    def seek(self, positions: Mapping[str, Position]) -> None: ...
    def position(self, partitions: Sequence[str]) -> Mapping[str, int | None]:
        """The offset of the next record that `poll` will return, for each."""

    def committed(self, partitions: Sequence[str], timeout_s: float) -> Mapping[str, int | None]:
        """The group's committed offsets."""

    def commit_offsets(self, offsets: Mapping[str, int], timeout_s: float) -> None:
        """Commit offsets of the group, outside any transaction: partition -> the next offset to read."""

    def group(self) -> GroupMetadata:
        """The present group metadata of the consumer."""

    def memberless_group(self) -> GroupMetadata:
        """Group metadata with the group's name alone: offsets that are added with it fence no member (as before KIP-447)."""

    def poll(self, timeout_s: float, limit: int = 1000) -> list[Polled]: ...
    def ends(self) -> Mapping[str, int]:
        """Partitions that the consumer has read to their end, with the offset it stood at."""

    def leave(self, timeout_s: float) -> None:
        """A soft end: flush, leave the group, close."""

    def close(self) -> None:
        """A hard end: let go of everything at once; never waits for a broker."""


class DriverFamily(Protocol):
    """Plug-in `fencepost.driver`: a client library of which any released version runs as a driver (docs/client-drivers.md).

    Made without arguments. What is downloaded and what is built lies in a cache, complete or absent; the harness sees to that, to
    locks, checksums and leftovers, and gives empty directories to fill. Both raise HarnessError with the remedy.

    default: the version where none is named.
    versions: the versions that there are, in words.
    """

    default: ClassVar[str]
    versions: ClassVar[str]

    def refusal(self, version: str) -> str:
        """The reason why there can be no such version, judged by its text alone; empty when there may be."""

    def missing(self, built: bool = False) -> str:
        """Prerequisites that this machine lacks, with the remedy; empty when none.

        built: to drive what was fetched and built before.
        """

    def sources(self) -> Sequence[Path]:
        """The files of the driver itself: when they change, `build` is called again."""

    def download(self, version: str, directory: Path, progress: Callable[[str], None]) -> None:
        """Fetch the library, and all that `build` and `command` need of the network, into a directory."""

    def build(self, version: str, library: Path, directory: Path) -> None:
        """Make the driver of its sources and the downloaded library; nothing, when the sources are run as they are."""

    def command(self, version: str, library: Path, built: Path) -> Sequence[str]:
        """The command line of the driver. Raises UnusableLibrary when this machine cannot use any more what was downloaded."""

    def reads(self) -> Sequence[Path]:
        """Directories outside the cache and the system's own that the driver's process needs to see (a runtime)."""
