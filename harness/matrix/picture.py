"""The heat map of the matrix as SVG: a row for each point of each gap, a column for each act."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape, quoteattr

from fencepost.harness.matrix.cells import ACTS, GAPS, POINTS
from fencepost.harness.matrix.results import ABSENT, HELD, IMPOSSIBLE, STATES, UNEXERCISED, VIOLATED, CellResult

WIDTH, HEIGHT = 84, 24  # of a cell
LEFT, TOP = 240, 64
GAP = 8  # between two gaps
COLOURS: Mapping[str, str] = {
    VIOLATED: "#b3261e",
    HELD: "#1b7f4b",
    UNEXERCISED: "#d9a400",
    ABSENT: "#c9ced6",
    IMPOSSIBLE: "#eef0f3",
}
DARK = (VIOLATED, HELD)  # with white text
MARKS: Mapping[str, str] = {VIOLATED: "violated", HELD: "held", UNEXERCISED: "not struck", ABSENT: "", IMPOSSIBLE: "-"}


def svg(results: Sequence[CellResult], links: bool = False) -> str:
    """The picture. links: each cell leads to `#cell-GAP-POINT-ACT` of the page that it stands in."""
    acts, points = list(ACTS), list(POINTS)
    height = TOP + len(GAPS) * (len(points) * HEIGHT + GAP) + 44
    width = LEFT + len(acts) * WIDTH + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        'font-family="system-ui, sans-serif" font-size="12">',
        "<title>The matrix of steps</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *(_text(LEFT + at * WIDTH + WIDTH / 2, TOP - 12, act, "middle", bold=True) for at, act in enumerate(acts)),
        _text(12, TOP - 12, "gap", "start", bold=True),
        _text(LEFT - 10, TOP - 12, "point", "end", bold=True),
    ]
    by_cell = {(result.cell.gap, result.cell.point, result.cell.act): result for result in results}
    for row, gap in enumerate(GAPS):
        top = TOP + row * (len(points) * HEIGHT + GAP)
        parts.append(_text(12, top + 16, gap.name, "start", bold=True))
        parts.append(_text(12, top + 32, gap.api, "start"))
        for line, point in enumerate(points):
            y = top + line * HEIGHT
            parts.append(_text(LEFT - 10, y + 16, point, "end"))
            parts += [_cell(by_cell[gap.name, point, act], LEFT + at * WIDTH, y, links) for at, act in enumerate(acts)]
    return "\n".join([*parts, *_legend(results, height - 22), "</svg>"]) + "\n"


def identifier(result: CellResult) -> str:
    """The id of a cell's line in the page."""
    return f"cell-{str(result.cell).replace('/', '-')}"


def _cell(result: CellResult, x: float, y: float, links: bool) -> str:
    state, count = result.state, len(result.struck)
    mark = f"{MARKS[state]} {count}" if state in DARK else MARKS[state]
    colour = "#ffffff" if state in DARK else "#3c4350"
    drawn = (
        f"<g><title>{escape(f'{result.cell}: {result.words}')}</title>"
        f'<rect x="{x + 1}" y="{y + 1}" width="{WIDTH - 2}" height="{HEIGHT - 2}" rx="3" fill="{COLOURS[state]}"/>'
        f"{_text(x + WIDTH / 2, y + 16, mark, 'middle', colour)}</g>"
    )
    linked = links and result.strikes
    return f"<a href={quoteattr('#' + identifier(result))}>{drawn}</a>" if linked else drawn


def _legend(results: Sequence[CellResult], y: float) -> list[str]:
    parts, x = [], 12.0
    for state in STATES:
        label = f"{state}: {sum(result.state == state for result in results)}"
        parts.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" rx="2" fill="{COLOURS[state]}"/>')
        parts.append(_text(x + 18, y, label, "start"))
        x += 34 + 7 * len(label)
    return parts


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#1d2129", *, bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{colour}"{weight}>{escape(text)}</text>'
