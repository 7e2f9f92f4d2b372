"""Rows of a card: records, log segments, and operations with the errors of their calls."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.harness.api.words import plural
from fencepost.harness.page_text import NOTHING, at, duration, number, place, record_name, shortened
from fencepost.harness.report.documents import Doc
from fencepost.harness.report.incident_events import error_name, flags
from fencepost.harness.report.incident_material import Marker, Material
from fencepost.harness.report.incidents import Incident
from fencepost.harness.report.wall_clock import date_of

_DIFFER = "differ"
_TOGETHER = {
    "committed": "committed",
    "aborted": "aborted",
    "open": "without a marker",
    "plain": "outside transactions",
    "absent": "in no log",
    _DIFFER: "not alike in all logs",
}
_MICRO, _ERRORS, _NAMES, _STORED = 12, 10, 3, 60
_VALUE, _MICRO_VALUE = 400, 60
_SENT = 0


@dataclass(frozen=True, kw_only=True)
class Micro:
    """A record sent or read inside an operation; `mark` is missing, read or sent when the finding is about it.

    value: what the record is called where the history comes from; empty for our own histories, here and in `Record`.
    """

    verb: str
    place: str
    value: str
    record: str
    mark: str
    note: str


@dataclass(frozen=True, kw_only=True)
class ClientError:
    """An error as the client reported it, whatever became of the operation."""

    when: str
    call: str
    name: str
    text: str
    flags: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class OperationRow:
    """One operation of an incident. anchored: links lead to it here, and nowhere else on the page."""

    index: int
    title: str
    who: str
    outcome: str
    when: str
    micro: tuple[Micro, ...]
    more_micro: int
    errors: tuple[ClientError, ...]
    more_errors: int
    strange: tuple[tuple[str, str, str], ...]  # (place, why, raw)
    anchored: bool = False


@dataclass(frozen=True, kw_only=True)
class Record:
    """One record of a finding. logs: what the brokers' logs make of it, in words; empty: they say nothing of it."""

    place: str
    value: str
    sender: str
    v: str
    role: str
    operation: str
    logs: str = ""


@dataclass(frozen=True, kw_only=True)
class StoredRow:
    """The content of the brokers' logs at an offset. mark: the role in the finding of the record there, if it has one."""

    place: str
    time: str
    kind: str
    record: str
    producer: str
    sequence: str
    leader_epoch: str
    nodes: str
    mark: str


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The log segments around an incident.

    nodes: the brokers that they are of.
    rows: what they hold, in the order of offsets.
    absent: missing records that none of them holds.
    """

    nodes: str
    rows: tuple[StoredRow, ...]
    absent: str


def marks_of(records: Iterable[Doc]) -> dict[tuple[Any, Any], str]:
    """The role of each record: `missing` and `read` say more than `sent`."""
    marks: dict[tuple[Any, Any], str] = {}
    for record in records:
        key = (record.get("partition"), record.get("v"))
        if marks.get(key, "sent") == "sent":
            marks[key] = record.get("role", "")
    return marks


def fates(incident: Incident) -> dict[tuple[Any, Any], str]:
    """What the brokers' logs make of each record of an incident (partition, v), in words."""
    return {record: _agreed(answers) for record, answers in _answers(incident).items()}


def fates_together(incident: Incident) -> str:
    """What the logs make of all records of an incident, in words: how many have which fate; empty: they say nothing."""
    alike = [answers[0].get("fate", "") if len(answers) == 1 else _DIFFER for answers in _answers(incident).values()]
    counts = Counter(fate for fate in alike if fate in _TOGETHER)
    if not counts:
        return ""
    parts = [f"{number(counts[fate])} {words}" for fate, words in _TOGETHER.items() if fate in counts]
    return f"of {plural(len(alike), 'record')}: {', '.join(parts)}"


def _answers(incident: Incident) -> dict[tuple[Any, Any], list[Doc]]:
    """The answers of the logs about each record."""
    stored = [finding["stored"] for finding in incident.findings if finding.get("stored")]
    told: dict[tuple[Any, Any], list[Doc]] = {}
    for fate in {json.dumps(fate, sort_keys=True): fate for each in stored for fate in each.get("fates", ())}.values():
        told.setdefault((fate.get("partition"), fate.get("v")), []).append(fate)
    return told


def _agreed(answers: Sequence[Doc]) -> str:
    if len(answers) == 1:
        return "in no log" if answers[0].get("fate") == "absent" else _fate(answers[0])
    return "; ".join(f"{', '.join(answer.get('nodes', ()))}: {_fate(answer)}" for answer in answers)


def _fate(answer: Doc) -> str:
    words = {
        "committed": f"committed by the marker at offset {answer.get('marker')}",
        "aborted": f"aborted by the marker at offset {answer.get('marker')}",
        "open": "no marker ends its transaction",
        "plain": "outside transactions",
        "absent": "not there",
    }
    return words.get(answer.get("fate", ""), "")


def record_row(record: Doc, values: Mapping[int, str], told: Mapping[tuple[Any, Any], str]) -> Record:
    """told: `fates`."""
    v, operation = record.get("v"), record.get("operation")
    return Record(
        place=place(record.get("partition"), record.get("offset")),
        value="" if v is None else shortened(values.get(v, ""), _VALUE),
        sender=record_name(v),
        v=NOTHING if v is None else str(v),
        role=record.get("role", ""),
        operation=NOTHING if operation is None else str(operation),
        logs=told.get((record.get("partition"), v), ""),
    )


def stored_rows(incident: Incident, markers: Iterable[Marker] = ()) -> list[Doc]:
    """What the logs hold around the records of an incident, and these markers, in the order of offsets."""
    rows = [row for finding in incident.findings for row in (finding.get("stored") or {}).get("rows", ())]
    rows += [_marker(marker) for marker in markers]
    named = {(row.get("partition"), row.get("offset"), row.get("producer_id"), tuple(row.get("nodes", ()))): row for row in rows}
    return sorted(named.values(), key=lambda row: (str(row.get("partition")), row.get("offset") or 0))


def _marker(marker: Marker) -> Doc:
    named = {
        "offset": marker.offset,
        "kind": marker.kind,
        "timestamp": marker.ms,
        "leader_epoch": marker.leader_epoch,
        "sequence": -1,
    }
    producer = {"producer_id": marker.producer_id, "producer_epoch": marker.epoch}
    return {"partition": marker.partition, "nodes": list(marker.nodes), **named, **producer}


def stored_table(incident: Incident, markers: Iterable[Marker] = ()) -> Stored | None:
    """The log segments around an incident; None: none were recorded."""
    stored = [finding["stored"] for finding in incident.findings if finding.get("stored")]
    if not stored:
        return None
    marks = marks_of(incident.records)
    return Stored(
        nodes=", ".join(dict.fromkeys(node for each in stored for node in each.get("nodes", ()))),
        rows=tuple(_stored_row(row, marks) for row in stored_rows(incident, markers)[:_STORED]),
        absent=_none_of(list(dict.fromkeys(v for each in stored for v in each.get("absent", ())))),
    )


def _none_of(missing: Sequence[Any]) -> str:
    """Records that no log holds, by their names as long as these can be read at a glance."""
    names = [record_name(v) for v in missing]
    return ", nor ".join(names) if len(names) <= _NAMES else f"any of the {number(len(names))} missing records"


def _stored_row(row: Doc, marks: Mapping[tuple[Any, Any], str]) -> StoredRow:
    v = row.get("v")
    return StoredRow(
        place=place(row.get("partition"), row.get("offset")),
        time=date_of(row.get("timestamp") or -1)[11:],
        kind=row.get("kind", ""),
        record=NOTHING if v is None else record_name(v),
        producer=f"{row.get('producer_id')} / {row.get('producer_epoch')}",
        sequence=str(row.get("sequence")),
        leader_epoch=str(row.get("leader_epoch")),
        nodes=", ".join(row.get("nodes", ())),
        mark="" if v is None else marks.get((row.get("partition", ""), v), ""),
    )


def operation_row(row: Doc, marks: Mapping[tuple[Any, Any], str], made: Material, anchors: set[int]) -> OperationRow:
    origin_ns, anchored = made.data.origin_ns, row["index"] not in anchors
    anchors.add(row["index"])
    mops = [*(_micro(mop, marks, made.values) for mop in row.get("mops") or ()), *_processed(row, marks)]
    micro = sorted(mops, key=lambda m: m.mark == "")
    shown = max(_MICRO, sum(m.mark != "" for m in micro[: _MICRO * 4]))
    errors = row.get("errors") or ()
    return OperationRow(
        index=row["index"],
        anchored=anchored,
        title=" ".join(filter(None, (row.get("f"), f"({row['intent']})" if row.get("intent") else ""))),
        who=_who(row),
        outcome=row.get("type") or "info",
        when=_when(row, origin_ns),
        micro=tuple(micro[:shown]),
        more_micro=max(0, len(micro) - shown),
        errors=tuple(_error(error, origin_ns) for error in errors[:_ERRORS]),
        more_errors=max(0, len(errors) - _ERRORS),
        strange=tuple((place(s.get("partition"), s.get("offset")), s.get("why"), s.get("raw")) for s in row.get("strange") or ()),
    )


def _who(row: Doc) -> str:
    parts = [f"process {row.get('process')}", f"op {row.get('op')}", row.get("node"), row.get("role")]
    parts.append(row.get("isolation") if row.get("role") != "writer" else row.get("transactional_id"))
    return " · ".join(str(part) for part in parts if part)


def _when(row: Doc, origin_ns: int) -> str:
    begun, ended = row.get("time") or 0, row.get("end")
    if ended is None:
        return f"{at(begun, origin_ns)}, never completed"
    return f"{at(begun, origin_ns)} to {at(ended, origin_ns)} ({duration(ended - begun)})"


def _micro(mop: Doc, marks: Mapping[tuple[Any, Any], str], values: Mapping[int, str]) -> Micro:
    sent = mop["kind"] == _SENT
    return Micro(
        verb="send" if sent else "read",
        place=place(mop["partition"], mop["offset"]),
        value=shortened(values.get(mop["v"], ""), _MICRO_VALUE),
        record=record_name(mop["v"]),
        mark=marks.get((mop["partition"], mop["v"]), ""),
        note="not acknowledged" if sent and mop["ended"] is None else "",
    )


def _processed(row: Doc, marks: Mapping[tuple[Any, Any], str]) -> Iterator[Micro]:
    """The input records that an operation processed, what it made of them, and the group offsets that it was to commit."""
    for chain in row.get("chains") or ():
        made = "nothing was to be made of it" if chain["output"] is None else f"made: {record_name(chain['output'])}"
        yield Micro(
            verb="process",
            place=place(chain["partition"], chain["offset"]),
            value="",
            record=record_name(chain["v"]),
            mark=marks.get((chain["partition"], chain["v"]), ""),
            note=made,
        )
    for offset in row.get("offsets") or ():
        where = place(offset["partition"], offset["offset"])
        yield Micro(verb="group offset", place=where, value="", record="", mark="", note="the next record to be read")


def _error(error: Doc, origin_ns: int) -> ClientError:
    return ClientError(
        when=at(error.get("time"), origin_ns),
        call=error.get("call") or "?",
        name=error_name(error),
        text=error.get("text") or "",
        flags=flags(error),
    )
