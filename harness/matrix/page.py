"""The page of the matrix: its heat map, and each cell with its runs. One file that needs no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import fencepost.harness.report
from fencepost.harness.matrix.cells import ACTS, GAPS, POINTS
from fencepost.harness.matrix.crossing import possible_pairs
from fencepost.harness.matrix.crossings import CROSSING_STATES, Crossings, uncovered_lines
from fencepost.harness.matrix.factors import VALUES
from fencepost.harness.matrix.picture import identifier, svg
from fencepost.harness.matrix.results import STATES, UNEXERCISED, VIOLATED, CellResult
from fencepost.harness.page_text import for_html
from fencepost.harness.report.policy import page_policy

_STYLES = (Path(fencepost.harness.report.__file__).parent / "assets" / "report.css", Path(__file__).with_name("matrix.css"))


def page(results: Sequence[CellResult], crossed: Crossings, reports: Mapping[str, str]) -> str:
    """The page as HTML. reports: by run, the address of its report."""
    style = "\n".join(path.read_text() for path in _STYLES)
    made = Environment(
        loader=PackageLoader("fencepost.harness.matrix", "."), autoescape=True, undefined=StrictUndefined, finalize=for_html
    )
    counts = [(state, sum(result.state == state for result in results), meaning) for state, meaning in STATES.items()]
    return made.get_template("matrix.html").render(
        style=Markup(style),
        policy=page_policy(style),
        picture=Markup(svg(results, links=True)),
        counts=counts,
        cells=[(identifier(result), result) for result in results if result.strikes],
        gaps=GAPS,
        points=POINTS,
        acts=ACTS,
        reports=reports,
        crossing_states=[*CROSSING_STATES],
        factors=[
            (*place, [counts[state] for state in CROSSING_STATES], VALUES[place[0]][place[1]])
            for place, counts in crossed.counts().items()
        ],
        told=[result for result in crossed.results if result.state in (VIOLATED, UNEXERCISED)],
        covered=len(crossed.covered),
        possible=len(possible_pairs()),
        uncovered=uncovered_lines(crossed),
    )
