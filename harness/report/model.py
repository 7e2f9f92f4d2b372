"""The page model: pure functions from what a report is made of to what the templates show.

A panel is a module and a template of the same name in `panels/`: `fields` gives the names that the templates know.
"""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

from fencepost.harness.api.values import Verdict
from fencepost.harness.report.documents import ReportData
from fencepost.harness.report.panels import (
    faults,
    fencing,
    files,
    findings,
    properties,
    settings,
    timeline,
    untested,
    verdict,
    why,
)

PANELS: dict[ModuleType, str] = {  # in the order of the page, with the name that leads to each; none: nothing leads there
    verdict: "",
    why: "Why",
    findings: "Findings",
    timeline: "Timeline",
    faults: "Faults",
    properties: "Properties",
    fencing: "",
    untested: "Not tested",
    settings: "Settings",
    files: "Files",
}


class Page(SimpleNamespace):
    """Everything on the page: the fields of every panel, `title`, `version`, `nav`, and `templates`, one for each panel.

    left_out: what would have made the page too large (`harness.report.limits`), in words.
    """


def page(run: ReportData) -> Page:
    """The page of a run."""
    order = [_name(panel) for panel in ordered(run)]
    names = {_name(panel): name for panel, name in PANELS.items()}
    made = Page(
        title=str(run.verdict.get("test") or run.plan.get("test") or "run"),
        version=str(run.plan.get("fencepost", "")),
        templates=tuple(f"{panel}.html" for panel in order),
        nav=tuple((panel, names[panel]) for panel in order if names[panel]),
        left_out=(),
    )
    for panel in PANELS:
        fields = panel.fields(run)
        if twice := vars(made).keys() & fields:
            raise ValueError(f"two panels of the report have the fields {sorted(twice)}")
        vars(made).update(fields)
    return made


def ordered(run: ReportData) -> list[ModuleType]:
    """The panels in their order: findings first, but in a valid run what held."""
    panels = list(PANELS)
    if run.verdict.get("verdict") == Verdict.VALID.value:
        panels.remove(properties)
        panels.insert(panels.index(findings), properties)
    return panels


def _name(panel: ModuleType) -> str:
    return panel.__name__.rpartition(".")[2]
