"""A cycle as a drawing: operations on a circle, an arrow for each step. Pure numbers; the template turns them into SVG."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import cos, hypot, pi, sin
from typing import Any

MOST = 24
_NODE, _GAP, _MARGIN = 17.0, 92.0, 46.0


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
    """All of it, in a box of `width` by `height`."""

    width: float
    height: float
    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]
    label: str


def drawing(cycle: Mapping[str, Any] | None) -> Drawing | None:
    """A finding's `cycle` (docs/run-directory.md) laid out; None without one, or when it is too long or not well formed."""
    vertices = list((cycle or {}).get("vertices", ()))
    steps = [step for step in (cycle or {}).get("edges", ()) if step.get("from") in vertices and step.get("to") in vertices]
    if not cycle or not 2 <= len(vertices) <= MOST or not steps:
        return None
    radius = max(58.0, len(vertices) * _GAP / (2 * pi))
    middle_x, middle_y = radius * 1.15 + _MARGIN, (radius if len(vertices) > 2 else 8) + _MARGIN
    places = [_around(middle_x, middle_y, radius, at, len(vertices)) for at in range(len(vertices))]
    names = [f"T{number}" for number in range(1, len(vertices) + 1)]
    where = dict(zip(vertices, places, strict=True))
    name_of = dict(zip(vertices, names, strict=True))
    return Drawing(
        width=round(2 * middle_x, 1),
        height=round(2 * middle_y, 1),
        nodes=tuple(Node(x=x, y=y, name=name, operation=op) for (x, y), name, op in zip(places, names, vertices, strict=True)),
        arrows=tuple(_arrow(where[step["from"]], where[step["to"]], step) for step in steps),
        label=", ".join(f"{name_of[step['from']]} before {name_of[step['to']]} ({step.get('kind', '')})" for step in steps),
    )


def _around(x: float, y: float, radius: float, at: int, count: int) -> tuple[float, float]:
    """The `at`-th place of `count`, clockwise; two lie side by side."""
    angle = 2 * pi * at / count - (pi if count == 2 else pi / 2)
    return round(x + 1.15 * radius * cos(angle), 1), round(y + radius * sin(angle), 1)


def _arrow(start: tuple[float, float], stop: tuple[float, float], step: Mapping[str, Any]) -> Arrow:
    """A curve that bends to the left of its way, so that a step and its return do not lie on one another."""
    (x1, y1), (x2, y2) = start, stop
    length = hypot(x2 - x1, y2 - y1) or 1.0
    bend = min(34.0, length / 4)
    out_x, out_y = (y2 - y1) / length, -(x2 - x1) / length
    cx, cy = (x1 + x2) / 2 + out_x * bend, (y1 + y2) / 2 + out_y * bend
    sx, sy = _shortened((x1, y1), (cx, cy), _NODE)
    ex, ey = _shortened((x2, y2), (cx, cy), _NODE + 4)
    numbers = {"x1": sx, "y1": sy, "cx": cx, "cy": cy, "x2": ex, "y2": ey}
    numbers |= {"x": (x1 + x2) / 2 + out_x * bend * 1.05, "y": (y1 + y2) / 2 + out_y * bend * 1.05 + 4}
    return Arrow(**{name: round(value, 1) for name, value in numbers.items()}, kind=step.get("kind", ""), why=step.get("why", ""))


def _shortened(point: tuple[float, float], towards: tuple[float, float], by: float) -> tuple[float, float]:
    length = hypot(towards[0] - point[0], towards[1] - point[1]) or 1.0
    return point[0] + (towards[0] - point[0]) * by / length, point[1] + (towards[1] - point[1]) * by / length
