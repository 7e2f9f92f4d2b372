"""The page model: pure functions from a run's documents to what the templates show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.report import faults, findings, overview, settings, unseen
from harness.report.documents import ReportData
from harness.report.text import plain
from harness.report.timeline import timeline


@dataclass(frozen=True, kw_only=True)
class Page:
    """Everything on the page, in its order. Templates add no logic to it."""

    title: str
    headline: overview.Headline
    facts: tuple[tuple[str, str], ...]
    tiles: tuple[overview.Tile, ...]
    weakened: tuple[str, ...]
    notes: tuple[str, ...]
    properties: tuple[overview.PropertyRow, ...]
    allowed: tuple[overview.PropertyRow, ...]
    timeline: dict[str, Any] | None
    sampled: bool
    unseen: str
    groups: tuple[findings.Group, ...]
    permitted: tuple[findings.Group, ...]
    anomalies: int | None
    faults: tuple[faults.FaultRow, ...]
    faults_known: bool
    missing: tuple[tuple[str, str], ...]
    untested: tuple[overview.Untested, ...]
    sections: tuple[settings.Section, ...]
    command: str
    version: str


def page(run: ReportData) -> Page:
    """The page of a run."""
    verdict, drawn, told = run.verdict, timeline(run), findings.groups(run)
    return Page(
        title=str(verdict.get("test") or run.plan.get("test") or "run"),
        headline=overview.headline(run),
        facts=overview.facts(run),
        tiles=overview.tiles(run),
        weakened=tuple(plain(why) for why in verdict.get("weakened", ())),
        notes=run.notes,
        properties=overview.properties(verdict.get("properties", [])),
        allowed=overview.properties(verdict.get("allowed", []), allowed=True),
        timeline=drawn,
        sampled=drawn is not None and len(drawn["ops"]["index"]) < drawn["total"],
        unseen=unseen.words(run),
        groups=tuple(group for group in told if group.forbidden),
        permitted=tuple(group for group in told if not group.forbidden),
        anomalies=run.anomalies,
        faults=faults.rows(run),
        faults_known=run.faults is not None,
        missing=faults.missing(run),
        untested=overview.untested(run),
        sections=settings.sections(run),
        command=str(run.plan.get("command", "")),
        version=str(run.plan.get("fencepost", "")),
    )
