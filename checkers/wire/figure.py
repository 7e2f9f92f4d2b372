"""The machine of a transactional id as a drawing. Phases in which no transaction is open share a frame.

python -m fencepost.checkers.wire.figure > docs/wire-machine.svg
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import networkx as nx

from fencepost.checkers.wire.states import IDLE, Phase
from fencepost.checkers.wire.transitions import TRANSITIONS

FRAME = "no transaction is open"
WIDTH, HEIGHT = 1160, 600
BOX = (140, 34)
LINE = 14  # height of a line of a label
PLACES = {
    Phase.DEAD: (90, 300),
    Phase.COMPLETE_COMMIT: (370, 190),
    Phase.EMPTY: (370, 300),
    Phase.COMPLETE_ABORT: (370, 410),
    Phase.ONGOING: (700, 300),
    Phase.PREPARE_COMMIT: (1060, 110),
    Phase.FENCING: (1060, 300),
    Phase.PREPARE_ABORT: (1060, 490),
}
SURROUNDING = (280, 132, 460, 446)
Point = tuple[int, int]
ROUTES: dict[tuple[str, str], tuple[Point, Point, Point]] = {  # from, the point to which the curve bends, to
    (Phase.DEAD, Phase.EMPTY): ((160, 306), (230, 312), (300, 306)),
    (FRAME, Phase.DEAD): ((280, 260), (220, 240), (150, 283)),
    (Phase.COMPLETE_COMMIT, Phase.EMPTY): ((370, 207), (370, 240), (370, 283)),
    (Phase.COMPLETE_ABORT, Phase.EMPTY): ((370, 393), (370, 360), (370, 317)),
    (FRAME, Phase.ONGOING): ((460, 300), (540, 300), (630, 300)),
    (FRAME, Phase.PREPARE_ABORT): ((460, 420), (640, 500), (990, 496)),
    (Phase.ONGOING, Phase.PREPARE_COMMIT): ((740, 283), (840, 200), (990, 118)),
    (Phase.ONGOING, Phase.PREPARE_ABORT): ((740, 317), (840, 400), (990, 482)),
    (Phase.ONGOING, Phase.FENCING): ((770, 300), (880, 300), (990, 300)),
    (Phase.FENCING, Phase.PREPARE_ABORT): ((1060, 317), (1060, 400), (1060, 473)),
    (Phase.PREPARE_COMMIT, Phase.COMPLETE_COMMIT): ((1000, 93), (640, -30), (390, 173)),
    (Phase.PREPARE_ABORT, Phase.COMPLETE_ABORT): ((1000, 507), (640, 630), (390, 427)),
}
STYLE = (
    "text{font:12px sans-serif;fill:#222;text-anchor:middle}.phase{font-weight:bold}.label{paint-order:stroke;stroke:#fff;"
    "stroke-width:5px}rect{fill:#eef3f8;stroke:#345}path{fill:none;stroke:#345}.alone{stroke-dasharray:5 4}"
    ".frame{fill:#fff;stroke:#9ab}"
)


def machine_graph() -> nx.DiGraph:
    """The phases, and what leads from one to another: names of transitions, and whether all are the coordinator's own."""
    graph = nx.DiGraph()
    graph.add_nodes_from([*PLACES, FRAME])
    for transition in TRANSITIONS:
        for start in _starts(transition.phases, transition.to):
            edge = graph.get_edge_data(start, transition.to) or {"names": [], "alone": True}
            names = [*edge["names"], transition.name]
            graph.add_edge(start, transition.to, names=names, alone=edge["alone"] and not transition.apis)
    return graph


def _starts(phases: tuple[Phase, ...], to: Phase | None) -> Iterator[str]:
    """The nodes from which a transition leads to another one."""
    if to is None:
        return
    together = set(IDLE) <= set(phases) and to not in IDLE
    if together:
        yield FRAME
    yield from (phase for phase in phases if phase is not to and not (together and phase in IDLE))


def drawing() -> str:
    """The graph as SVG."""
    graph = machine_graph()
    title = "The states of a transactional id at its coordinator"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">'
    arrow = '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    defs = f'<defs>{arrow}<path d="M0 0L8 4L0 8Z" style="fill:#345"/></marker></defs>'
    background = f'<path d="M0 0H{WIDTH}V{HEIGHT}H0Z" style="fill:#fff;stroke:none"/>'
    edges = sorted(graph.edges(data=True), key=lambda edge: (str(edge[0]), str(edge[1])))
    body = [
        _frame(),
        *(_path(*edge) for edge in edges),
        *map(_box, PLACES),
        *(label for edge in edges for label in _labels(*edge)),
    ]
    return "\n".join([head, f"<style>{STYLE}</style>", defs, background, *body, "</svg>"]) + "\n"


def _frame() -> str:
    x1, y1, x2, y2 = SURROUNDING
    rect = f'<rect class="frame" x="{x1}" y="{y1}" width="{x2 - x1}" height="{y2 - y1}" rx="8"/>'
    return f'{rect}<text x="{(x1 + x2) // 2}" y="{y1 + 20}">{FRAME}</text>'


def _box(phase: Phase) -> str:
    (x, y), (width, height) = PLACES[phase], BOX
    rect = f'<rect x="{x - width // 2}" y="{y - height // 2}" width="{width}" height="{height}" rx="6"/>'
    return f'{rect}<text class="phase" x="{x}" y="{y + 4}">{phase.value}</text>'


def _path(start: str, to: str, data: Any) -> str:
    (x1, y1), (x, y), (x2, y2) = ROUTES[start, to]
    alone = ' class="alone"' if data["alone"] else ""
    return f'<path{alone} marker-end="url(#arrow)" d="M{x1} {y1}Q{x} {y} {x2} {y2}"/>'


def _labels(start: str, to: str, data: Any) -> Iterator[str]:
    """The names beside the middle of a curve."""
    (x1, y1), (x2, y2), (x3, y3) = ROUTES[start, to]
    x, y = (x1 + 2 * x2 + x3) // 4, (y1 + 2 * y2 + y3) // 4 - LINE * (len(data["names"]) - 1) // 2
    for number, name in enumerate(data["names"]):
        yield f'<text class="label" x="{x}" y="{y + 4 + LINE * number}">{escape(name)}</text>'


if __name__ == "__main__":
    print(drawing(), end="")  # noqa: T201
