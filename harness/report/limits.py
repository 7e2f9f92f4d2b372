"""The size of a report: 2 MB as a rule, and never above `MOST_BYTES`, whatever lies in the run's directory.

What would make a page larger is left out, in this order, until it fits: permitted findings and whole receipts; then one panel
after the other, the largest first; at last all but the first sentences of the top. The page says what it leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from fencepost.harness.report.model import Page
from fencepost.harness.report.panels.verdict import Headline, Lacks

MOST_BYTES = 10_000_000
_TOP = "verdict.html"
_LAST = 20  # sentences of each list at the top, when nothing else is left


def fitted(whole: Page, render: Callable[[Page], str], sizes: Callable[[Page], Mapping[str, int]]) -> str:
    """The document of a page that is not too large.

    render: a page as a document. sizes: its templates with the length of what each becomes.
    """
    text = render(whole)
    for smaller in _smaller(whole, sizes):
        if len(text.encode("utf-8", errors="replace")) <= MOST_BYTES:
            break
        text = render(smaller)
    return text


def _smaller(whole: Page, sizes: Callable[[Page], Mapping[str, int]]) -> Iterator[Page]:
    """Pages that leave out more and more."""
    page = _trimmed(whole)
    yield page
    by_size = sorted(sizes(page).items(), key=lambda panel: -panel[1])
    for template, _ in by_size:
        if template != _TOP:
            page = _without(page, template)
            yield page
    yield _changed(page, headline=_first(page.headline), lacks=_few(page.lacks))


def _trimmed(page: Page) -> Page:
    """The page without what decides nothing and is folded."""
    faults = tuple(replace(fault, full="left out", reach=None) for fault in page.faults)
    return _changed(page, permitted=(), faults=faults, left_out=("permitted findings", "the receipts of faults in full"))


def _without(page: Page, template: str) -> Page:
    panel = template.removesuffix(".html")
    names = {place: name for place, name in page.nav if name}
    return _changed(
        page,
        templates=tuple(other for other in page.templates if other != template),
        nav=tuple((place, name) for place, name in page.nav if place != panel),
        left_out=(*page.left_out, names.get(panel, panel).lower()),
        **({"timeline": None} if panel == "timeline" else {}),
    )


def _first(headline: Headline) -> Headline:
    return replace(headline, first=headline.first[:_LAST])


def _few(lacks: Lacks) -> Lacks:
    return replace(lacks, sentences=lacks.sentences[:_LAST])


def _changed(page: Page, **fields: object) -> Page:
    return Page(**{**vars(page), **fields})
