"""The lives of findings' records: sent, acknowledged, decided with their transaction, read for the first time and later.

Computed from the whole history, by the records' identities; what the page's sample of operations lacks is in them all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.harness.api.stored_kinds import MARKERS
from fencepost.harness.api.words import plural
from fencepost.harness.page_text import place, record_name, shortened
from fencepost.harness.report.documents import NEVER, Doc, Ints, Ops, ReportData
from fencepost.harness.report.records import READ, SENT, Records
from fencepost.harness.visible_text import visible

MOST_LIVES, PER_FINDING = 600, 24
_READS, _NAME, _MOST_STORED = 12, 60, 5_000_000


@dataclass(frozen=True)
class Event:
    """A step of a record's life. at: ns, None where no clock of ours saw it. op: index of the operation that shows it."""

    at: int | None
    kind: str
    text: str
    op: int | None = None


def lives(run: ReportData, ops: Ops, table: Records) -> list[dict[str, Any]]:
    """The lives of the first records of each finding, for the page's script."""
    wanted = _wanted(run.findings)
    inside = np.flatnonzero(np.isin(table.v, np.fromiter(wanted, dtype=np.int64)))
    order = inside[np.lexsort((ops.time[table.op[inside]], table.v[inside]))]
    identities, first = np.unique(table.v[order], return_index=True)
    parts = dict(zip(identities.tolist(), np.split(order, first[1:]) if len(first) else [], strict=True))
    stored = markers(run.stored, list(wanted))
    values = run.originals(wanted)
    return [
        {
            "v": v,
            "name": visible(shortened(values.get(v) or record_name(v), _NAME)),
            "places": _places(parts[v], table),
            "findings": findings,
            "events": [_packed(event, run.origin_ns) for event in _events(parts[v], ops, table, stored.get(v, ()))],
        }
        for v, findings in wanted.items()
        if v in parts
    ]


def _wanted(findings: Sequence[Doc]) -> dict[int, list[int]]:
    """Identities of records, each with the findings that are about it."""
    wanted: dict[int, list[int]] = {}
    for finding in findings:
        for record in finding.get("records", ())[:PER_FINDING]:
            v = record.get("v")
            if v is not None and v != NEVER and (v in wanted or len(wanted) < MOST_LIVES):
                wanted.setdefault(v, []).append(finding.get("id", 0))
    return {v: list(dict.fromkeys(ids)) for v, ids in wanted.items()}


def _places(at: Ints, table: Records) -> list[str]:
    """Where it was sent to; where it was read, if nobody is known to have sent it."""
    sends = at[table.kind[at] == SENT]
    chosen = sends if len(sends) else at[:1]
    return list(dict.fromkeys(visible(place(table.partitions[table.partition[k]], int(table.offset[k]))) for k in chosen))


def _packed(event: Event, origin_ns: int) -> list[Any]:
    return [None if event.at is None else (event.at - origin_ns) // 1000, event.kind, visible(event.text), event.op]


def _events(at: Ints, ops: Ops, table: Records, stored: Sequence[str]) -> list[Event]:
    """In order of time; behind these what has no time of ours."""
    events = [*_sent(at, ops, table), *(Event(None, "stored", text) for text in stored), *_read(at, ops, table)]
    known = sorted((event for event in events if event.at is not None), key=lambda event: event.at or 0)
    return [*known, *(event for event in events if event.at is None)]


def _sent(at: Ints, ops: Ops, table: Records) -> Iterator[Event]:
    """Its sends. A record has one, unless something went wrong."""
    sends = at[table.kind[at] == SENT]
    if not len(sends):
        yield Event(None, "sent", "no operation of the history that was looked at sent it")
    for k in sends.tolist():
        op, partition, offset = int(table.op[k]), table.partitions[table.partition[k]], int(table.offset[k])
        index, began = int(ops.index[op]), int(table.began[k])
        yield Event(int(ops.time[op]) if began == NEVER else began, "sent", f"sent to {partition} by {_who(ops, op)}", index)
        if table.ended[k] == NEVER:
            yield Event(None, "acknowledged", "its acknowledgement is not known", index)
        else:
            yield Event(int(table.ended[k]), "acknowledged", f"acknowledged at {place(partition, offset)}", index)
        yield from _decided(ops, op)


def _decided(ops: Ops, op: int) -> Iterator[Event]:
    if ops.f[op] != "txn":
        return
    intent, outcome, end = str(ops.intent[op]) or "transaction", str(ops.type[op]), int(ops.end[op])
    words = {"ok": f"{intent} returned ok", "fail": f"{intent} failed: it surely did not happen"}
    text = words.get(outcome, f"{intent} ended without a known outcome") if end != NEVER else f"{intent} never completed"
    if intent == "abort" and outcome == "fail":
        text = "abort: its transaction surely did not commit"
    yield Event(None if end == NEVER else end, "decided", text, int(ops.index[op]))


def _read(at: Ints, ops: Ops, table: Records) -> Iterator[Event]:
    reads = at[table.kind[at] == READ]
    when = np.where(table.ended[reads] == NEVER, ops.time[table.op[reads]], table.ended[reads])
    reads = reads[np.argsort(when, kind="stable")]
    for number, k in enumerate(reads[:_READS].tolist()):
        op = int(table.op[k])
        where = place(table.partitions[table.partition[k]], int(table.offset[k]))
        words = "returned by the final read" if ops.final[op] else "read again" if number else "first read"
        moment = int(ops.time[op]) if table.ended[k] == NEVER else int(table.ended[k])
        yield Event(moment, "final" if ops.final[op] else "read", f"{words} at {where} by {_who(ops, op)}", int(ops.index[op]))
    if len(reads) > _READS:
        yield Event(None, "read", f"and {plural(len(reads) - _READS, 'more read')}")
    if not table.whole:
        yield Event(None, "read", "only the operations of findings were looked through: the history has too many records")
    elif not len(reads):
        yield Event(None, "read", "no read of the history returned it")


def _who(ops: Ops, op: int) -> str:
    return f"{ops.node[op]} (process {ops.process[op]}, op {ops.op[op]})".strip()


def markers(stored: Path | None, wanted: Sequence[int]) -> dict[int, list[str]]:
    """Where the brokers' log segments hold records, and the marker behind each, by the records' identities."""
    if stored is None or not wanted or pq.read_metadata(stored).num_rows > _MOST_STORED:
        return {}
    columns = ["partition", "producer_id", "offset", "kind", "v"]
    identity = pc.field("v").isin(pa.array(sorted(wanted), pa.int64()))
    table = pq.read_table(stored, columns=columns, filters=identity | pc.field("kind").isin(MARKERS))
    rows = table.group_by(columns).aggregate([]).sort_by("offset").to_pylist()  # replicas hold the same
    ends: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for row in rows:
        if row["kind"] in MARKERS:
            ends.setdefault((row["partition"], row["producer_id"]), []).append((row["offset"], row["kind"]))
    texts: dict[int, list[str]] = {}
    for row in rows:
        if row["kind"] not in MARKERS:
            behind = ends.get((row["partition"], row["producer_id"]), [])
            texts.setdefault(row["v"], []).append(_marker(row, next((end for end in behind if end[0] > row["offset"]), None)))
    return texts


def _marker(row: Doc, end: tuple[int, str] | None) -> str:
    where = place(row["partition"], row["offset"])
    if end is None:
        return f"in the log segments at {where}, without a marker of its producer behind it"
    return f"in the log segments at {where}; its producer's next marker is {end[1]} at {place(row['partition'], end[0])}"
