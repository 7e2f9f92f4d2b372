"""The report of one run: `report.html`, one file that needs no network, and `summary.md` for a CI job's page.

Documents become a page model by pure functions (`page`), and the model becomes text by templates without logic.
Whatever a record, an error or a setting contains, it stays text: templates escape everything, the data of the
timeline goes through `tojson`, and the page's own policy (CSP) runs no script but ours, known by its hash.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fencepost.harness.api.beneath import write_text
from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.api.words import plural
from fencepost.harness.memory.remembered import Remembered
from fencepost.harness.page_text import coded, fenced, for_html, for_markdown, number
from fencepost.harness.report.client_table import Promises, Row
from fencepost.harness.report.compiled_templates import CompiledTemplates
from fencepost.harness.report.documents import read
from fencepost.harness.report.glossary import explained
from fencepost.harness.report.limits import fitted
from fencepost.harness.report.model import Page, page
from fencepost.harness.report.policy import page_policy
from fencepost.harness.visible_text import visible

__all__ = ["compile_templates", "render", "render_clients"]

_ASSETS = Path(__file__).parent / "assets"
_STYLES = ("report.css", "findings.css", "uplot/uPlot.min.css", "timeline.css")
_SCRIPTS = ("errors.js", "page.js")  # the first before everything else, the others at the end
_TIMELINE = (  # one script, where there is something to draw: `page.js` uses the others, which know nothing of it
    *("uplot/LICENSE", "uplot/uPlot.iife.min.js"),
    *(
        f"timeline/{name}.js"
        for name in (
            *("packed", "view", "operations", "filter", "fragment", "lives", "words"),  # without a page
            *("palette", "canvas", "minimap", "curves", "selection", "cards"),
            *("moves", "filter_box", "address", "pointer", "page"),
        )
    ),
)
_TIMELINE_PANEL = "timeline.html"


def render(run: Run, remembered: Sequence[Remembered] = ()) -> Path:
    """Write `report.html` and `summary.md` of a run; returns the path of the first.

    remembered: what is remembered of its findings from other rounds.
    Raises CampaignError when `plan.json` or `verdict.json` cannot be read. Whatever else is missing, the report says so.
    """
    made = page(replace(read(run), remembered=tuple(remembered)))
    write_text(run.directory, run.place(RunFile.REPORT), html(made))
    write_text(run.directory, run.place(RunFile.SUMMARY), summary(made))
    return run.path(RunFile.REPORT)


def compile_templates() -> None:
    """Compile what `html` needs, at a time when nothing else is to do."""
    environment = _html()
    for name in environment.list_templates(extensions=["html"]):
        environment.get_template(name)


def html(shown: Page) -> str:
    """The report as one HTML document, which leaves something out where it would be too large (`harness.report.limits`)."""
    return fitted(shown, _document, _sizes)


def _document(shown: Page) -> str:
    style, scripts = _style(), [_asset(name) for name in _SCRIPTS]
    if shown.timeline:
        scripts.append(timeline_script())
    environment = _html()
    template = environment.get_template("report.html")
    return template.render(page=shown, style=style, scripts=scripts, policy=page_policy(style, scripts))


def _sizes(shown: Page) -> dict[str, int]:
    """The length of each panel; that of the timeline is what the others leave, for its data lies behind the panels."""
    environment = _html()
    sizes = {name: len(environment.get_template(name).render(page=shown)) for name in shown.templates if name != _TIMELINE_PANEL}
    return {**sizes, _TIMELINE_PANEL: len(_document(shown)) - sum(sizes.values())}


def render_clients(rows: Sequence[Row], path: Path, promises: Promises) -> None:
    """Write the table of clients and promises as a page of its own."""
    style = _style()
    policy = page_policy(style)
    profiles = [(name, list(some)) for name, some in itertools.groupby(rows, key=lambda row: row.profile)]
    count = sum(row.runs for row in rows)
    template = _html().get_template("client_table.html")
    write_text(
        path.parent, path.name, template.render(profiles=profiles, promises=promises, runs=count, style=style, policy=policy)
    )


def summary(shown: Page) -> str:
    """The report in a screenful of Markdown."""
    return _markdown().get_template("summary.md").render(page=shown)


@cache  # so that templates are compiled once
def _html() -> Environment:
    return _environment("html", autoescape=True, finalize=for_html)


@cache
def _markdown() -> Environment:
    return _environment("markdown", autoescape=False, finalize=for_markdown)


def _environment(name: str, **options: Any) -> Environment:
    """An environment for one kind of document."""
    filters = dict[str, Callable[..., Any]](number=number, plural=plural, fenced=fenced, coded=coded, explained=explained)
    functions: list[Callable[..., Any]] = [visible, for_html, *filters.values()]
    compiled = CompiledTemplates(name, {Path(_source(function)) for function in functions})
    templates = ChoiceLoader([PackageLoader("fencepost.harness.report"), PackageLoader("fencepost.harness.report", "panels")])
    made = Environment(
        loader=templates, bytecode_cache=compiled, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, **options
    )
    made.filters.update(filters)
    return made


def _source(function: Callable[..., Any]) -> str:
    """The file that a function is from."""
    return function.__code__.co_filename


def _style() -> Markup:
    """The page's style, as one sheet."""
    return Markup("\n").join(_asset(name) for name in _STYLES)


@cache
def timeline_script() -> Markup:
    """The timeline's modules and the library of its curves, with that one's licence."""
    return Markup("\n").join(_comment(name) if name.endswith("LICENSE") else _asset(name) for name in _TIMELINE)


def _comment(name: str) -> Markup:
    return Markup("/* {}:\n{} */").format(name.partition("/")[0], _asset(name).replace("*/", ""))


def _asset(name: str) -> Markup:
    return Markup((_ASSETS / name).read_text("utf-8"))
