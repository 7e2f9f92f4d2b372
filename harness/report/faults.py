"""Faults as the page tells them: what was meant, what it hit, and what proves that it hurt."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from harness.report.documents import Doc, Run
from harness.report.text import NOTHING, at, duration, flat, plain

_SHOWN = 6


@dataclass(frozen=True, kw_only=True)
class FaultRow:
    """One receipt. `state` is effective, no effect, or not proven."""

    id: int
    kind: str
    role: str
    targets: str
    when: str
    lasted: str
    state: str
    css: str
    note: str
    evidence: tuple[str, ...]
    full: str


def name(fault: Doc) -> str:
    """`kill n2`: a fault in two words."""
    return f"{fault.get('kind', '?')} {where(fault)}".strip()


def where(fault: Doc) -> str:
    """The nodes a fault hit; for a partition, who cannot hear whom when there are few pairs."""
    targets = ", ".join(fault.get("targets") or ())
    pairs = [pair.replace(">", " → ") for pair in fault.get("pairs") or ()]
    if targets or not pairs:
        return targets
    return ", ".join(pairs[:3]) + (f" and {len(pairs) - 3} more" if len(pairs) > 3 else "")


def rows(run: Run) -> tuple[FaultRow, ...]:
    return tuple(_row(fault, run.origin_ns) for fault in run.faults or ())


def _row(fault: Doc, origin_ns: int) -> FaultRow:
    begun, healed = fault.get("injected_ns") or 0, fault.get("healed_ns") or 0
    state, css = {True: ("effective", "held"), False: ("no effect", "violated")}.get(
        fault.get("effective"),  # type: ignore[arg-type]
        ("not proven", "unknown"),
    )
    lasted = duration(healed - begun) if begun and healed else "not healed" if begun else NOTHING
    return FaultRow(
        id=fault["id"],
        kind=fault.get("kind") or "?",
        role=fault.get("role") or "",
        targets=where(fault),
        when=at(begun, origin_ns) if begun else "never struck",
        lasted=lasted,
        state=state,
        css=css,
        note=fault.get("note") or "",
        evidence=summary(fault.get("evidence"), fault.get("healing")),
        full=_full(fault),
    )


def summary(evidence: Any, healing: Any) -> tuple[str, ...]:
    """Evidence in a few lines; where the same thing was measured before and after, `before → after`."""
    before, after = dict(flat(evidence or {})), dict(flat(healing or {}))
    lines = []
    for key, value in before.items():
        later = after.pop(key, value)
        lines.append(f"{key}: {value}" if later == value else f"{key}: {value} → {later}")
    lines += [f"healed, {key}: {value}" for key, value in after.items()]
    lines = [line for line in lines if line.strip(": ") not in ("", "none")]
    more = len(lines) - _SHOWN
    return (*lines[:_SHOWN], f"and {more} more") if more > 0 else tuple(lines)


def _full(fault: Doc) -> str:
    return json.dumps({key: value for key, value in fault.items() if value not in (None, [], "")}, indent=1, ensure_ascii=False)


def around(fault: Doc, origin_ns: int) -> str:
    """A fault beside a finding: `kill n2, from 3.2 s to 7.4 s`."""
    healed = fault.get("healed_ns")
    until = f"to {at(healed, origin_ns)}" if healed else "until the end"
    effect = " (without effect)" if fault.get("effective") is False else ""
    return f"{name(fault)}, from {at(fault.get('injected_ns'), origin_ns)} {until}{effect}"


def missing(run: Run) -> tuple[tuple[str, str], ...]:
    """Capabilities this machine does not offer, and why."""
    return tuple((need, plain(why)) for need, why in run.plan.get("unavailable", {}).items())
