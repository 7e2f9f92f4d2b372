"""The pages of the site: models by pure functions, text by templates. Each page is one file that needs no other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

import fencepost.harness.report
from fencepost.harness.api.words import plural
from fencepost.harness.memory.trends import Trend
from fencepost.harness.page_text import NOTHING, for_html
from fencepost.harness.report.policy import page_policy
from fencepost.harness.site import addresses
from fencepost.harness.site.addresses import address, filtered, page_of_test
from fencepost.harness.site.entries import Entry, gravest_first
from fencepost.harness.site.findings import MOST_RUNS, FindingGroup, finding_groups
from fencepost.harness.site.grid import CampaignGrid, Cell, Round, grids, latest_rounds
from fencepost.harness.site.histories import HEIGHT, LEFT, TOP, WIDTH, history_of, shown_number
from fencepost.harness.site.round_memory import RoundMemory
from fencepost.harness.site.run_table import finding_lists, run_rows
from fencepost.harness.site.settings import Settings, profiles

MOST_RED = 6  # tests of a round that the first page names
MOST_CALM = 8  # rounds without a red run that it names
MOST_CHANGES = 6  # of measures that it names
MOST_TESTS = 6  # of a group of findings
_ASSETS = Path(__file__).parent / "assets"
_OF_REPORT = Path(fencepost.harness.report.__file__).parent / "assets"
_STYLES = (_OF_REPORT / "report.css", _ASSETS / "site.css")
_CONNECT = "connect-src 'self'; "  # of a page that is served, and asks what has changed
_FIRST = _OF_REPORT / "errors.js"
_PAGES = {  # the scripts of each page, behind the first
    addresses.INDEX: ("rows.js", "filter.js", "runs.js"),
    addresses.COMPARE: ("rows.js", "compare.js"),
}


@dataclass(frozen=True, kw_only=True)
class Site:
    """What the pages are made of.

    entries: the runs, the oldest first. written: a line on where they come from, and when.
    memory: of earlier rounds. trends: of the measures of tests that have changed in the newest rounds.
    notes: sentences on what could not be read. live: a version of what is served; empty for files.
    """

    entries: Sequence[Entry]
    written: str = ""
    memory: RoundMemory = field(default_factory=RoundMemory)
    trends: Sequence[Trend] = ()
    notes: Sequence[str] = ()
    live: str = ""


# --------------------------------------------------------------------------------------------------
# The pages
# --------------------------------------------------------------------------------------------------
def index_page(site: Site) -> str:
    """The first page: the newest rounds, and the table of all runs."""
    entries = site.entries
    latest = latest_rounds(entries)
    shown = [*(of for of in latest if of.red), *[of for of in latest if not of.red][:MOST_CALM]]
    return _page(
        site,
        addresses.INDEX,
        "Runs",
        heading=_heading(entries),
        notes=site.notes,
        rounds=[_round_fields(of) for of in shown],
        calm=len(latest) - len(shown),
        changes=[{"words": str(trend), "page": page_of_test(trend.campaign, trend.test)} for trend in site.trends[:MOST_CHANGES]],
        more_changes=len(site.trends[MOST_CHANGES:]),
        performing=[entry for entry in entries if entry.phase],
        most_red=MOST_RED,
        runs=run_rows(gravest_first(entries)),
    )


def _heading(entries: Sequence[Entry]) -> str:
    red = sum(entry.red for entry in entries)
    words = f"{red:,} to look at" if red else "all as expected"
    return f"{plural(len(entries), 'run')}, {words}" if entries else "No runs yet"


def grid_page(site: Site) -> str:
    """The grid of tests and rounds."""
    return _page(site, addresses.GRID, "Tests by rounds", grids=[_grid_fields(grid) for grid in grids(site.entries)])


def findings_page(site: Site) -> str:
    """The findings of all runs by fingerprint."""
    groups = finding_groups(site.entries, site.memory)
    sections = (
        ("Not expected", [_group_fields(group) for group in groups if not group.expected]),
        ("As tests expect", [_group_fields(group) for group in groups if group.expected]),
    )
    return _page(
        site,
        addresses.FINDINGS,
        "Findings",
        sections=sections,
        any=groups,
        standings=bool(site.memory.histories),
        most=MOST_TESTS,
    )


def compare_page(site: Site, settings: Mapping[str, Settings | None]) -> str:
    """The comparison of any two runs. settings: by the place of the run."""
    newest = sorted(site.entries, key=lambda entry: entry.row.created, reverse=True)
    return _page(
        site,
        addresses.COMPARE,
        "Compare",
        runs=run_rows(newest),
        findings=finding_lists(newest),
        settings=profiles(settings.get(entry.row.place) for entry in newest),
    )


def tests_of(site: Site) -> dict[str, tuple[str, str]]:
    """The address of each test's page, with campaign and test."""
    return {page_of_test(*test): test for test in sorted({entry.test for entry in site.entries})}


def by_test(site: Site) -> dict[tuple[str, str], list[Entry]]:
    """The runs of each test."""
    runs = defaultdict(list)
    for entry in site.entries:
        runs[entry.test].append(entry)
    return dict(runs)


def history_page(site: Site, test: tuple[str, str], entries: Sequence[Entry]) -> str:
    """The page of a test, from its runs."""
    history = history_of(*test, entries, [trend for trend in site.trends if (trend.campaign, trend.test) == test])
    campaign, name = test
    chart = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "top": TOP}
    return _page(
        site,
        page_of_test(*test),
        name or "(no name)",
        "test.html",
        history=history,
        groups=finding_groups(entries, site.memory),
        address=f"../{filtered(campaign=campaign, test=name)}",
        **chart,
    )


def listing_page(written: str, place: str, held: Sequence[tuple[str, bool]], more: int) -> str:
    """The content of a folder of a run: names, each with whether it is a folder."""
    lines = [
        {"name": f"{name}/" if folder else name, "address": f"./{address(name)}{'/' if folder else ''}"} for name, folder in held
    ]
    site = Site(entries=(), written=written)
    name = f"{addresses.RUNS}/{place}/"
    return _page(site, name, place, template="listing.html", place=place, lines=lines, more=more)


# --------------------------------------------------------------------------------------------------
# Fields
# --------------------------------------------------------------------------------------------------
def _round_fields(of: Round) -> dict[str, Any]:
    terms = {"campaign": of.campaign, "round": of.round}
    red = f"{filtered(**terms)}%20is%3Ared"
    return {**vars(of), "tests": _red_tests(of), "address": filtered(**terms), "red_address": red}


def _red_tests(of: Round) -> list[dict[str, Any]]:
    """The tests of a round with a red run, each by its gravest run, and how many more there are of it."""
    by_test: dict[tuple[str, str], list[Entry]] = {}
    for entry in of.red:
        by_test.setdefault(entry.test, []).append(entry)
    terms = {"campaign": of.campaign, "round": of.round}
    return [
        {"entry": entries[0], "more": len(entries) - 1, "address": filtered(**terms, test=entries[0].row.test)}
        for entries in by_test.values()
    ]


def _grid_fields(grid: CampaignGrid) -> dict[str, Any]:
    lines = [
        {
            "test": line.test,
            "page": page_of_test(line.campaign, line.test),
            "cells": [_cell_fields(line.campaign, line.test, cell) if cell else None for cell in line.cells],
        }
        for line in grid.lines
    ]
    return {**vars(grid), "lines": lines, "address": filtered(campaign=grid.campaign)}


def _cell_fields(campaign: str, test: str, cell: Cell) -> dict[str, Any]:
    return {**vars(cell), "address": filtered(campaign=campaign, test=test, round=cell.round)}


def _group_fields(group: FindingGroup) -> dict[str, Any]:
    runs = [{"run": entry.row.run, "report": _finding_address(entry, group.fingerprint)} for entry in group.entries[:MOST_RUNS]]
    tests = [{"name": " · ".join(filter(None, test)) or "(no name)", "page": page_of_test(*test)} for test in group.tests]
    return {**vars(group), "runs": runs, "tests": tests, "address": filtered(fingerprint=group.fingerprint)}


def _finding_address(entry: Entry, fingerprint: str) -> str:
    if not entry.report:
        return ""
    number = next(of.id for of in entry.row.findings if of.fingerprint == fingerprint)
    return f"{address(entry.report)}#finding-{number}"


def _compared(entry: Entry) -> str:
    """The address of the comparison of a run, in which the other one is to be chosen."""
    return f"{addresses.COMPARE}#{urlencode({'a': for_html(entry.row.place)})}"


# --------------------------------------------------------------------------------------------------
# Text
# --------------------------------------------------------------------------------------------------
def _page(site: Site, name: str, title: str, template: str = "", **fields: Any) -> str:
    scripts = _scripts(name, bool(site.live))
    style = _style()
    made = _environment().get_template(template or name)
    return made.render(
        name=name,
        title=title,
        up="../" * name.count("/"),
        written=site.written,
        version=version("fencepost"),
        style=style,
        scripts=scripts,
        policy=page_policy(style, scripts, _CONNECT if site.live else ""),
        live=site.live,
        **fields,
    )


@cache
def _scripts(name: str, live: bool) -> tuple[Markup, ...]:
    own = _PAGES.get(name, ())
    names = [*own, "ready.js", *(["live.js"] if live else [])]
    if live and not own:
        names.insert(0, "rows.js")
    return (_asset(_FIRST), *(_asset(_ASSETS / file) for file in names))


@cache
def _style() -> Markup:
    return Markup("\n").join(_asset(path) for path in _STYLES)


@cache
def _asset(path: Path) -> Markup:
    return Markup(path.read_text("utf-8"))


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("fencepost.harness.site"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        autoescape=True,
        finalize=for_html,
    )
    made.filters.update(plural=plural, address=address, compared=_compared, history=_history, measured=_measured, data=_data)
    return made


def _history(entry: Entry) -> str:
    return page_of_test(*entry.test)


def _measured(value: float | None, unit: str = "") -> str:
    return NOTHING if value is None else f"{shown_number(value)}{unit}"


def _data(value: Any) -> Markup:
    """JSON inside a script element, which nothing in it can close."""
    return htmlsafe_json_dumps(value, separators=(",", ":"))
