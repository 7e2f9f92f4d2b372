"""What is read around incidents: operations, reads of their records, markers, last stable offsets, clocks, brokers' logs.

Incidents that are shown in full get all of it, the others their operations alone. Nothing here words or judges anything, and
whatever cannot be read is left out: the cards say what is not known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.harness.api import split_record_id
from fencepost.harness.api.history import STORED
from fencepost.harness.api.record_ids import operation_key
from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.api.stored_kinds import MARKERS
from fencepost.harness.report.broker_lines import BrokerLogs, broker_logs
from fencepost.harness.report.documents import Doc, Ops, ReportData
from fencepost.harness.report.incident_wire import WireRow, wire_rows
from fencepost.harness.report.incidents import WRITES, Incident, Written, incidents
from fencepost.harness.report.record_reads import Read, Reads, reads
from fencepost.harness.report.wall_clock import WallClock, wall_clock

OPERATIONS = 8  # of a finding, that its card shows
RECORDS = 24  # of an incident, whose reads are looked for
ACCUSED, LOOKS = 3, 2  # operations of an incident that are followed from call to call; looks at open transactions around it
NEAR_MS = 2_000  # of brokers' lines before and behind a moment
_MOST_MARKERS = 4_000


@dataclass(frozen=True, kw_only=True)
class Marker:
    """A COMMIT or ABORT marker in the brokers' logs. ms: its timestamp, by the coordinator's clock. nodes: whose logs have it."""

    partition: str
    offset: int
    kind: str
    producer_id: int
    epoch: int
    leader_epoch: int
    ms: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Material:
    """The material of the cards.

    history: operations by their index. indexes: of operations that write. before: of an operation, that before it in its process.
    reads: of the records of incidents shown in full.
    final: the final reads and the look at the end (`settle`), in order.
    looks: looks at open transactions, in order.
    markers: of the producers of accused transactions.
    wire: their requests, where proxies stood before the brokers.
    """

    data: ReportData
    history: Mapping[int, Doc] = field(default_factory=dict)
    values: Mapping[int, str] = field(default_factory=dict)
    indexes: Mapping[Written, int] = field(default_factory=dict)
    before: Mapping[int, int] = field(default_factory=dict)
    reads: Reads = field(default_factory=lambda: Reads(whole=False))
    final: tuple[Doc, ...] = ()
    looks: tuple[Doc, ...] = ()
    markers: tuple[Marker, ...] = ()
    wire: tuple[WireRow, ...] = ()
    clock: WallClock | None = None
    logs: BrokerLogs = field(default_factory=BrokerLogs)

    def accused(self, incident: Incident) -> list[Doc]:
        """The operations that an incident accuses, as far as they are known; the first ones."""
        indexes = sorted(self.indexes[written] for written in incident.accused if written in self.indexes)
        return [self.history[index] for index in indexes[:ACCUSED] if self.history.get(index, {}).get("time")]

    def detail(self, row: Doc) -> Mapping[str, Any]:
        """What an operation of the harness answered; empty when that is nothing."""
        return json_object(row.get("detail"))


def incidents_of(data: ReportData) -> tuple[Incident, ...]:
    """The incidents of a run's forbidden findings."""
    forbidden = [finding for finding in data.findings if finding.get("forbidden", True)]
    return incidents(forbidden, None if data.ops is None else _writes(data.ops, forbidden))


def _writes(ops: Ops, findings: Iterable[Doc]) -> dict[int, Written]:
    named = {index for finding in findings for index in finding.get("operations", ())}
    chosen = ops.at(named)
    chosen = chosen[np.isin(ops.f[chosen], WRITES)]
    columns = (ops.index[chosen], ops.process[chosen], ops.op[chosen])
    return {index: Written(process, number) for index, process, number in zip(*(c.tolist() for c in columns), strict=True)}


def material(data: ReportData, shown: Sequence[Incident], others: Set[int]) -> Material:
    """The material of incidents that are shown in full; others: further operations to be fetched."""
    if data.ops is None:
        return _with_logs(Material(data=data, values=_values(data, (), shown), clock=_clock(data)), shown)
    ops = data.ops
    indexes = _indexes(ops, {written for incident in shown for written in incident.accused[:200]})
    accused = [index for incident in shown for index in _first(indexes, incident)]
    before = _before(ops, accused)
    met = _reads(data, shown)
    first = {read.operation for v in met.of for read in first_reads(met.of[v])}
    times = [time for incident in shown if (time := incident.time)]
    around = _around(ops, times) if shown or others else set()
    history = ops.rows({*others, *accused, *before.values(), *first, *around})
    final = [history[index] for index in sorted(around) if history.get(index, {}).get("time")]
    made = Material(
        data=data,
        history=history,
        values=_values(data, history.values(), shown),
        indexes=indexes,
        before=before,
        reads=met,
        final=tuple(row for row in final if row["f"] != "list-transactions"),
        looks=tuple(row for row in final if row["f"] == "list-transactions"),
        markers=_markers(data.run, shown),
        wire=wire_rows(data.run, _spans([history[index] for index in accused if index in history])),
        clock=_clock(data),
    )
    return _with_logs(made, shown)


def moments(made: Material, incident: Incident) -> list[int]:
    """Moments (ns) around which brokers' lines matter: calls and errors of what an incident accuses, else of what it names."""
    rows = made.accused(incident) or [made.history[index] for index in incident.operations[:OPERATIONS] if index in made.history]
    times: list[int | None] = [incident.time]
    for row in rows:
        times += [row.get("time"), row.get("decided"), row.get("end"), *(error.get("time") for error in row.get("errors") or ())]
    return sorted({time for time in times if time and time > 0})


def first_reads(of_record: Sequence[Read]) -> tuple[Read, ...]:
    """The first reads of a record: enough to show who read it."""
    return tuple(of_record[:1])


def json_object(text: Any) -> Mapping[str, Any]:
    """A JSON object; empty for everything else."""
    try:
        document = json.loads(text or "{}")
    except (ValueError, TypeError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


# --------------------------------------------------------------------------------------------------
# Operations
# --------------------------------------------------------------------------------------------------
def _indexes(ops: Ops, written: set[Written]) -> dict[Written, int]:
    if not written:
        return {}
    keys = {int(operation_key(each.process, each.number)): each for each in written}
    of_all = operation_key(ops.process.astype(np.int64), ops.op)
    chosen = np.flatnonzero(np.isin(of_all, np.fromiter(keys, dtype=np.int64)) & ops.f.among(*WRITES))
    return {keys[key]: index for key, index in zip(of_all[chosen].tolist(), ops.index[chosen].tolist(), strict=True)}


def _spans(rows: Iterable[Doc]) -> list[tuple[str, int, int]]:
    """The transactional id of operations, and when each began and ended."""
    return [
        (row["transactional_id"], row["time"], row.get("end") or row["time"])
        for row in rows
        if row.get("transactional_id") and row.get("time")
    ]


def _first(indexes: Mapping[Written, int], incident: Incident) -> list[int]:
    return sorted(indexes[written] for written in incident.accused if written in indexes)[:ACCUSED]


def _before(ops: Ops, accused: Sequence[int]) -> dict[int, int]:
    """The operation before each of these in its process."""
    made = {}
    for position in ops.at(accused).tolist():
        same = np.flatnonzero((ops.process == ops.process[position]) & (ops.op < ops.op[position]))
        if len(same):
            made[int(ops.index[position])] = int(ops.index[same[np.argmax(ops.op[same])]])
    return made


def _around(ops: Ops, times: Sequence[int]) -> set[int]:
    """The final reads, the looks at the end, and the looks at open transactions before and behind these times."""
    final = ops.index[np.flatnonzero(ops.f.among("final-read", "settle"))][-8:].tolist()
    looks = np.flatnonzero(ops.f.among("list-transactions"))
    for time in times:
        at = int(np.searchsorted(ops.time[looks], time))
        final += ops.index[looks[max(0, at - 1) : at + LOOKS]].tolist()
    return set(final)


def _reads(data: ReportData, shown: Sequence[Incident]) -> Reads:
    identities = {v for incident in shown for record in incident.records[:RECORDS] if (v := record.get("v")) is not None}
    whole = data.run is None or not data.run.is_remote
    try:
        return reads(data.ops, identities, whole)
    except (OSError, pa.ArrowException):  # the page says elsewhere what could not be read
        return Reads(whole=False)


def _values(data: ReportData, rows: Iterable[Doc], shown: Sequence[Incident]) -> Mapping[int, str]:
    records = [record.get("v") for finding in data.findings for record in finding.get("records", ())[:RECORDS]]
    records += [record.get("v") for incident in shown for record in incident.records[:RECORDS]]
    records += [mop["v"] for row in rows for mop in row.get("mops") or ()]
    return data.originals(v for v in records if v is not None)


# --------------------------------------------------------------------------------------------------
# Log segments, clocks and logs
# --------------------------------------------------------------------------------------------------
def producers(incident: Incident) -> set[tuple[int, int]]:
    """Id and epoch of the producers of the records that an incident accuses, by the log segments."""
    rows = [row for finding in incident.findings for row in (finding.get("stored") or {}).get("rows", ())]
    of_accused = set(incident.accused)
    chosen = [row for row in rows if (row.get("v") if row.get("v") is not None else -1) >= 0]
    return {
        (row["producer_id"], row.get("producer_epoch", -1))
        for row in chosen
        if Written(*split_record_id(row["v"])[:2]) in of_accused and row.get("producer_id", -1) >= 0
    }


def markers_epochs(incident: Incident) -> set[tuple[int, int]]:
    """Id and epoch of the markers that may decide what an incident accuses: a coordinator that aborts by itself, and each end of
    a transaction by the second protocol, writes them with the next epoch (KIP-360, KIP-890).
    """
    return {(producer, epoch + more) for producer, epoch in producers(incident) for more in (0, 1)}


def decisions(incident: Incident) -> set[tuple[str, int]]:
    """The partition and offset of each marker that decided a record which an incident accuses, by the log segments."""
    fates = [fate for finding in incident.findings for fate in (finding.get("stored") or {}).get("fates", ())]
    decided = [fate for fate in fates if fate.get("marker") is not None and fate.get("v") is not None]
    of_accused = set(incident.accused)
    return {(fate.get("partition"), fate["marker"]) for fate in decided if Written(*split_record_id(fate["v"])[:2]) in of_accused}


def _markers(run: Run | None, shown: Sequence[Incident]) -> tuple[Marker, ...]:
    wanted = {producer for incident in shown for producer in markers_epochs(incident)}
    decisive = {place for incident in shown for place in decisions(incident)}
    if run is None or not wanted or run.logs is None or run.table_problem(RunFile.STORED, STORED):
        return ()
    columns = ["partition", "offset", "producer_id", "producer_epoch", "kind", "timestamp", "leader_epoch"]
    filters = [("kind", "in", list(MARKERS)), ("producer_id", "in", sorted({producer for producer, _ in wanted}))]
    try:
        table = pq.read_table(run.path(RunFile.STORED), columns=[*columns, "node"], filters=filters)
    except (OSError, pa.ArrowException):
        return ()
    rows = table.group_by(columns).aggregate([("node", "list")]).sort_by([("timestamp", "ascending"), ("partition", "ascending")])
    epochs = pc.is_in(rows["producer_epoch"].cast(pa.int32()), pa.array(sorted({epoch for _, epoch in wanted}), pa.int32()))
    chosen = pc.or_(epochs, pc.is_in(rows["offset"], pa.array(sorted({offset for _, offset in decisive}), pa.int64())))
    return tuple(
        Marker(
            partition=row["partition"],
            offset=row["offset"],
            kind=row["kind"],
            producer_id=row["producer_id"],
            epoch=row["producer_epoch"],
            leader_epoch=row["leader_epoch"],
            ms=row["timestamp"],
            nodes=tuple(sorted(set(row["node_list"]))),
        )
        for row in rows.filter(chosen).slice(0, _MOST_MARKERS).to_pylist()
        if (row["producer_id"], row["producer_epoch"]) in wanted or (row["partition"], row["offset"]) in decisive
    )


def _clock(data: ReportData) -> WallClock | None:
    return None if data.run is None else wall_clock(data.run, data.ops)


def _with_logs(made: Material, shown: Sequence[Incident]) -> Material:
    """The material with the brokers' logs around the incidents; without a clock nobody knows where to look in them."""
    clock, run = made.clock, made.data.run
    if clock is None or run is None or not shown:
        return made
    stretches = [stretch for incident in shown for stretch in near(made, incident)]
    known = {
        node for incident in shown for finding in incident.findings for node in (finding.get("stored") or {}).get("nodes", ())
    }
    logs = broker_logs(run, stretches, sorted(str(node) for node in known))
    return Material(**{**vars(made), "logs": logs})


def near(made: Material, incident: Incident) -> list[tuple[int, int]]:
    """The stretches of time (ms since 1970) in which brokers' lines belong to an incident: two seconds around each moment."""
    clock = made.clock
    return [] if clock is None else [(clock.ms(time) - NEAR_MS, clock.ms(time) + NEAR_MS) for time in moments(made, incident)]
