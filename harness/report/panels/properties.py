"""The properties: what the contract forbids, then what it permits, each with its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fencepost.harness.api.values import Property
from fencepost.harness.report.documents import Doc, ReportData
from fencepost.harness.report.text import number

_ORDER = [Property.VIOLATED.value, Property.UNKNOWN.value, Property.NOT_EXERCISED.value, Property.HELD.value]


@dataclass(frozen=True, kw_only=True)
class PropertyRow:
    """One anomaly that was looked for. promise: that it breaks; empty in verdicts of versions before 0.2."""

    name: str
    state: str  # the word
    css: str
    count: str
    compared: str
    reason: str
    contract: str
    definition: str
    promise: str


def fields(run: ReportData) -> dict[str, Any]:
    """The template's variables."""
    return {
        "properties": properties(run.verdict.get("properties", [])),
        "allowed": properties(run.verdict.get("allowed", []), allowed=True),
    }


def _rank(row: Doc) -> int:
    verdict = row.get("verdict")
    if verdict == Property.NOT_EXERCISED.value and row.get("contract", "") in ("", row.get("reason")):
        return len(_ORDER)  # it does not apply
    return _ORDER.index(verdict) if verdict in _ORDER else 1


def properties(rows: list[Doc], allowed: bool = False) -> tuple[PropertyRow, ...]:
    """Properties, the worst answers first, and what nothing was promised of last. For allowed ones the words say that."""
    words = {Property.VIOLATED.value: "seen", Property.HELD.value: "not seen"} if allowed else {}
    made = []
    for row in sorted(rows, key=_rank):
        state = str(row.get("verdict", Property.UNKNOWN.value))
        made.append(
            PropertyRow(
                name=row.get("name", "?"),
                state=words.get(state, state),
                css="allowed" if allowed else state.replace(" ", "-") if state in _ORDER else "unknown",
                count=number(row.get("count")),
                compared=number(row.get("compared")),
                reason=row.get("reason", ""),
                contract=row.get("contract", ""),
                definition=row.get("definition", ""),
                promise=row.get("promise", ""),
            )
        )
    return tuple(made)
