"""An incident as a sequence drawing: a line for each node, an arrow for each call, record, marker and read, time downwards.

Pure numbers; the template turns them into SVG. What no event says is not drawn: where nobody knows which broker led a partition,
`leader of t-0` is a line of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fencepost.harness.page_text import shortened
from fencepost.harness.report.incident_events import Event

MOST_ARROWS, MOST_NOTES, MOST_LANES = 12, 8, 7
_GUTTER, _LANE, _ROW, _HEAD, _EDGE = 84.0, 148.0, 30.0, 52.0, 120.0
_LABEL, _NOTE, _ROLE = 30, 38, 24
_FEWEST_ARROWS = 2
_CLIENTS, _READERS = ("send", "call", "wire", "begin", "end", "error", "context"), ("read",)


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A node, and what it is in this incident."""

    x: float
    name: str
    role: str


@dataclass(frozen=True, kw_only=True)
class Step:
    """An arrow from `x1` to `x2`, a note at `x1`, or (`fault`) a line through all lanes, at `y`.

    anchor: of the text at `x`: start, middle or end.
    open: nobody answered.
    """

    kind: str
    y: float
    x1: float
    x2: float
    x: float
    anchor: str
    label: str
    since: str
    title: str
    open: bool = False
    loop: bool = False


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """All of it, in a box of `width` by `height`."""

    width: float
    height: float
    lanes: tuple[Lane, ...]
    steps: tuple[Step, ...]
    label: str


def sequence(events: Sequence[Event], roles: Mapping[str, str]) -> Drawing | None:
    """The drawing of some events; None where there is too little to draw.

    roles: what each node is in it, in a few words.
    """
    drawn = _chosen(events)
    arrows = [event for event in drawn if event.to]
    names = _lanes(arrows)
    if len(arrows) < _FEWEST_ARROWS or len(names) > MOST_LANES or len(names) < 2:
        return None
    at = {name: _GUTTER + 40 + _LANE * number for number, name in enumerate(names)}
    width = _GUTTER + 40 + _LANE * (len(names) - 1) + _EDGE
    drawn = [event for event in drawn if event.to or event.kind == "fault" or event.where in at]
    steps = [step for row, event in enumerate(drawn) for step in _steps(event, at, width, _HEAD + 22 + _ROW * row)]
    return Drawing(
        width=round(width, 1),
        height=round(_HEAD + 22 + _ROW * len(drawn), 1),
        lanes=tuple(Lane(x=x, name=shortened(name, 18), role=shortened(roles.get(name, ""), _ROLE)) for name, x in at.items()),
        steps=tuple(steps),
        label="; ".join(f"{event.since} {_words(event)}" for event in drawn),
    )


def _words(event: Event) -> str:
    if event.kind == "read":
        return f"{event.to} to {event.where}: {event.label}"
    to = ", ".join(filter(None, (event.to, *event.also)))
    return f"{event.where} to {to}: {event.label}" if to else f"{event.where}: {event.label}"


def _chosen(events: Sequence[Event]) -> list[Event]:
    """The events that are drawn, in order: the first arrows, and the notes nearest to them."""
    labelled = _joined([event for event in events if event.label])
    arrows = [event for event in labelled if event.to][:MOST_ARROWS]
    if not arrows:
        return []
    acts = [event.time for event in arrows if event.kind != "read"] or [event.time for event in arrows]
    middle = (acts[0] + acts[-1]) // 2
    notes = [event for event in labelled if not event.to]
    notes = sorted(notes, key=lambda event: (event.kind == "fault", abs(event.time - middle)))[:MOST_NOTES]
    return sorted([*arrows, *notes], key=lambda event: event.time)


def _joined(events: Sequence[Event]) -> list[Event]:
    """Sends to the same broker with the same outcome as one arrow, and the same error twice as one note."""
    joined: list[Event] = []
    of: dict[tuple[str, ...], int] = {}
    for event in events:
        key = (event.kind, event.where, event.to, str(event.open), "" if event.kind == "send" else event.label)
        if event.kind in ("send", "error") and key in of:
            known = joined[of[key]]
            joined[of[key]] = replace(known, label=_both(known.label, event.label)) if event.kind == "send" else known
            continue
        of[key] = len(joined)
        joined.append(event)
    return joined


def _both(first: str, second: str) -> str:
    """`t-2, t-3: no ack` of `t-2: no ack` and `t-3: no ack`."""
    head, colon, tail = second.partition(":")
    return f"{first.partition(':')[0]}, {head}{colon}{tail}"


def _lanes(arrows: Sequence[Event]) -> list[str]:
    """The nodes, from left to right: clients, brokers, readers."""
    clients = [event.where for event in arrows if event.kind in _CLIENTS]
    readers = [event.where for event in arrows if event.kind in _READERS]
    markers = [event for event in arrows if event.kind == "marker"]
    brokers = sorted({event.to for event in arrows} | {node for event in markers for node in (event.where, *event.also)})
    return list(dict.fromkeys([*clients, *brokers, *readers]))


def _steps(event: Event, at: Mapping[str, float], width: float, y: float) -> list[Step]:
    """The arrow, note or line of an event; of a marker that went to several brokers an arrow for each, and one label."""
    first = _step(event, at, width, y)
    others = [_step(replace(event, to=node, label="", since=""), at, width, y) for node in event.also]
    return [first, *others]


def _step(event: Event, at: Mapping[str, float], width: float, y: float) -> Step:
    fault = event.kind == "fault"
    source, target = (event.to, event.where) if event.kind == "read" and event.to else (event.where, event.to)
    x1 = _GUTTER if fault else at[source]
    x2 = width - 8 if fault else at.get(target, x1)
    loop = bool(event.to) and x1 == x2
    x, anchor = _text_place(x1, x2, fault, loop or not event.to, width)
    return Step(
        kind=event.kind, y=y, x1=x1, x2=x2, x=round(x, 1), anchor=anchor, since=event.since, title=event.text, open=event.open,
        loop=loop, label=shortened(event.label, _LABEL if event.to else _NOTE),
    )  # fmt: skip


def _text_place(x1: float, x2: float, fault: bool, alone: bool, width: float) -> tuple[float, str]:
    if fault:
        return x1 + 6, "start"
    if not alone:
        return (x1 + x2) / 2, "middle"
    return (x1 + 30, "start") if x1 < width * 0.62 else (x1 - 12, "end")
