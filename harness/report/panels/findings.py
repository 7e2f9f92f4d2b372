"""Findings as cards: the sentence, the operations behind it, their errors, the records, the faults around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.harness.report.cycle import Drawing, drawing
from fencepost.harness.report.documents import Doc, ReportData
from fencepost.harness.report.panels import faults
from fencepost.harness.report.text import NOTHING, at, duration, number, place, record_name, shortened

OPEN_CARDS = 20
_OPERATIONS, _MICRO, _RECORDS, _ERRORS, _NAMES = 8, 12, 24, 10, 3
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
    """One operation of a finding."""

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


@dataclass(frozen=True, kw_only=True)
class Record:
    """One record of a finding."""

    place: str
    value: str
    sender: str
    v: str
    role: str
    operation: str


@dataclass(frozen=True, kw_only=True)
class StoredRow:
    """The content of the brokers' logs at an offset. mark: the role in the finding of the record there, if it has one."""

    place: str
    kind: str
    record: str
    producer: str
    sequence: str
    leader_epoch: str
    nodes: str
    mark: str


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The log segments around a finding.

    nodes: the brokers that they are of.
    rows: what they hold, in the order of offsets.
    absent: missing records that none of them holds.
    """

    nodes: str
    rows: tuple[StoredRow, ...]
    absent: str


@dataclass(frozen=True, kw_only=True)
class FindingCard:
    """A card."""

    id: int
    sentence: str
    when: str
    operations: tuple[OperationRow, ...]
    more_operations: int
    lost_operations: tuple[int, ...]  # named by the finding, not in the history that could be read
    records: tuple[Record, ...]
    more_records: int
    partial: bool  # the verdict has not all of its operations and records
    faults: tuple[str, ...]
    includes: tuple[str, ...] = ()  # anomalies of which the same record would be a finding if its cause were not known
    cycle: Drawing | None = None
    stored: Stored | None = None


@dataclass(frozen=True, kw_only=True)
class Group:
    """All findings of one anomaly; only those in `verdict.json` can be shown."""

    anomaly: str
    forbidden: bool
    contract: str
    total: int
    open: tuple[FindingCard, ...]
    folded: tuple[FindingCard, ...]

    @property
    def shown(self) -> int:
        return len(self.open) + len(self.folded)


@dataclass(frozen=True, kw_only=True)
class _Known:
    """The material of cards: operations by history index, and original values by `v`."""

    run: ReportData
    history: Mapping[int, Doc]
    values: Mapping[int, str]


def fields(run: ReportData) -> dict[str, Any]:
    """The template's variables."""
    shown_groups = groups(run)
    return {
        "groups": tuple(group for group in shown_groups if group.forbidden),
        "permitted": tuple(group for group in shown_groups if not group.forbidden),
        "anomalies": run.anomalies,
    }


def groups(run: ReportData) -> tuple[Group, ...]:
    """Findings by anomaly, forbidden ones first, in the verdict's order. All cards of a permitted anomaly are open ones."""
    by_anomaly: dict[tuple[bool, str], list[Doc]] = {}
    for finding in run.findings:
        by_anomaly.setdefault((not finding.get("forbidden", True), finding.get("anomaly", "?")), []).append(finding)
    ordered = sorted(by_anomaly.items(), key=lambda item: item[0][0])
    forbidden = [findings for (permitted, _), findings in ordered if not permitted]
    places = shares([len(findings) for findings in forbidden], OPEN_CARDS)
    places += [len(findings) for _, findings in ordered[len(forbidden) :]]
    known = _known(run)
    return tuple(
        _group(known, anomaly, not permitted, findings, opened)
        for ((permitted, anomaly), findings), opened in zip(ordered, places, strict=True)
    )


def shares(sizes: Sequence[int], places: int) -> list[int]:
    """Deal `places` one by one to groups of these sizes, so that a large group hides no small one."""
    dealt = [0] * len(sizes)
    while places > 0 and dealt != list(sizes):
        for group, size in enumerate(sizes):
            if dealt[group] < size and places > 0:
                dealt[group] += 1
                places -= 1
    return dealt


def of_cards(findings: Sequence[Doc]) -> set[int]:
    """The operations whose insides the cards show."""
    return {index for finding in findings for index in finding.get("operations", ())[:_OPERATIONS]}


def _known(run: ReportData) -> _Known:
    history = {} if run.ops is None else run.ops.rows(of_cards(run.findings))
    records = [record.get("v") for finding in run.findings for record in finding.get("records", ())[:_RECORDS]]
    records += [mop["v"] for row in history.values() for mop in row.get("mops") or ()]
    return _Known(run=run, history=history, values=run.originals(v for v in records if v is not None))


def _group(known: _Known, anomaly: str, forbidden: bool, findings: list[Doc], opened: int) -> Group:
    answers = known.run.verdict.get("properties" if forbidden else "allowed", ())
    row: Doc = next((p for p in answers if p.get("name") == anomaly), {})
    cards = tuple(_finding(known, finding) for finding in findings)
    return Group(
        anomaly=anomaly,
        forbidden=forbidden,
        contract=row.get("contract", ""),
        total=max(row.get("count") or 0, len(findings)),
        open=cards[:opened],
        folded=cards[opened:],
    )


def _finding(known: _Known, finding: Doc) -> FindingCard:
    run, history = known.run, known.history
    indexes, records = [i for i in finding.get("operations", ()) if i >= 0], list(finding.get("records", ()))
    marks = {(r.get("partition"), r.get("v")): r.get("role", "") for r in records}
    size = max(len(records), finding.get("size") or 0)
    near = set(finding.get("faults", ()))
    shown = indexes[:_OPERATIONS]
    return FindingCard(
        id=finding.get("id", 0),
        sentence=finding.get("sentence", ""),
        when=at(finding.get("time"), run.origin_ns),
        operations=tuple(_operation(history[i], marks, known) for i in shown if i in history),
        more_operations=len(indexes) - len(shown),
        lost_operations=tuple(i for i in shown if i not in history),
        records=tuple(_record(r, known.values) for r in records[:_RECORDS] if r.get("partition")),  # some are about none
        more_records=max(0, size - _RECORDS),
        partial=size > len(records),
        faults=tuple(faults.around(fault, run.origin_ns) for fault in run.faults or () if fault["id"] in near),
        includes=tuple(finding.get("includes", ())),
        cycle=drawing(finding.get("cycle")),
        stored=_stored(finding["stored"], marks) if finding.get("stored") else None,
    )


def _record(record: Doc, values: Mapping[int, str]) -> Record:
    v, operation = record.get("v"), record.get("operation")
    return Record(
        place=place(record.get("partition"), record.get("offset")),
        value="" if v is None else shortened(values.get(v, ""), _VALUE),
        sender=record_name(v),
        v=NOTHING if v is None else str(v),
        role=record.get("role", ""),
        operation=NOTHING if operation is None else str(operation),
    )


def _stored(stored: Doc, marks: Mapping[tuple[str, int], str]) -> Stored:
    return Stored(
        nodes=", ".join(stored.get("nodes", ())),
        rows=tuple(_stored_row(row, marks) for row in stored.get("rows", ())),
        absent=_none_of(stored.get("absent", ())),
    )


def _none_of(missing: Sequence[Any]) -> str:
    """Records that no log holds, by their names as long as these can be read at a glance."""
    names = [record_name(v) for v in missing]
    return ", nor ".join(names) if len(names) <= _NAMES else f"any of the {number(len(names))} missing records"


def _stored_row(row: Doc, marks: Mapping[tuple[str, int], str]) -> StoredRow:
    v = row.get("v")
    return StoredRow(
        place=place(row.get("partition"), row.get("offset")),
        kind=row.get("kind", ""),
        record=NOTHING if v is None else record_name(v),
        producer=f"{row.get('producer_id')} / {row.get('producer_epoch')}",
        sequence=str(row.get("sequence")),
        leader_epoch=str(row.get("leader_epoch")),
        nodes=", ".join(row.get("nodes", ())),
        mark="" if v is None else marks.get((row.get("partition", ""), v), ""),
    )


def _operation(row: Doc, marks: Mapping[tuple[str, int], str], known: _Known) -> OperationRow:
    origin_ns = known.run.origin_ns
    mops = [*(_micro(mop, marks, known.values) for mop in row.get("mops") or ()), *_processed(row, marks)]
    micro = sorted(mops, key=lambda m: m.mark == "")
    shown = max(_MICRO, sum(m.mark != "" for m in micro[: _MICRO * 4]))
    errors = row.get("errors") or ()
    return OperationRow(
        index=row["index"],
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


def _micro(mop: Doc, marks: Mapping[tuple[str, int], str], values: Mapping[int, str]) -> Micro:
    sent = mop["kind"] == _SENT
    return Micro(
        verb="send" if sent else "read",
        place=place(mop["partition"], mop["offset"]),
        value=shortened(values.get(mop["v"], ""), _MICRO_VALUE),
        record=record_name(mop["v"]),
        mark=marks.get((mop["partition"], mop["v"]), ""),
        note="not acknowledged" if sent and mop["ended"] is None else "",
    )


def _processed(row: Doc, marks: Mapping[tuple[str, int], str]) -> Iterator[Micro]:
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
    code = f" ({error['code']})" if error.get("code") is not None else ""
    return ClientError(
        when=at(error.get("time"), origin_ns),
        call=error.get("call") or "?",
        name=f"{error.get('name') or '?'}{code}",
        text=error.get("text") or "",
        flags=tuple(flag for flag in ("fatal", "retriable", "abortable") if error.get(flag)),
    )
