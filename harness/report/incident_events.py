"""An incident in order of time: calls of the client, errors, markers, reads, leaders, faults, and brokers' lines that name it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from fencepost.harness.api.words import plural
from fencepost.harness.page_text import at, duration, place, shortened
from fencepost.harness.report.documents import Doc
from fencepost.harness.report.incident_brokers import coordinator, leader, partitions, truncations
from fencepost.harness.report.incident_lines import Lines
from fencepost.harness.report.incident_material import (
    ACCUSED,
    NEAR_MS,
    RECORDS,
    Marker,
    Material,
    decisions,
    first_reads,
    markers_epochs,
    near,
)
from fencepost.harness.report.incidents import Incident
from fencepost.harness.report.panels import faults
from fencepost.harness.report.record_reads import Read

MOST_EVENTS = 40
_SENDS, _ERRORS, _READERS, _DECISIONS, _LEADERS, _TEXT = 6, 6, 6, 4, 6, 260
_REQUESTS = 16  # of the transactional ids of an incident, where proxies recorded them
DECIDING = ("EndTxn", "InitProducerId")
_TOGETHER_MS = 100  # markers that one decision wrote
_SENT = 0


@dataclass(frozen=True, kw_only=True)
class Event:
    """A thing that happened.

    time: ns of the history. since: the same after the start of the run. utc: the same by the clock on the wall; empty: not known.
    where: the node where it happened. to: the node that a call, a record or a marker went to; also: further ones.
    kind: begin, send, call, wire, error, end, marker, read, leader, truncated, fault, broker or context.
    label: a few words for a drawing; empty: it is not drawn.
    open: a call or send that nobody answered, or what was not returned.
    operation, fault: what the page shows in more detail.
    """

    time: int
    kind: str
    text: str
    where: str = ""
    to: str = ""
    also: tuple[str, ...] = ()
    label: str = ""
    open: bool = False
    operation: int | None = None
    fault: int | None = None
    utc: str = ""
    since: str = ""


def events(made: Material, incident: Incident, lines: Lines) -> tuple[tuple[Event, ...], int]:
    """The events of an incident in order of time, and how many there are besides."""
    accused = made.accused(incident)
    accused = accused if len(incident.accused) <= ACCUSED else accused[:1]  # of many that met the same fate one is enough
    sources: Iterable[Iterable[Event]] = (
        *(_of_operation(made, row) for row in accused),
        _wire(made, accused),
        _markers(made, incident),
        _reads(made, incident),
        _answers(made, incident),
        _final_reads(made, incident),
        _settled(made, incident),
        _leaders(made, incident),
        _faults(made, incident),
        _naming_lines(made, lines),
    )
    ordered = sorted((event for event in chain.from_iterable(sources) if event.time), key=lambda event: event.time)
    return tuple(_dated(made, event) for event in ordered[:MOST_EVENTS]), max(0, len(ordered) - MOST_EVENTS)


def _dated(made: Material, event: Event) -> Event:
    clock = made.clock
    return replace(event, utc="" if clock is None else clock.utc(event.time), since=at(event.time, made.data.origin_ns))


def _lane(made: Material, partition: str, time: int) -> str:
    return leader(made, partition, time) or f"leader of {partition}"


# --------------------------------------------------------------------------------------------------
# Client
# --------------------------------------------------------------------------------------------------
def title(row: Doc) -> str:
    """`transaction 5 of process 8`: an operation in words."""
    word = {"txn": "transaction", "send": "send"}.get(row.get("f", ""), row.get("f") or "operation")
    return f"{word} {row.get('op')} of process {row.get('process')}"


def _of_operation(made: Material, row: Doc) -> Iterator[Event]:
    """An accused operation from its begin to its end, and how the one before it ended."""
    node, index = row.get("node") or "?", row.get("index")
    before = made.history.get(made.before.get(row["index"], -1))
    if before is not None and before.get("end") and before.get("time"):
        took = duration(before["end"] - before["time"])
        text = f"{title(before)}, the one before, ends: {_wanted(before)}{before.get('type')} after {took}"
        label = f"{_wanted(before)}{before.get('type')} after {took}"
        yield Event(time=before["end"], kind="context", where=node, text=text, label=label, operation=before["index"])
    yield Event(time=row["time"], kind="begin", where=node, text=f"{title(row)} begins{_intent(row)}", operation=index)
    yield from _sends(made, row, node)
    if row.get("decided"):
        unanswered = row.get("type") != "ok"
        yield Event(
            time=row["decided"], kind="call", where=node, to=coordinator(made, row) or "coordinator", label="commit",
            text="commit is called", open=unanswered, operation=index,
        )  # fmt: skip
    for error in (row.get("errors") or ())[:_ERRORS]:
        yield _error(error, node, index)
    if row.get("end"):
        label = f"ends: {row.get('type')}"
        yield Event(
            time=row["end"], kind="end", where=node, text=f"{title(row)} ends: {row.get('type')}", label=label, operation=index
        )


def _wire(made: Material, accused: Sequence[Doc]) -> Iterator[Event]:
    """Requests of the accused transactional ids as the proxies before the brokers saw them; first those that a rule struck."""
    nodes = {row.get("transactional_id"): row.get("node") or "?" for row in accused if row.get("transactional_id")}
    producers = {row.producer_id for row in made.wire if row.transactional_id in nodes}
    rows = [row for row in made.wire if row.transactional_id in nodes or (row.between_brokers and row.producer_id in producers)]
    for row in sorted(rows, key=lambda row: (not row.struck, row.api not in DECIDING, row.arrived_ns))[:_REQUESTS]:
        sender = "" if row.between_brokers else nodes[row.transactional_id]
        text = f"on the wire: {row.words}: {row.fate}"
        label = row.label if row.struck and sender else ""
        yield Event(
            time=row.forwarded_ns or row.arrived_ns, kind="wire", where=sender, to=row.node if label else "", text=text,
            label=label, open=row.answered_ns is None,
        )  # fmt: skip


def _wanted(row: Doc) -> str:
    return f"{row['intent']} " if row.get("intent") else ""


def _intent(row: Doc) -> str:
    return f", to be {'aborted' if row['intent'] == 'abort' else 'committed'}" if row.get("intent") else ""


def _sends(made: Material, row: Doc, node: str) -> Iterator[Event]:
    sent = [mop for mop in row.get("mops") or () if mop["kind"] == _SENT]
    for mop in sent[:_SENDS]:
        time, where = mop.get("began") or row["time"], place(mop["partition"], mop["offset"])
        acknowledged = mop.get("ended") is not None
        after = duration(mop["ended"] - time) if acknowledged else ""
        text = f"sends to {mop['partition']}: " + (
            f"acknowledged at {where} after {after}" if acknowledged else "never acknowledged"
        )
        label = where if acknowledged else f"{mop['partition']}: no ack"
        to = _lane(made, mop["partition"], time)
        yield Event(
            time=time, kind="send", where=node, to=to, text=text, label=label, open=not acknowledged, operation=row["index"]
        )
    if len(sent) > _SENDS:
        text = f"and {plural(len(sent) - _SENDS, 'more record')} in the same operation"
        yield Event(time=sent[_SENDS].get("began") or row["time"], kind="send", where=node, text=text, operation=row["index"])


def error_name(error: Doc) -> str:
    """`_TIMED_OUT (-185)`: an error by its name and code."""
    code = "" if error.get("code") is None else f" ({error['code']})"
    return f"{error.get('name') or '?'}{code}"


def flags(error: Doc) -> tuple[str, ...]:
    """What the client says of an error."""
    return tuple(flag for flag in ("fatal", "retriable", "abortable") if error.get(flag))


def _error(error: Doc, node: str, index: Any) -> Event:
    call = error.get("call") or "?"
    text = f"{call} → {', '.join((error_name(error), *flags(error)))}: {error.get('text') or ''}"
    label = f"{call} → {error.get('name') or '?'}"
    return Event(time=error.get("time") or 0, kind="error", where=node, text=shortened(text, _TEXT), label=label, operation=index)


# --------------------------------------------------------------------------------------------------
# Markers and reads
# --------------------------------------------------------------------------------------------------
def markers_of(made: Material, incident: Incident) -> list[list[Marker]]:
    """The markers of the accused transactions' producers, those of one decision together: the last decision before these began,
    what followed until two seconds after they ended, and whenever it came what decided their records.
    """
    clock, accused = made.clock, made.accused(incident)
    if clock is None or not accused:
        return []
    wanted, touched, decisive = markers_epochs(incident), set(partitions(incident)), decisions(incident)
    begun = clock.ms(min(row["time"] for row in accused))
    stop = clock.ms(max(row.get("end") or row["time"] for row in accused)) + NEAR_MS
    near_it = [m for m in made.markers if begun - NEAR_MS <= m.ms <= stop and m.partition in touched]
    near_it = [marker for marker in near_it if (marker.producer_id, marker.epoch) in wanted]
    deciding = [marker for marker in made.markers if (marker.partition, marker.offset) in decisive]
    groups = _together(sorted(dict.fromkeys([*near_it, *deciding]), key=lambda marker: (marker.ms, marker.partition)))
    earlier = [group for group in groups if group[-1].ms < begun]
    chosen = [*earlier[-1:], *groups[len(earlier) :]]
    first = sorted(chosen, key=lambda group: not any((marker.partition, marker.offset) in decisive for marker in group))
    return sorted(first[:_DECISIONS], key=lambda group: group[0].ms)


def _markers(made: Material, incident: Incident) -> Iterator[Event]:
    """The markers around an incident, those of one decision together."""
    clock, accused = made.clock, made.accused(incident)
    if clock is None or not accused:
        return
    who = coordinator(made, accused[0]) or "coordinator"
    for group in markers_of(made, incident):
        first, places = group[0], ", ".join(place(marker.partition, marker.offset) for marker in group)
        text = f"{first.kind} marker of producer {first.producer_id}, epoch {first.epoch}, in the logs: {places}"
        time = clock.ns(first.ms)
        label = f"{first.kind} marker{'s' if len(group) > 1 else ''}"
        to, *also = sorted(dict.fromkeys(_lane(made, marker.partition, time) for marker in group), key=lambda node: node == who)
        yield Event(time=time, kind="marker", where=who, to=to, also=tuple(also), text=text, label=label)


def _together(markers: Sequence[Marker]) -> list[list[Marker]]:
    groups: list[list[Marker]] = []
    for marker in markers:
        if groups and _one_decision(groups[-1], marker):
            groups[-1].append(marker)
        else:
            groups.append([marker])
    return groups


def _one_decision(group: Sequence[Marker], marker: Marker) -> bool:
    first, last = group[0], group[-1]
    same = (first.kind, first.producer_id, first.epoch) == (marker.kind, marker.producer_id, marker.epoch)
    return same and marker.ms - last.ms <= _TOGETHER_MS and marker.partition not in {each.partition for each in group}


def _reads(made: Material, incident: Incident) -> Iterator[Event]:
    """The first read of each record, those of one poll together."""
    by_poll: dict[int, list[tuple[Read, int]]] = {}
    for v in dict.fromkeys(record.get("v") for record in incident.records[:RECORDS]):
        of_record = made.reads.of.get(v if v is not None else -1, ())
        for read in first_reads(of_record):
            by_poll.setdefault(read.operation, []).append((read, len(of_record) - 1))
    polls = [(made.history[index], some) for index, some in sorted(by_poll.items()) if index in made.history]
    for row, some in polls[:_READERS]:
        places = ", ".join(place(read.partition, read.offset) for read, _ in some)
        later = sum(more for _, more in some)
        level = f" at {row['isolation']}" if row.get("isolation") else ""
        which = "first read" if made.reads.whole else "a read that was brought"
        text = f"{row.get('f')} {row.get('op')} of process {row.get('process')} returns {places}{level}: {which}"
        text += f", {plural(later, 'later read')} of the same" if later else ""
        time = max((read.time for read, _ in some if read.time), default=row.get("end") or row["time"])
        source = _lane(made, some[0][0].partition, time)
        label = f"{places} read" if len(some) < 3 else f"{len(some)} records read"
        yield Event(
            time=time, kind="read", where=row.get("node") or "?", to=source, text=text, label=label, operation=row["index"]
        )


def _answers(made: Material, incident: Incident) -> Iterator[Event]:
    """Operations that were told something of no record of ours: a group's offset, a strange record."""
    by_operation: dict[int, list[str]] = {}
    for record in incident.records[:RECORDS]:
        if (
            record.get("role") == "read"
            and (record.get("v") is None or record["v"] < 0)
            and record.get("operation") in made.history
        ):
            by_operation.setdefault(record["operation"], []).append(place(record.get("partition"), record.get("offset")))
    for index, places in sorted(by_operation.items())[:_READERS]:
        row, named = made.history[index], ", ".join(dict.fromkeys(places))
        text = f"{row.get('f')} {row.get('op')} of process {row.get('process')} is answered {named}"
        yield Event(
            time=row.get("end") or row["time"], kind="read", where=row.get("node") or "?", text=text, label=named, operation=index
        )


def _settled(made: Material, incident: Incident) -> Iterator[Event]:
    """Last stable offsets that had not reached their high watermarks when the run was settled."""
    for row in made.final:
        answer = made.detail(row).get("partitions") if row["f"] == "settle" else None
        ends = answer if isinstance(answer, Mapping) else {}
        for name in partitions(incident):
            stable, high = ends[name] if isinstance(ends.get(name), list) and len(ends[name]) == 2 else (None, None)
            if isinstance(stable, int) and isinstance(high, int) and stable < high:
                text = f"the last stable offset of {name} is {stable}, its high watermark {high}, after everything was healed"
                time, where = row.get("end") or row["time"], _lane(made, name, row["time"])
                yield Event(
                    time=time, kind="end", where=where, text=text, label=f"{name}: LSO {stable} of {high}", operation=row["index"]
                )


def _final_reads(made: Material, incident: Incident) -> Iterator[Event]:
    """What the final reads returned of the records, by isolation level."""
    placed = [
        (v, record.get("partition")) for record in incident.records[:RECORDS] if (v := record.get("v")) is not None and v >= 0
    ]
    read_by = [
        (record.get("v"), record.get("operation")) for record in incident.records[:RECORDS] if record.get("role") == "read"
    ]
    outputs = [(v, by) for v, by in read_by if v is not None and by is not None]
    touched = partitions(incident)
    for row in made.final:
        detail, node = made.detail(row), row.get("node") or "?"
        ends = [f"{name} to {ends[2]}" for name in touched if isinstance(ends := detail.get(name), list) and len(ends) == 3]
        identities = {v for v, partition in placed if partition in detail}
        if row["f"] != "final-read" or not ends or not identities:
            continue
        whose = f"the first {RECORDS} records" if len(incident.records) > RECORDS else f"the {plural(len(identities), 'record')}"
        returned = {
            read.v
            for v in identities
            for read in made.reads.of.get(v, ())
            if _process(made, read.operation) == row.get("process")
        }
        returned |= {v for v, by in outputs if v in identities and _process(made, by) == row.get("process")}
        missing = len(identities - returned)
        text = f"final read at {row.get('isolation') or '?'} is over ({', '.join(ends)})"
        if made.reads.whole:
            text += f": it returned {len(returned)} of {whose}"
        label = f"{missing} not returned" if missing and made.reads.whole else ""
        source = _lane(made, touched[0], row["time"])
        yield Event(
            time=row.get("end") or row["time"], kind="read", where=node, to=source, text=text, label=label, open=bool(missing),
            operation=row["index"],
        )  # fmt: skip


def _process(made: Material, index: int) -> int | None:
    ops = made.data.ops
    if ops is None:
        return None
    row = made.history.get(index)
    return row.get("process") if row else int(ops.process[index]) if index < len(ops) and ops.index[index] == index else None


# --------------------------------------------------------------------------------------------------
# Brokers and faults
# --------------------------------------------------------------------------------------------------
def _leaders(made: Material, incident: Incident) -> Iterator[Event]:
    """Brokers that became leaders of the partitions around it, or truncated its records away."""
    clock, touched, stretches = made.clock, set(partitions(incident)), near(made, incident)
    if clock is None or not stretches:
        return
    cut = truncations(made, incident)
    start = min(low for low, _ in stretches)
    stop = max([high for _, high in stretches] + [each.ms for each in cut])
    placements = [each for log in made.logs.logs for each in log.placements if each.what == "leader" and start <= each.ms <= stop]
    for each in [each for each in sorted(placements) if each.name in touched][:_LEADERS]:
        text = f"becomes the leader of {each.name}, leader epoch {each.epoch}"
        yield Event(time=clock.ns(each.ms), kind="leader", where=each.node, text=text, label=f"leads {each.name}")
    for each in cut:
        text, label = f"truncates {each.name} to offset {each.offset}", f"truncated to {each.name}@{each.offset}"
        yield Event(time=clock.ns(each.ms), kind="truncated", where=each.node, text=text, label=label)


def _faults(made: Material, incident: Incident) -> Iterator[Event]:
    wanted = {number for finding in incident.findings for number in finding.get("faults", ())}
    for fault in made.data.faults or ():
        if fault["id"] not in wanted or not fault.get("injected_ns"):
            continue
        name = f"fault {fault['id']}, {faults.name(fault)}"
        where = faults.where(fault)
        yield Event(
            time=fault["injected_ns"],
            kind="fault",
            where=where,
            text=f"{name}, begins",
            label=f"{name} begins",
            fault=fault["id"],
        )
        if fault.get("healed_ns"):
            yield Event(
                time=fault["healed_ns"],
                kind="fault",
                where=where,
                text=f"{name}, is healed",
                label=f"{name} healed",
                fault=fault["id"],
            )


def _naming_lines(made: Material, lines: Lines) -> Iterator[Event]:
    """The brokers' lines that name a transactional id or a producer of the incident."""
    for naming in lines.lines:
        if made.clock is not None and any(not name.startswith("partition ") for name in naming.names):
            text = shortened(f"{naming.line.level} {naming.line.text}", _TEXT)
            yield Event(
                time=made.clock.ns(naming.line.ms - naming.line.ahead_ms),
                kind="broker",
                where=naming.line.node,
                text=text,
                label=f"{naming.line.level} {naming.line.logger.rpartition('.')[2]}",
            )
