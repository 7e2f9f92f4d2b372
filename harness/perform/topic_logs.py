"""The logs of a connector's topics, of Connect's own state or of a program's changelogs, recorded at the end of a run.

Each partition is an operation `read-log` of the harness (docs/connect.md). The workload decodes the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.harness.api import (
    Cluster,
    ClusterError,
    HarnessError,
    LogEntry,
    LogRecord,
    Outcome,
    ReadingLogs,
    ReadsBack,
    Workload,
)
from fencepost.harness.api.clusters import second_of
from fencepost.harness.api.logs import cluster_and_name, of_second
from fencepost.harness.history.writer import HistoryWriter

FUNCTION = "read-log"
BESIDE = ("told", "dropped")  # kinds of rows beside a record's own, each with the field of `LogEntry` of this name
MARKERS = ("COMMIT", "ABORT", "control")
EntryOf = Callable[[LogRecord], LogEntry | None]


@dataclass(frozen=True, kw_only=True)
class WorkloadLogs:
    """The topics that a workload has read at the end, if it has any: logs of connectors, changelogs of a program's stores.

    wanted: True if there are any.
    prefix: the run's, of the names of topics.
    place: the run's prefix for workers of Connect, the run for a program.
    number: gives the harness's next operation its number.
    """

    workload: Workload
    wanted: bool
    prefix: str
    place: str
    cluster: Cluster
    number: Callable[[], int]

    @classmethod
    def of(cls, workload: Workload, plan: Mapping[str, Any], cluster: Cluster, number: Callable[[], int]) -> WorkloadLogs:
        """The logs that a workload's roles require."""
        connect = any(role.connect for role in workload.roles())
        stores = any(role.program.stores for role in workload.roles() if role.program)
        prefix, place = plan.get("prefix", ""), plan["prefix" if connect else "run"]
        return cls(workload=workload, wanted=connect or stores, prefix=prefix, place=place, cluster=cluster, number=number)

    @property
    def _readable(self) -> ReadsBack:
        if not isinstance(self.workload, ReadsBack):
            raise HarnessError(
                f"{type(self.workload).__name__} lacks logs and entry (harness.api.ReadsBack), and its roles need them"
            )
        return self.workload

    def entry_of(self) -> EntryOf:
        """The decoder of records of these topics."""
        workload, place = self._readable, self.place
        return lambda record: workload.entry(record, place)

    def record(self, writer: HistoryWriter) -> Iterator[str]:
        """Record what the leaders have of the topics; yields what could not be read."""
        if self.wanted:
            topics = self._readable.logs(self.prefix)
            yield from record_logs(self.cluster, topics, self.entry_of(), writer, self.number)


def record_logs(
    cluster: Cluster, topics: Iterable[str], entry: EntryOf, writer: HistoryWriter, number: Callable[[], int]
) -> Iterator[str]:
    """Record every partition of some topics; yields what could not be read, and why.

    topics: names (`second/NAME`: of the second Kafka cluster).
    entry: decodes a record of them; returns None for one of no interest.
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
        rows = [row for record, meaning in entries if meaning is not None for row in _rows(record, meaning)]
    except ClusterError as error:
        outcome = Outcome.INFO
        yield f"{error}, of the {where} cluster" if where else str(error)
    writer.complete(outcome, -1, number, FUNCTION, [["entries", partition, rows]], errors=[])


def _entry(record: LogRecord, entry: EntryOf) -> LogEntry | None:
    return entry(record) if record.kind == "record" else LogEntry(record.kind, "", -1)


def _rows(record: LogRecord, entry: LogEntry) -> Iterator[list[Any]]:
    producer = entry.producer or (record.producer_id, record.producer_epoch)
    place = [record.offset, record.timestamp_ms, *producer, record.transactional]
    yield [*place, entry.kind, entry.name, entry.number]
    for kind in BESIDE:
        if (number := getattr(entry, kind)) is not None:
            yield [*place, kind, entry.name, number]
