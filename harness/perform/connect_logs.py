"""What the brokers' logs hold of a connector and of Connect's own state, recorded at the end of a run.

Each partition is an operation `read-log` of the harness (docs/connect.md). The workload says what a record is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from harness.api import Cluster, ClusterError, LogEntry, LogRecord, Outcome, ReadingLogs
from harness.history.writer import HistoryWriter

FUNCTION = "read-log"
MARKERS = ("COMMIT", "ABORT", "control")


def record_logs(cluster: Cluster, workload: Any, prefix: str, writer: HistoryWriter, number: Callable[[], int]) -> Iterator[str]:
    """Record every partition of the workload's logs; yields what could not be read, and why.

    workload: has `logs(prefix)`, names of topics, and `entry(record, prefix)`, what a record of them is (None: of no interest).
    """
    if not isinstance(cluster, ReadingLogs):
        yield "the logs of this cluster cannot be read: nobody knows which transaction a record belongs to"
        return
    for topic in workload.logs(prefix):
        try:
            partitions = sorted(cluster.partitions_of(topic))
        except ClusterError as error:
            yield f"nobody knows the partitions of {topic}: {error}"
            continue
        for partition in partitions:
            yield from _record_one(cluster, workload, prefix, partition, (writer, number()))


def _record_one(
    cluster: ReadingLogs, workload: Any, prefix: str, partition: str, place: tuple[HistoryWriter, int]
) -> Iterator[str]:
    writer, number = place
    writer.invoke(-1, number, FUNCTION, {})
    rows, outcome = [], Outcome.OK
    try:
        entries = ((record, _entry(record, workload, prefix)) for record in cluster.log(partition))
        rows = [_row(record, entry) for record, entry in entries if entry is not None]
    except ClusterError as error:
        outcome = Outcome.INFO
        yield str(error)
    writer.complete(outcome, -1, number, FUNCTION, [["entries", partition, rows]], errors=[])


def _entry(record: LogRecord, workload: Any, prefix: str) -> LogEntry | None:
    if record.kind == "record":
        entry: LogEntry | None = workload.entry(record, prefix)
        return entry
    return LogEntry(record.kind, "", -1)


def _row(record: LogRecord, entry: LogEntry) -> list[Any]:
    producer = entry.producer or (record.producer_id, record.producer_epoch)
    return [record.offset, record.timestamp_ms, *producer, record.transactional, entry.kind, entry.name, entry.number]
