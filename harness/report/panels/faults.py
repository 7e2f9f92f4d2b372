"""Faults as the page tells them: what was meant, what it hit, and what proves that it hurt."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.harness.page_text import NOTHING, anchor, at, duration, flat, plain
from fencepost.harness.report.documents import Doc, ReportData
from fencepost.harness.report.paces import Pace, Paces, paces

_SHOWN = 6


@dataclass(frozen=True, kw_only=True)
class ReachGrid:
    """The nodes that reached each other during a fault.

    rows: a source, and for each of `nodes` its state: open, closed, stayed (closed after healing too), before (closed before the
    fault already), or self. No rows when every pair was open.
    """

    summary_line: str
    nodes: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, kw_only=True)
class FaultRow:
    """One receipt. `state` is effective, no effect, or not proven; and beside it whether it was healed, and lasted till then.

    rates, latencies: of successful writes, before, during and after it; without words where nothing is known.
    """

    id: int
    anchor: str
    kind: str
    role: str
    targets: str
    when: str
    lasted: str
    gap: str
    recovery: str
    rates: tuple[str, ...]
    latencies: tuple[str, ...]
    state: str
    css: str
    note: str
    evidence: tuple[str, ...]
    reach: ReachGrid | None
    full: str


def fields(run: ReportData) -> dict[str, Any]:
    """The template's variables."""
    return {"faults": rows(run), "faults_known": run.faults is not None, "missing": missing(run)}


def name(fault: Doc) -> str:
    """`kill n2`: a fault in two words."""
    return f"{fault.get('kind', '?')} {where(fault)}".strip()


def where(fault: Doc) -> str:
    """The nodes a fault hit; for a cut that names none, who is not heard by whom."""
    pairs = [pair.partition(">") for pair in fault.get("pairs") or ()]
    if fault.get("targets") or not pairs:
        return ", ".join(_hit(fault) or fault.get("targets") or ())
    return f"{_nodes(source for source, _, _ in pairs)} → {_nodes(destination for _, _, destination in pairs)}"


def _hit(fault: Doc) -> list[str]:
    """The targets that were hurt, where a receipt says that those were only some."""
    evidence = fault.get("evidence")
    hit = evidence.get("hit") if isinstance(evidence, Mapping) else None
    return [str(node) for node in hit] if isinstance(hit, list) else []


def _nodes(names: Iterable[str]) -> str:
    different = list(dict.fromkeys(names))
    return ", ".join(different) if len(different) <= 3 else f"{len(different)} nodes"


def rows(run: ReportData) -> tuple[FaultRow, ...]:
    measured = {each.get("id"): each for each in (run.verdict.get("progress") or {}).get("faults") or ()}
    around = paces(run)
    return tuple(
        _row(fault, run.origin_ns, measured.get(fault["id"]) or {}, around.get(fault["id"])) for fault in run.faults or ()
    )


def anchor_of(fault: Doc) -> str:
    """The id of a fault's row on the page."""
    return anchor("fault", fault["id"])


def _row(fault: Doc, origin_ns: int, measured: Doc, pace: Paces | None) -> FaultRow:
    begun = fault.get("injected_ns") or 0
    state, css = {True: ("effective", "held"), False: ("no effect", "violated")}.get(
        fault.get("effective"),  # type: ignore[arg-type]
        ("not proven", "unknown"),
    )
    return FaultRow(
        id=fault["id"],
        anchor=anchor_of(fault),
        kind=fault.get("kind") or "?",
        role=fault.get("role") or "",
        targets=where(fault),
        when=at(begun, origin_ns) if begun else "never struck",
        lasted=_lasted(fault),
        gap=_seconds(measured.get("gap_s")) if begun else NOTHING,
        recovery=_seconds(measured.get("recovery_s")),
        rates=tuple(map(_rate, pace)) if pace else (),
        latencies=tuple(map(_latency, pace)) if pace and any(span and span.p99_ns is not None for span in pace) else (),
        state=", ".join([state, *_endings(fault)]),
        css=css,
        note=fault.get("note") or "",
        evidence=summary(fault.get("evidence"), fault.get("healing")),
        reach=reach_grid(fault.get("reach")),
        full=_full(fault),
    )


def _rate(pace: Pace | None) -> str:
    if pace is None:
        return NOTHING
    return f"{pace.rate:.1f}" if 0 < pace.rate < 10 else f"{pace.rate:,.0f}"


def _latency(pace: Pace | None) -> str:
    return NOTHING if pace is None or pace.p99_ns is None else duration(pace.p99_ns)


def _seconds(seconds: float | None) -> str:
    return NOTHING if seconds is None else duration(seconds * 1e9)


def remarks(fault: Doc) -> list[str]:
    """The remarks on a fault wherever it is drawn: that its effect does not show, or that it did not last as planned."""
    effect = {False: "no effect", None: "effect not proven"}.get(fault.get("effective"))
    return [effect, *_endings(fault)] if effect else _endings(fault)


def _endings(fault: Doc) -> list[str]:
    """The ending of a fault that struck, unless it was healed as planned."""
    if not fault.get("injected_ns"):
        return []
    early = ended_early(fault)
    return ["not healed"] * (not fault.get("healed_ns")) + [f"ended early at {', '.join(early)}"] * bool(early)


def ended_early(fault: Doc) -> list[str]:
    """The nodes at which a fault was over before it was healed; how long it lasted there is not known."""
    early = _mapping(fault.get("healing")).get("ended_early")
    return [str(node) for node in early] if isinstance(early, list) else []


def _lasted(fault: Doc) -> str:
    begun, healed = fault.get("injected_ns") or 0, fault.get("healed_ns") or 0
    if not begun or not healed:
        return "until the end" if begun else NOTHING
    return f"at most {duration(healed - begun)}" if ended_early(fault) else duration(healed - begun)


def summary(evidence: Any, healing: Any) -> tuple[str, ...]:
    """Evidence in a few lines: what was measured before, during and after the fault side by side, then the rest.

    Of the rest, what is measured under one name at both times is one line too.
    """
    begun, ended = _mapping(evidence), _mapping(healing)
    stages = [stage for stage in (begun.pop("before", None), begun.pop("during", None), ended.pop("after", None)) if stage]
    lines = _stages(stages) if all(isinstance(stage, Mapping) for stage in stages) else [plain(stage) for stage in stages]
    if isinstance(ended.get("dropped"), Mapping) and all(isinstance(count, int) for count in ended["dropped"].values()):
        lines.append(f"{sum(ended.pop('dropped').values()):,} packets dropped")
    measured: dict[str, list[str]] = {}
    for key, value in (*flat(begun), *flat(ended)):
        if value != "none":
            measured.setdefault(key, []).append(value)
    lines += [f"{key}: {' → '.join(values)}" if key else " → ".join(values) for key, values in measured.items()]
    more = len(lines) - _SHOWN
    return (*lines[:_SHOWN], f"and {more} more") if more > 0 else tuple(lines)


def reach_grid(reach: Any) -> ReachGrid | None:
    """The harness's probes of all pairs around a fault; None where there were none."""
    if not reach or not reach.get("nodes") or reach.get("before") is None or reach.get("during") is None:
        return None
    nodes = tuple(reach["nodes"])
    looks = [set(reach[name]) for name in ("before", "during", "after") if reach.get(name) is not None]
    closed = " → ".join(str(len(look)) for look in looks)
    states = {"before": looks[0], "stayed": looks[2] if len(looks) > 2 else set(), "closed": looks[1]}
    rows = tuple((source, tuple(_reached(source, other, states) for other in nodes)) for source in nodes)
    summary_line = f"closed pairs of all {len(nodes) * (len(nodes) - 1)}: {closed}"
    return ReachGrid(summary_line=summary_line, nodes=nodes, rows=rows if any(looks) else ())


def _reached(source: str, destination: str, states: Mapping[str, set[str]]) -> str:
    if source == destination:
        return "self"
    return next((state for state, pairs in states.items() if f"{source}>{destination}" in pairs), "open")


def _mapping(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {"": value} if value else {}


def _stages(stages: list[Mapping[str, Any]]) -> list[str]:
    """`n2: pid 812 → gone → 907` for each node; probes are counted: `open pairs: 4 of 4 → 0 of 4 → 4 of 4`."""
    values = [value for stage in stages for value in stage.values()]
    if values and all(isinstance(value, bool) for value in values):
        return ["open pairs: " + " → ".join(f"{sum(stage.values())} of {len(stage)}" for stage in stages)]
    nodes = list(dict.fromkeys(node for stage in stages for node in stage))
    return [f"{node}: " + " → ".join(_measured(stage[node]) for stage in stages if node in stage) for node in nodes]


def _measured(value: Any) -> str:
    if value is None:
        return "gone"
    if isinstance(value, int):
        return f"pid {value}"
    return {"": "gone", "T": "state T (frozen)"}.get(value, f"state {value}") if isinstance(value, str) else plain(value)


def _full(fault: Doc) -> str:
    return json.dumps({key: value for key, value in fault.items() if value not in (None, [], "")}, indent=1, ensure_ascii=False)


def around(fault: Doc, origin_ns: int) -> str:
    """A fault beside a finding: `kill n2, from 3.2 s to 7.4 s`."""
    healed = fault.get("healed_ns")
    until = f"to {at(healed, origin_ns)}" if healed else "until the end"
    remark_words = ", ".join(remarks(fault))
    return f"{name(fault)}, from {at(fault.get('injected_ns'), origin_ns)} {until}{f' ({remark_words})' if remark_words else ''}"


def never_struck(run: ReportData) -> list[Doc]:
    """The injections of the plan that have no receipt; none where receipts are missing, for nobody knows of these."""
    if run.receipts_lost:
        return []
    struck = {fault["id"] for fault in run.faults or ()}
    return [injection for injection in run.plan.get("schedule", ()) if injection.get("id") not in struck]


def missing(run: ReportData) -> tuple[tuple[str, str], ...]:
    """Capabilities this machine does not offer, and why."""
    return tuple((need, plain(why)) for need, why in run.plan.get("unavailable", {}).items())
