"""A cycle as a drawing: operations and arrows for its steps, laid out from a finding. Pure numbers; the template makes the SVG.

Up to six operations stand on a circle, more of them in two columns, so that a drawing is as wide on a telephone as on a wall:
the steps go down on the right and up on the left. Arrows bend outwards, and several between the same two operations apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import cos, hypot, pi, sin
from typing import Any

MOST = 24
ON_A_CIRCLE = 6
_NODE, _LABEL, _MARGIN = 17.0, 30.0, 12.0
_RADIUS, _GAP, _ROW, _COLUMNS = 58.0, 92.0, 84.0, 190.0
_BEND, _APART, _LONG = 34.0, 26.0, 30.0  # of an arrow; between several; more for each operation that it passes
Point = tuple[float, float]


@dataclass(frozen=True)
class Step:
    """An edge of the cycle: from one operation to another, and why it must come before that."""

    source: int
    target: int
    kind: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Node:
    """An operation: its short name in the sentence, and its history index."""

    x: float
    y: float
    name: str
    operation: int


@dataclass(frozen=True, kw_only=True)
class Arrow:
    """A step, from `x1, y1` to `x2, y2`, bent through `cx, cy`; `x, y` is where its kind is written."""

    x1: float
    y1: float
    cx: float
    cy: float
    x2: float
    y2: float
    x: float
    y: float
    kind: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """All of it, in a box of `width` by `height`. label: the cycle in words, for those who do not see it."""

    width: float
    height: float
    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]
    label: str


def drawing(cycle: Mapping[str, Any] | None) -> Drawing | None:
    """A finding's `cycle` (docs/run-directory.md) laid out; None without one, or when it is too long or not well formed."""
    document = cycle or {}
    vertices = document.get("vertices", ())
    if not 2 <= len(vertices) <= MOST:
        return None
    names = {vertex: f"T{number}" for number, vertex in enumerate(vertices, 1)}
    steps = _steps(document, list(names))
    order = around(names, steps)
    places = dict(zip(order, _on_a_circle(len(order)) if len(order) <= ON_A_CIRCLE else _in_columns(len(order)), strict=True))
    arrows = _arrows(steps, places)
    return _boxed(names, steps, places, arrows) if arrows else None


def _steps(document: Mapping[str, Any], vertices: Sequence[int]) -> list[Step]:
    """The steps between operations, those from one operation together. Steps from or to what is none are left out."""
    edges = [edge for edge in document.get("edges", ()) if edge.get("from") in vertices and edge.get("to") in vertices]
    steps = [Step(edge["from"], edge["to"], edge.get("kind", ""), edge.get("why", "")) for edge in edges]
    return sorted(steps, key=lambda step: vertices.index(step.source))


def around(operations: Iterable[int], steps: Sequence[Step]) -> list[int]:
    """The operations in the order of the steps: from each to the first that follows it and does not stand yet."""
    order: list[int] = []
    left = dict.fromkeys(operations)
    while left:
        at: int | None = next(iter(left))
        while at is not None:
            order.append(at)
            del left[at]
            at = next((step.target for step in steps if step.source == at and step.target in left), None)
    return order


# --------------------------------------------------------------------------------------------------
# Places
# --------------------------------------------------------------------------------------------------
def _on_a_circle(count: int) -> list[Point]:
    """Clockwise from the top; two lie side by side."""
    radius = max(_RADIUS, count * _GAP / (2 * pi))
    start = pi if count == 2 else pi / 2
    angles = [2 * pi * at / count - start for at in range(count)]
    return [(1.15 * radius * cos(angle), radius * sin(angle)) for angle in angles]


def _in_columns(count: int) -> list[Point]:
    """The first at the top left, the next ones down the right column, the others up the left one."""
    rows = (count + 1) // 2
    height, left = (rows - 1) * _ROW, count - rows
    right = [(_COLUMNS, row * _ROW) for row in range(rows)]
    upwards = [(0.0, height * (1 - row / (left - 1))) for row in range(left)]
    return [upwards[-1], *right, *upwards[:-1]]


# --------------------------------------------------------------------------------------------------
# Arrows
# --------------------------------------------------------------------------------------------------
def _arrows(steps: Sequence[Step], places: Mapping[int, Point]) -> list[Arrow]:
    drawn: Counter[tuple[int, int]] = Counter()
    arrows = []
    for step in steps:
        source, target = step.source, step.target
        if source != target:
            bend = _bend(places[source], places[target], places.values()) + _APART * drawn[source, target]
            arrows.append(_arrow(places[source], places[target], bend, step))
            drawn[source, target] += 1
    return arrows


def _bend(start: Point, stop: Point, places: Any) -> float:
    """How far an arrow bends: past the operations that lie straight between its ends, as in a column."""
    between = sum(_is_between(place, start, stop) for place in places)
    return min(_BEND, hypot(stop[0] - start[0], stop[1] - start[1]) / 4) + _LONG * between


def _is_between(place: Point, start: Point, stop: Point) -> bool:
    whole = hypot(stop[0] - start[0], stop[1] - start[1])
    parts = [hypot(place[0] - end[0], place[1] - end[1]) for end in (start, stop)]
    return min(parts) > 0 and sum(parts) - whole < 1e-6


def _arrow(start: Point, stop: Point, bend: float, step: Step) -> Arrow:
    """A curve that bends to the left of its way, so that a step and its return do not lie on one another."""
    (x1, y1), (x2, y2) = start, stop
    length = hypot(x2 - x1, y2 - y1) or 1.0
    out_x, out_y = (y2 - y1) / length, -(x2 - x1) / length
    middle_x, middle_y = (x1 + x2) / 2, (y1 + y2) / 2
    cx, cy = middle_x + out_x * 2 * bend, middle_y + out_y * 2 * bend  # a curve goes half as far as its control point
    sx, sy = _shortened(start, (cx, cy), _NODE)
    ex, ey = _shortened(stop, (cx, cy), _NODE + 4)
    x, y = middle_x + out_x * bend, middle_y + out_y * bend + 4
    return Arrow(x1=sx, y1=sy, cx=cx, cy=cy, x2=ex, y2=ey, x=x, y=y, kind=step.kind, why=step.why)


def _shortened(point: Point, towards: Point, by: float) -> Point:
    length = hypot(towards[0] - point[0], towards[1] - point[1]) or 1.0
    return point[0] + (towards[0] - point[0]) * by / length, point[1] + (towards[1] - point[1]) * by / length


# --------------------------------------------------------------------------------------------------
# The box
# --------------------------------------------------------------------------------------------------
def _boxed(names: Mapping[int, str], steps: Sequence[Step], places: Mapping[int, Point], arrows: Sequence[Arrow]) -> Drawing:
    """Everything moved into a box with nothing at its edges."""
    corners = [(x + dx, y + dy) for x, y in places.values() for dx, dy in ((-_NODE, -_NODE), (_NODE, _NODE + _LABEL))]
    corners += [(arrow.x + dx, arrow.y + dy) for arrow in arrows for dx, dy in ((-_LABEL, -_NODE), (_LABEL, _MARGIN))]
    left, top = (min(axis) - _MARGIN for axis in zip(*corners, strict=True))
    right, bottom = (max(axis) + _MARGIN for axis in zip(*corners, strict=True))
    return Drawing(
        width=round(right - left, 1),
        height=round(bottom - top, 1),
        nodes=tuple(
            Node(x=round(places[op][0] - left, 1), y=round(places[op][1] - top, 1), name=name, operation=op)
            for op, name in names.items()
        ),
        arrows=tuple(_moved(arrow, left, top) for arrow in arrows),
        label=", ".join(f"{names[step.source]} before {names[step.target]} ({step.kind})" for step in steps),
    )


def _moved(arrow: Arrow, left: float, top: float) -> Arrow:
    numbers = chain.from_iterable(((f"x{end}", left), (f"y{end}", top)) for end in ("1", "2", ""))
    moved = {name: getattr(arrow, name) - by for name, by in (*numbers, ("cx", left), ("cy", top))}
    return Arrow(**{name: round(value, 1) for name, value in moved.items()}, kind=arrow.kind, why=arrow.why)
