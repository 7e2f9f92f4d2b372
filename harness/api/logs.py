"""Partitions as their leaders have them: every record with its producer, markers of transactions included (KIP-98)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fencepost.harness.api.values import SECOND


def of_second(name: str) -> str:
    """A topic or partition of the second Kafka cluster as histories name it: `second/NAME`; names at Kafka have no slash."""
    return f"{SECOND}/{name}"


def cluster_and_name(name: str) -> tuple[str, str]:
    """The Kafka cluster (empty: the one that is judged) of a topic or partition as histories name it, and its name there."""
    cluster, _, own = name.rpartition("/")
    return cluster, own


@dataclass(frozen=True, kw_only=True)
class LogRecord:
    """A record of a partition's log.

    partition: `topic-number`.
    offset: its offset.
    timestamp_ms: its timestamp, milliseconds since 1970.
    producer_id: id of its producer; -1: there is none.
    producer_epoch: epoch of its producer; -1: there is none.
    transactional: it belongs to a transaction.
    kind: `record`, `COMMIT`, `ABORT`, `control` (another marker), or `zstd batch` and the like: all records of a batch that is
        compressed in a way that is not read here.
    key: its key; None: it has none.
    value: its value; None: it has none.
    headers: names and values, in order.
    """

    partition: str
    offset: int
    timestamp_ms: int
    producer_id: int
    producer_epoch: int
    transactional: bool
    kind: str
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[tuple[str, bytes]] = ()

    @property
    def topic(self) -> str:
        return self.partition.rpartition("-")[0]


@dataclass(frozen=True)
class LogEntry:
    """The meaning of a record of a connector, of Connect or of a changelog.

    kind: a kind of docs/connect.md.
    name: its subject: a source partition, a connector, a transactional id, a key.
    number: a position in the source, a count, a state; -1: none.
    told: up to which number of its source the record says that commitRecord was called; None: it does not say.
    dropped: how many batches its task had returned before it that a transform is to drop whole, -1: it is of such a batch itself;
        None: it does not say.
    producer: id and epoch of the producer that the record is about; None: it names none, and that of the record counts.
    """

    kind: str
    name: str
    number: int
    producer: tuple[int, int] | None = None
    told: int | None = None
    dropped: int | None = None


@runtime_checkable
class ReadingLogs(Protocol):
    """A running cluster whose partitions can be read as their leaders have them."""

    def partitions_of(self, topic: str) -> Sequence[str]:
        """The partitions of any topic, Kafka's own included; none where there is no such topic. Raises ClusterError."""

    def log(self, partition: str) -> Sequence[LogRecord]:
        """All of a partition up to its high watermark. Raises ClusterError."""
