"""The page model: pure functions from what a report is made of to what the templates show.

A panel is a module and a template of the same name in `panels/`: `fields` gives the names that the templates know.
"""

from __future__ import annotations

from types import SimpleNamespace

from fencepost.harness.report.documents import ReportData
from fencepost.harness.report.panels import faults, fencing, findings, properties, settings, timeline, untested, verdict

PANELS = (verdict, properties, timeline, findings, fencing, faults, untested, settings)  # in the order of the page


class Page(SimpleNamespace):
    """Everything on the page: the fields of every panel, `title`, `version`, and `templates`, one for each panel."""


def page(run: ReportData) -> Page:
    """The page of a run."""
    made = Page(
        title=str(run.verdict.get("test") or run.plan.get("test") or "run"),
        version=str(run.plan.get("fencepost", "")),
        templates=tuple(f"{panel.__name__.rpartition('.')[2]}.html" for panel in PANELS),
    )
    for panel in PANELS:
        fields = panel.fields(run)
        if twice := vars(made).keys() & fields:
            raise ValueError(f"two panels of the report have the fields {sorted(twice)}")
        vars(made).update(fields)
    return made
