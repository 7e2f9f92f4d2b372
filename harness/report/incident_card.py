"""The card of an incident: what its findings say, what proves them, and what surrounds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fencepost.harness.api.words import and_more, plural
from fencepost.harness.page_text import NOTHING, at
from fencepost.harness.report import cycle, sequence
from fencepost.harness.report.broker_lines import BrokerLine
from fencepost.harness.report.documents import Doc, ReportData
from fencepost.harness.report.incident_brokers import coordinator, leader, partitions, truncations
from fencepost.harness.report.incident_events import Event, events, markers_of, title
from fencepost.harness.report.incident_lines import Lines, broker_lines, closest_line
from fencepost.harness.report.incident_material import ACCUSED, OPERATIONS, RECORDS, Material, first_reads, producers
from fencepost.harness.report.incidents import Incident
from fencepost.harness.report.operation_rows import (
    OperationRow,
    Record,
    Stored,
    fates,
    fates_together,
    marks_of,
    operation_row,
    record_row,
    stored_rows,
    stored_table,
)
from fencepost.harness.report.panels import faults
from fencepost.harness.report.wall_clock import date_of

_BRIEF, _WHOLE = {"operations": 3, "records": 8}, {"operations": OPERATIONS, "records": RECORDS}


@dataclass(frozen=True, kw_only=True)
class Position:
    """Last stable offset and high watermark of a partition. opened: (when, first offset of its earliest open transaction)."""

    partition: str
    opened: tuple[tuple[str, str], ...]
    stable: str
    high: str


@dataclass(frozen=True, kw_only=True)
class LineRow:
    """A line of a broker's log."""

    utc: str
    since: str
    node: str
    level: str
    logger: str
    text: str
    exception: str
    more: int
    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class FaultLink:
    """A fault around an incident."""

    id: int
    text: str


@dataclass(frozen=True, kw_only=True)
class FindingLine:
    """A finding of a card. includes: anomalies of which the same record would be a finding if its cause were not known."""

    id: int
    anomaly: str
    sentence: str
    since: str
    utc: str
    includes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Card:
    """The card of an incident.

    full: it has everything that is known; else only its findings, records and operations.
    reasons: why each of its anomalies is forbidden, or permitted: (anomaly, contract).
    facts: what is known at a glance: (label, words).
    lost_operations: named by a finding, not in the history that could be read.
    partial: the verdict has not all of its operations and records.
    unknown: sentences about what nobody knows.
    """

    id: int
    forbidden: bool
    full: bool
    since: str
    date: str
    findings: tuple[FindingLine, ...]
    reasons: tuple[tuple[str, str], ...]
    facts: tuple[tuple[str, str], ...] = ()
    faults: tuple[FaultLink, ...] = ()
    drawing: sequence.Drawing | None = None
    cycles: tuple[cycle.Drawing, ...] = ()
    events: tuple[Event, ...] = ()
    more_events: int = 0
    lines: tuple[LineRow, ...] = ()
    more_lines: int = 0
    brokers: tuple[str, ...] = ()
    log_gaps: tuple[str, ...] = ()
    records: tuple[Record, ...] = ()
    more_records: int = 0
    operations: tuple[OperationRow, ...] = ()
    more_operations: int = 0
    lost_operations: tuple[int, ...] = ()
    partial: bool = False
    stored: Stored | None = None
    positions: tuple[Position, ...] = ()
    clock: str = ""
    unknown: tuple[str, ...] = ()

    @property
    def anomalies(self) -> tuple[tuple[str, int], ...]:
        """Its anomalies, and how many of its findings each has."""
        return tuple(Counter(finding.anomaly for finding in self.findings).items())


def full_card(made: Material, incident: Incident, anchors: set[int]) -> Card:
    lines = broker_lines(made, incident)
    happened, more = events(made, incident, lines)
    drawn = [cycle.drawing(finding.get("cycle")) for finding in incident.findings]
    cycles = tuple(each for each in drawn if each is not None)
    card = short_card(made, incident, anchors, forbidden=True, brief=False)
    return replace(
        card,
        full=True,
        facts=_facts(made, incident, lines),
        drawing=None if cycles else sequence.sequence(happened, _roles(made, incident)),
        cycles=cycles,
        events=tuple(_linked(event, anchors) for event in happened),
        more_events=more,
        lines=tuple(_line(made, each.line, each.names) for each in lines.lines),
        more_lines=lines.more,
        brokers=lines.nodes,
        log_gaps=lines.log_gaps,
        stored=stored_table(incident, (marker for group in markers_of(made, incident) for marker in group)),
        positions=_positions(made, incident),
        clock="" if made.clock is None else made.clock.words,
        unknown=_unknown(made, incident),
    )


def _linked(event: Event, anchors: set[int]) -> Event:
    """An event whose operation is on the page is a link to it; of any other the text has the number."""
    if event.operation is None or event.operation in anchors:
        return event
    named = event.kind in ("context", "begin", "read")
    return replace(event, operation=None, text=f"{event.text} (operation {event.operation})" if named else event.text)


def short_card(made: Material, incident: Incident, anchors: set[int], *, forbidden: bool, brief: bool = True) -> Card:
    """The card without what surrounds it."""
    run, records = made.data, incident.records
    indexes = _indexes(made, incident)
    most = _BRIEF if brief else _WHOLE
    shown = indexes[: most["operations"]]
    size = max(len(records), max((finding.get("size") or 0) for finding in incident.findings))
    marks, told = marks_of(records), fates(incident)
    named = [record for record in records[: most["records"]] if record.get("partition")]  # some are about none
    return Card(
        id=incident.id,
        forbidden=forbidden,
        full=False,
        since=at(incident.time, run.origin_ns),
        date="" if made.clock is None or not incident.time else made.clock.date(incident.time),
        findings=tuple(_finding(made, finding) for finding in incident.findings),
        reasons=tuple((name, answer(run, name, forbidden).get("contract", "")) for name in incident.anomalies),
        faults=_around(made, incident),
        records=tuple(record_row(record, made.values, told) for record in named),
        more_records=max(0, size - most["records"]),
        operations=tuple(operation_row(made.history[i], marks, made, anchors) for i in shown if i in made.history),
        more_operations=len(indexes) - len(shown),
        lost_operations=tuple(i for i in shown if i not in made.history),
        partial=size > len(records),
    )


def answer(run: ReportData, anomaly: str, forbidden: bool) -> Doc:
    """The verdict's answer about an anomaly; empty when it has none."""
    answers = run.verdict.get("properties" if forbidden else "allowed", ())
    return next((answer for answer in answers if answer.get("name") == anomaly), {})


def _finding(made: Material, finding: Doc) -> FindingLine:
    time = finding.get("time")
    return FindingLine(
        id=finding.get("id", 0),
        anomaly=finding.get("anomaly", "?"),
        sentence=finding.get("sentence", ""),
        since=at(time, made.data.origin_ns),
        utc="" if made.clock is None else made.clock.utc(time),
        includes=tuple(finding.get("includes", ())),
    )


def _indexes(made: Material, incident: Incident) -> list[int]:
    """The operations of a card: accused ones first, then those that its findings name and that read its records first."""
    accused = [row["index"] for row in made.accused(incident)]
    readers = [read.operation for record in incident.records[:RECORDS] for read in _first_reads(made, record)]
    return list(dict.fromkeys([*accused, *incident.operations, *sorted(readers)]))


def _first_reads(made: Material, record: Doc) -> tuple[Any, ...]:
    v = record.get("v")
    return first_reads(made.reads.of.get(-1 if v is None else v, ()))


def _around(made: Material, incident: Incident) -> tuple[FaultLink, ...]:
    near = {number for finding in incident.findings for number in finding.get("faults", ())}
    origin_ns = made.data.origin_ns
    return tuple(FaultLink(id=f["id"], text=faults.around(f, origin_ns)) for f in made.data.faults or () if f["id"] in near)


# --------------------------------------------------------------------------------------------------
# At a glance
# --------------------------------------------------------------------------------------------------
def _facts(made: Material, incident: Incident, lines: Lines) -> tuple[tuple[str, str], ...]:
    accused = made.accused(incident)
    accused = accused if len(incident.accused) <= ACCUSED else accused[:1]
    facts = [("When", _when_words(made, incident.time)), *(("Who", _who_words(made, incident, row)) for row in accused)]
    if len(incident.accused) > len(accused) and accused:
        facts.append(("Who else", f"{plural(len(incident.accused) - len(accused), 'more operation')}"))
    facts += [("In the logs", fates_together(incident)), ("Brokers", _brokers_words(made, incident))]
    facts.append(("Broker's line", _line_words(made, incident, lines)))
    return tuple((label, words) for label, words in facts if words)


def _when_words(made: Material, time: int | None) -> str:
    if not time:
        return ""
    since = f"{at(time, made.data.origin_ns)} after the start"
    return since if made.clock is None else f"{made.clock.date(time)} UTC, {since}"


def _who_words(made: Material, incident: Incident, row: Doc) -> str:
    intent = f", to be {'aborted' if row['intent'] == 'abort' else 'committed'}" if row.get("intent") else ""
    node = f" on {row['node']}" if row.get("node") else ""  # a history from elsewhere may not name it
    words = f"{title(row)}{node}{intent}: {row.get('type') or 'info'}"
    if row.get("transactional_id"):
        words += f"; transactional id {row['transactional_id']}"
    known = sorted(producers(incident))
    if len(known) == 1 and len(incident.accused) == 1:
        words += f"; producer id and epoch {known[0][0]} / {known[0][1]}"
    return words


def _brokers_words(made: Material, incident: Incident) -> str:
    """Who led the partitions and coordinated the transaction, by the brokers' logs."""
    led: dict[str, list[str]] = {}
    for name in partitions(incident) if incident.time else ():
        if node := leader(made, name, incident.time or 0):
            led.setdefault(node, []).append(name)
    words = [
        f"{node} led {', '.join(names[:OPERATIONS])}{and_more(len(names) - OPERATIONS)}" for node, names in sorted(led.items())
    ]
    who = [node for row in made.accused(incident) if (node := coordinator(made, row))]
    return "; ".join([*words, *(f"{node} was the transaction coordinator" for node in dict.fromkeys(who))])


def _line_moment(made: Material, ms: int, ahead_ms: int = 0) -> str:
    """The date of a broker's line, by its own clock, and the moment of the run."""
    return f"{date_of(ms)[11:]}, {at(_ns(made, ms - ahead_ms), made.data.origin_ns)}"


def _line_words(made: Material, incident: Incident, lines: Lines) -> str:
    """The line of a broker's log that says most about an incident."""
    for cut in truncations(made, incident)[:1]:
        words = f"truncates {cut.name} to offset {cut.offset}; the missing records lay there and behind it"
        return f"{cut.node} at {_line_moment(made, cut.ms)}: {words}"
    naming = closest_line(lines)
    if naming is None:
        return ""
    line = naming.line
    return (
        f"{line.node} at {_line_moment(made, line.ms, line.ahead_ms)}: {line.level} {line.text} (names {', '.join(naming.names)})"
    )


def _ns(made: Material, ms: int) -> int:
    return 0 if made.clock is None else made.clock.ns(ms)


def _roles(made: Material, incident: Incident) -> dict[str, str]:
    """What each node is in an incident, in a few words."""
    roles: dict[str, list[str]] = {}
    for row in made.accused(incident):
        roles.setdefault(row.get("node") or "?", []).append(row.get("transactional_id") or row.get("role") or "")
        roles.setdefault(coordinator(made, row) or "coordinator", []).append("coordinator")
    for name in partitions(incident) if incident.time else ():
        if node := leader(made, name, incident.time or 0):
            roles.setdefault(node, []).append(name)
    for record in incident.records[:RECORDS]:
        for read in _first_reads(made, record):
            row = made.history.get(read.operation, {})
            roles.setdefault(row.get("node") or "?", []).append(row.get("role") or "")
    for row in made.final:
        roles.setdefault(row.get("node") or "?", []).append(f"final, {row.get('isolation')}")
    return {node: ", ".join(dict.fromkeys(filter(None, names))) for node, names in roles.items()}


def _unknown(made: Material, incident: Incident) -> tuple[str, ...]:
    """What nobody knows, a sentence each."""
    run, placed = made.data, any(record.get("partition") for record in incident.records)
    gaps = [
        (run.ops is None, "The history could not be read: its operations and reads are not known."),
        (
            run.ops is not None and not made.reads.whole,
            "The history lies elsewhere: reads that its findings do not name were not brought.",
        ),
        (made.clock is None, "UTC is not known: " + _no_clock(run)),
        (made.clock is not None and not made.logs.logs, "The brokers left no logs in this run."),
        (run.faults is None, "Which faults were active is not known: no receipts could be read."),
        (placed and not stored_rows(incident), "What the brokers' log segments hold here was not recorded."),
    ]
    return tuple(sentence for holds, sentence in gaps if holds)


def _no_clock(run: ReportData) -> str:
    if run.plan.get("source"):
        return "a history from elsewhere has times of its own, and no logs of brokers."
    return "the files of the history, whose headers say it, are not here. So no broker's line can be placed."


def _positions(made: Material, incident: Incident) -> tuple[Position, ...]:
    """Last stable offsets and high watermarks: what looks at open transactions saw around it, and what the run ended with."""
    settled = next((made.detail(row).get("partitions") for row in reversed(made.final) if row["f"] == "settle"), None) or {}
    rows = []
    for name in partitions(incident):
        ends = settled.get(name) if isinstance(settled, Mapping) else None
        stable, high = ends if isinstance(ends, list) and len(ends) == 2 else (None, None)
        opened = _opened(made, incident, name)
        if opened or stable is not None or high is not None:
            rows.append(Position(partition=name, opened=opened, stable=_offset(stable), high=_offset(high)))
    return tuple(rows)


def _opened(made: Material, incident: Incident, partition: str) -> tuple[tuple[str, str], ...]:
    """The first offset of the earliest open transaction of a partition, by the looks right before and behind an incident."""
    seen = []
    for row in _looks_around(made, incident.time or 0):
        answers = made.detail(row).get("open")
        offsets = (
            [o.get("offset") for o in answers if isinstance(o, Mapping) and o.get("partition") == partition]
            if isinstance(answers, list)
            else []
        )
        known = [offset for offset in offsets if isinstance(offset, int) and offset >= 0]
        seen.append((at(row["time"], made.data.origin_ns), str(min(known)) if known else "none open"))
    return tuple(seen)


def _looks_around(made: Material, time: int) -> list[Doc]:
    before = [row for row in made.looks if row["time"] <= time and row.get("type") == "ok"]
    behind = [row for row in made.looks if row["time"] > time and row.get("type") == "ok"]
    return [*before[-1:], *behind[:1]] if time else []


def _offset(value: Any) -> str:
    return str(value) if isinstance(value, int) else NOTHING


def _line(made: Material, line: BrokerLine, names: tuple[str, ...]) -> LineRow:
    return LineRow(
        utc=date_of(line.ms)[11:],
        since=at(_ns(made, line.ms - line.ahead_ms), made.data.origin_ns),
        node=line.node,
        level=line.level,
        logger=line.logger.rpartition(".")[2],
        text=line.message,
        exception=line.exception,
        more=line.more,
        names=names,
    )
