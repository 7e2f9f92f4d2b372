"""The card of an incident as lines of text, for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from fencepost.harness.api.words import plural
from fencepost.harness.report.incident_card import Card
from fencepost.harness.report.incident_events import Event
from fencepost.harness.report.operation_rows import OperationRow, Stored
from fencepost.harness.visible_text import visible

Line = tuple[str, str]  # what a line begins with, and its text, whose continuation stands below its beginning
_LABEL, _NARROWEST = 19, 30


def lines(card: Card) -> list[Line]:
    """Everything that a card says, but for its drawings."""
    return [
        *_head(card),
        *_happened(card),
        *_broker_lines(card),
        *_records(card),
        *_stored(card.stored),
        *_positions(card),
        *_operations(card),
    ]


def folded(some: Sequence[Line], width: int | None) -> Iterator[str]:
    """Lines of at most so many columns (None: as long as they are), in which no text controls a terminal."""
    for head, text in some:
        clean_head, clean = visible(head, unescaped=""), visible(text, unescaped="")
        if width is None or len(clean_head) + len(clean) <= width:
            yield (clean_head + clean).rstrip()
            continue
        indent = " " * min(len(clean_head), max(0, width - _NARROWEST))
        yield from textwrap.wrap(
            clean, max(width, _NARROWEST), initial_indent=clean_head, subsequent_indent=indent, break_on_hyphens=False
        )


def _head(card: Card) -> Iterator[Line]:
    for finding in card.findings:
        yield "", f"Finding {finding.id}: {finding.anomaly}, at {finding.since}{'' if card.forbidden else ' (permitted)'}"
        yield "  ", finding.sentence
        if finding.includes:
            yield "  ", f"part of it, and not listed again: {', '.join(finding.includes)}"
    yield "", ""
    yield from (_labelled(label, words) for label, words in card.facts)
    for fault in card.faults:
        yield _labelled("Fault around it", f"#{fault.id} {fault.text}")
    for name, contract in card.reasons:
        if contract:
            named = f" ({name})" if len(card.reasons) > 1 else ""
            yield _labelled("Forbidden because" if card.forbidden else "Permitted because", contract + named)
    yield from (_labelled("Not known", sentence) for sentence in card.unknown)
    if card.lost_operations:
        yield _labelled("Not in the history", f"operation {', '.join(map(str, card.lost_operations))}")


def _labelled(label: str, words: str) -> Line:
    return f"  {label:{_LABEL}}", words


def _title(text: str) -> list[Line]:
    return [("", ""), ("", text)]


def _happened(card: Card) -> Iterator[Line]:
    if not card.events:
        return
    yield from _title(f"In order of time{' (UTC, since the start)' if card.clock else ''}")
    nodes = max(len(visible(event.where, unescaped="")) for event in card.events)
    for event in card.events:
        yield _moment(event.utc, event.since, event.where, min(nodes, 24)), _words(event)
    if card.more_events:
        yield "  ", f"and {plural(card.more_events, 'more event')}"
    if card.clock:
        yield "  ", f"{card.clock}."


def _moment(utc: str, since: str, node: str, width: int) -> str:
    clock = f"{utc:12}  " if utc else ""
    return f"  {clock}{since:>10}  {node:{width}}  "


def _words(event: Event) -> str:
    if event.operation is None or event.kind not in ("begin", "read", "context"):
        return event.text
    return f"{event.text} (operation {event.operation})"


def _broker_lines(card: Card) -> Iterator[Line]:
    if not (card.lines or card.log_gaps or card.brokers):
        return
    whose = f" of {', '.join(card.brokers)}" if card.brokers else ""
    yield from _title(f"WARN and ERROR lines{whose} within two seconds{'' if card.lines else ': none'}")
    nodes = max((len(line.node) for line in card.lines), default=0)
    for line in card.lines:
        names = f" (names {', '.join(line.names)})" if line.names else ""
        yield _moment(line.utc, line.since, line.node, nodes), f"{line.level} {line.logger}{names}"
        yield "      ", line.text
        if line.exception:
            yield "      ", line.exception + (f" and {plural(line.more, 'more line')}" if line.more else "")
    if card.more_lines:
        yield "  ", f"and {plural(card.more_lines, 'more line')}"
    yield from (("  ", sentence) for sentence in card.log_gaps)


def _records(card: Card) -> Iterator[Line]:
    if not card.records:
        return
    yield from _title("Records")
    for record in card.records:
        value = f" = {record.value}" if record.value else ""
        logs = f"; in the logs: {record.logs}" if record.logs else ""
        yield f"  {record.place:12}  {record.role:8}  ", f"{record.sender}, operation {record.operation}{value}{logs}"
    if card.more_records:
        yield "  ", f"and {plural(card.more_records, 'more record')}"


def _stored(stored: Stored | None) -> Iterator[Line]:
    if stored is None:
        return
    yield from _title(f"Log segments of {stored.nodes}{f': none holds {stored.absent}' if stored.absent else ''}")
    for row in stored.rows:
        rest = f"producer {row.producer}, sequence {row.sequence}, leader epoch {row.leader_epoch}, on {row.nodes}"
        mark = f" {row.mark}" if row.mark else ""
        yield f"  {row.place:12}  {row.time:12}  {row.kind:7}  ", f"{row.record}{mark}; {rest}"


def _positions(card: Card) -> Iterator[Line]:
    if not card.positions:
        return
    yield from _title("Last stable offset and high watermark")
    for row in card.positions:
        opened = "".join(f"earliest open transaction {offset} at {when}; " for when, offset in row.opened)
        yield f"  {row.partition:12}  ", f"{opened}at the end last stable offset {row.stable}, high watermark {row.high}"


def _operations(card: Card) -> Iterator[Line]:
    if not card.operations:
        return
    yield from _title("Operations that prove it")
    for op in card.operations:
        yield from _operation(op)
    if card.more_operations:
        yield "  ", f"and {plural(card.more_operations, 'more operation')}"


def _operation(op: OperationRow) -> Iterator[Line]:
    yield "  ", f"operation {op.index}: {op.outcome} {op.title}, {op.who}, {op.when}"
    micro = ", ".join(" ".join(filter(None, (each.verb, each.place, each.mark, each.note))) for each in op.micro)
    if micro:
        yield "      ", micro + (f" and {op.more_micro:,} more" if op.more_micro else "")
    for error in op.errors:
        yield "      ", f"{error.when} {error.call} → {', '.join((error.name, *error.flags))}: {error.text}"
    for place, why, raw in op.strange:
        yield "      ", f"strange record at {place}: {why}: {raw}"
