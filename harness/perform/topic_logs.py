"""What the brokers' logs hold of a connector, of Connect's own state or of a program's changelogs, recorded at the end of a run.

Each partition is an operation `read-log` of the harness (docs/connect.md). The workload says what a record is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fencepost.harness.api import Cluster, ClusterError, LogEntry, LogRecord, Outcome, ReadingLogs
from fencepost.harness.api.clusters import second_of
from fencepost.harness.api.logs import cluster_and_name, of_second
from fencepost.harness.history.writer import HistoryWriter

FUNCTION = "read-log"
MARKERS = ("COMMIT", "ABORT", "control")
EntryOf = Callable[[LogRecord], LogEntry | None]


def record_logs(
    cluster: Cluster, topics: Iterable[str], entry: EntryOf, writer: HistoryWriter, number: Callable[[], int]
) -> Iterator[str]:
    """Record every partition of some topics; yields what could not be read, and why.

    topics: names (`second/NAME`: of the second Kafka cluster). entry: what a record of them is (None: of no interest).
    """
    if not isinstance(cluster, ReadingLogs):
        yield "the logs of this cluster cannot be read: nobody knows which transaction a record belongs to"
        return
    for name in topics:
        where, topic = cluster_and_name(name)
        logs = second_of(cluster) if where else cluster
        try:
            partitions = sorted(_of_somebody(logs).partitions_of(topic))
        except ClusterError as error:
            writer.invoke(-1, unread := number(), FUNCTION, {})
            writer.complete(Outcome.INFO, -1, unread, FUNCTION, [["entries", f"{name}-0", []]], errors=[])
            yield f"nobody knows the partitions of {name}: {error}"
            continue
        for partition in partitions:
            yield from _record_one(_of_somebody(logs), entry, of_second(partition) if where else partition, (writer, number()))


def _of_somebody(logs: ReadingLogs | None) -> ReadingLogs:
    if logs is None:
        raise ClusterError("this test has no second Kafka cluster")
    return logs


def _record_one(logs: ReadingLogs, entry: EntryOf, partition: str, place: tuple[HistoryWriter, int]) -> Iterator[str]:
    writer, number = place
    where, name = cluster_and_name(partition)
    writer.invoke(-1, number, FUNCTION, {})
    rows, outcome = [], Outcome.OK
    try:
        entries = ((record, _entry(record, entry)) for record in logs.log(name))
        rows = [_row(record, found) for record, found in entries if found is not None]
    except ClusterError as error:
        outcome = Outcome.INFO
        yield f"{error}, of the {where} cluster" if where else str(error)
    writer.complete(outcome, -1, number, FUNCTION, [["entries", partition, rows]], errors=[])


def _entry(record: LogRecord, entry: EntryOf) -> LogEntry | None:
    return entry(record) if record.kind == "record" else LogEntry(record.kind, "", -1)


def _row(record: LogRecord, entry: LogEntry) -> list[Any]:
    producer = entry.producer or (record.producer_id, record.producer_epoch)
    return [record.offset, record.timestamp_ms, *producer, record.transactional, entry.kind, entry.name, entry.number]
