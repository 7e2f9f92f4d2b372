"""The properties by promise: what the contract forbids, what was not exercised of it, what it permits; each with its answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from fencepost.harness.api.promises import place_of
from fencepost.harness.api.values import Property
from fencepost.harness.api.words import plural
from fencepost.harness.page_text import anchor, number
from fencepost.harness.report.documents import Doc, ReportData

_ORDER = [
    word.value
    for word in (
        Property.VIOLATED,
        Property.UNKNOWN,
        Property.HELD,
        Property.WITHOUT_OCCASION,
        Property.NOT_EXERCISED,
    )
]
_KEPT = (Property.HELD.value, Property.WITHOUT_OCCASION.value, Property.NOT_EXERCISED.value)


@dataclass(frozen=True, kw_only=True)
class PropertyRow:
    """One anomaly that was looked for.

    anchor: its id on the page.
    verdict: its answer, as the verdict has it; state: the word that is shown.
    contract: why it is forbidden, or permitted; empty where the row before says it.
    promise: that it breaks; empty in verdicts of versions before 0.2.
    occasions: how often each kind of event occurred of which it needs one, in words; empty: it needs none.
    """

    name: str
    anchor: str
    verdict: str
    state: str
    css: str
    count: str
    compared: str
    reason: str
    contract: str
    definition: str
    promise: str
    occasions: str = ""

    @property
    def is_idle(self) -> bool:
        """Return whether nothing was compared."""
        return self.verdict == Property.NOT_EXERCISED.value

    @property
    def decides(self) -> bool:
        """Return whether its answer keeps the run from being valid."""
        return self.verdict not in _KEPT


@dataclass(frozen=True, kw_only=True)
class PromiseGroup:
    """The anomalies that break one promise."""

    promise: str
    rows: tuple[PropertyRow, ...]


@dataclass(frozen=True, kw_only=True)
class UnexercisedGroup:
    """Anomalies of which nothing was compared, for one reason. what: their names, or of many their number and promise."""

    what: str
    reason: str
    rows: tuple[PropertyRow, ...]


def fields(run: ReportData) -> dict[str, Any]:
    """The template's variables."""
    rows = properties(run.verdict.get("properties", []))
    allowed = properties(run.verdict.get("allowed", []), allowed=True)
    idle = [row for row in rows if row.is_idle]
    return {
        "properties": rows,
        "allowed": allowed,
        "promises_kept": by_promise(row for row in rows if not row.is_idle),
        "promises_allowed": by_promise(allowed),
        "unexercised": unexercised(idle),
        "unexercised_count": len(idle),
    }


def properties(rows: Sequence[Doc], allowed: bool = False) -> tuple[PropertyRow, ...]:
    """Properties, the worst answers first, then by promise. For allowed ones the words say that."""
    made = [_row(row, allowed) for row in sorted(rows, key=_rank)]
    taken = Counter(row.anchor for row in made)
    # an anomaly may be judged under two rules, and names from elsewhere may be alike
    return tuple(
        replace(row, anchor=f"{row.anchor}-{at}") if taken[row.anchor] > 1 and at else row for at, row in enumerate(made)
    )


def _rank(row: Doc) -> tuple[int, int, str, str]:
    verdict = row.get("verdict")
    answer = _ORDER.index(str(verdict)) if verdict in _ORDER else 1
    return answer, place_of(row.get("promise", "")), row.get("promise", ""), row.get("contract", "")


def _row(row: Doc, allowed: bool) -> PropertyRow:
    words = dict.fromkeys((Property.HELD.value, Property.WITHOUT_OCCASION.value), "not seen") if allowed else {}
    words |= {Property.VIOLATED.value: "seen"} if allowed else {}
    state, name = str(row.get("verdict", Property.UNKNOWN.value)), str(row.get("name", "?"))
    return PropertyRow(
        name=name,
        anchor=anchor("permitted" if allowed else "property", name),
        verdict=state,
        state=words.get(state, state),
        css="allowed" if allowed else state.replace(" ", "-") if state in _ORDER else "unknown",
        count=number(row.get("count")),
        compared=number(row.get("compared")),
        reason=row.get("reason", ""),
        contract=row.get("contract", ""),
        definition=row.get("definition", ""),
        promise=row.get("promise", ""),
        occasions=_occasions(row.get("occasions") or {}),
    )


def _occasions(counts: Mapping[str, int | None]) -> str:
    return " · ".join(f"{name} {'?' if count is None else number(count)}" for name, count in counts.items())


def by_promise(rows: Iterable[PropertyRow]) -> tuple[PromiseGroup, ...]:
    """Rows by the promise that they break: broken promises first, then in the order of the rules page."""
    groups: dict[str, list[PropertyRow]] = {}
    for row in rows:
        groups.setdefault(row.promise, []).append(row)
    ordered = sorted(groups.items(), key=lambda group: (_severity(group[1]), place_of(group[0])))
    return tuple(PromiseGroup(promise=promise, rows=_each_contract_once(some)) for promise, some in ordered)


def _severity(rows: Sequence[PropertyRow]) -> int:
    """The place of a promise: broken, unknown, kept."""
    if any(row.verdict == Property.VIOLATED.value for row in rows):
        return 0
    return 1 if any(row.decides for row in rows) else 2


def _each_contract_once(rows: Sequence[PropertyRow]) -> tuple[PropertyRow, ...]:
    before = ("", *(row.contract for row in rows))
    return tuple(
        replace(row, contract="" if row.contract in (last, row.reason) else row.contract)
        for row, last in zip(rows, before, strict=False)
    )


def unexercised(rows: Iterable[PropertyRow]) -> tuple[UnexercisedGroup, ...]:
    """Anomalies without a comparison, joined where promise and reason are the same; in the order of the promises."""
    ordered = sorted(rows, key=lambda row: (place_of(row.promise), row.promise, row.reason))
    groups = groupby(ordered, key=lambda row: (row.promise, row.reason))
    return tuple(_unexercised(promise, reason, tuple(some)) for (promise, reason), some in groups)


def _unexercised(promise: str, reason: str, rows: tuple[PropertyRow, ...]) -> UnexercisedGroup:
    many = plural(len(rows), "anomaly", "anomalies") + (f" of “{promise}”" if promise else "")
    return UnexercisedGroup(what=rows[0].name if len(rows) == 1 else many, reason=reason or "nothing was compared", rows=rows)
