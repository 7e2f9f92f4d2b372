"""Findings as incidents: a card for each cause, with what proves it, in order of time, and what surrounds it.

The first cards are shown in full, the others folded and short: `fencepost show RUN FINDING` has any of them in full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fencepost.harness.report.documents import Doc, ReportData
from fencepost.harness.report.glossary import Term, used
from fencepost.harness.report.incident_card import Card, answer, full_card, short_card
from fencepost.harness.report.incident_material import OPERATIONS, Material, incidents_of, material
from fencepost.harness.report.incidents import Incident

OPEN_CARDS = 20


@dataclass(frozen=True, kw_only=True)
class Group:
    """All findings of one anomaly; only those in `verdict.json` can be shown. cards: those of an anomaly that is permitted."""

    anomaly: str
    forbidden: bool
    contract: str
    total: int
    shown: int
    cards: tuple[Card, ...] = ()


def fields(run: ReportData) -> dict[str, Any]:
    """The template's variables."""
    grouped = groups(run)
    opened, folded = _dealt(incidents_of(run))
    made = material(run, opened, of_cards(run.findings))
    anchors: set[int] = set()
    cards = tuple(full_card(made, incident, anchors) for incident in opened)
    short = tuple(short_card(made, incident, anchors, forbidden=True) for incident in folded)
    permitted = tuple(_permitted(made, group, anchors) for group in grouped if not group.forbidden)
    return {
        "groups": tuple(group for group in grouped if group.forbidden),
        "permitted": permitted,
        "cards": cards,
        "folded_cards": short,
        "folded_kinds": tuple(Counter(name for card in short for name, _ in card.anomalies).items()),
        "anomalies": run.anomalies,
        "glossary": _glossary([*cards, *short]),
        "run_name": "" if run.run is None else str(run.run.id),
    }


def card_of(run: ReportData, finding: int) -> Card | None:
    """The card of the incident to which a finding belongs, in full; None: there is no such finding."""
    incident = next((each for each in incidents_of(run) if any(f.get("id") == finding for f in each.findings)), None)
    if incident is not None:
        return full_card(material(run, [incident], of_cards(incident.findings)), incident, set())
    permitted = [each for each in run.verdict.get("findings") or () if each.get("id") == finding]
    made = material(run, (), of_cards(permitted))
    return short_card(made, Incident(tuple(permitted)), set(), forbidden=False) if permitted else None


def groups(run: ReportData) -> tuple[Group, ...]:
    """Findings by anomaly, forbidden ones first, in the verdict's order."""
    by_anomaly: dict[tuple[bool, str], int] = {}
    for finding in run.findings:
        key = (not finding.get("forbidden", True), finding.get("anomaly", "?"))
        by_anomaly[key] = by_anomaly.get(key, 0) + 1
    ordered = sorted(by_anomaly.items(), key=lambda item: item[0][0])
    return tuple(_group(run, anomaly, not permitted, count) for (permitted, anomaly), count in ordered)


def _group(run: ReportData, anomaly: str, forbidden: bool, shown: int) -> Group:
    row = answer(run, anomaly, forbidden)
    total = max(row.get("count") or 0, shown)
    return Group(anomaly=anomaly, forbidden=forbidden, contract=row.get("contract", ""), total=total, shown=shown)


def _permitted(made: Material, group: Group, anchors: set[int]) -> Group:
    findings = [f for f in made.data.findings if not f.get("forbidden", True) and f.get("anomaly", "?") == group.anomaly]
    cards = tuple(short_card(made, Incident((finding,)), anchors, forbidden=False) for finding in findings)
    return replace(group, cards=cards)


def _dealt(all_incidents: Sequence[Incident]) -> tuple[list[Incident], list[Incident]]:
    """The incidents that are shown in full, and the others, both in order; those of the same anomalies share the places."""
    by_anomalies: dict[tuple[str, ...], list[Incident]] = {}
    for incident in all_incidents:
        by_anomalies.setdefault(tuple(sorted(incident.anomalies)), []).append(incident)
    places = shares([len(some) for some in by_anomalies.values()], OPEN_CARDS)
    opened = {id(incident) for some, count in zip(by_anomalies.values(), places, strict=True) for incident in some[:count]}
    return [i for i in all_incidents if id(i) in opened], [i for i in all_incidents if id(i) not in opened]


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
    return {index for finding in findings for index in finding.get("operations", ())[:OPERATIONS]}


def _glossary(cards: Sequence[Card]) -> tuple[Term, ...]:
    """The terms that the cards use."""
    texts = [contract for card in cards for _, contract in card.reasons]
    texts += [words for card in cards for _, words in card.facts]
    texts += ["transaction coordinator, marker, leader"] * any(card.drawing for card in cards)
    texts += ["producer id and epoch, sequence number, leader epoch"] * any(card.stored for card in cards)
    texts += ["last stable offset, high watermark"] * any(card.positions for card in cards)
    texts += ["info, final read, read_committed"] * any(card.operations for card in cards)
    return used(texts)
