"""Brokers over time: the roles that each is known to have had, and the faults that struck it.

A role is known at the moment at which a fault looked for it (`leader`, `controller`, `coordinator`), and from one placement to
the next where brokers' logs name them. Where nothing says it, nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.harness.report.documents import Doc, ReportData
from fencepost.harness.visible_text import visible

_ROLES = ("leader", "controller", "coordinator")
_MOST_ROWS, _NAMES, _MOST_SEGMENTS = 50, 3, 400
_TRANSACTIONS = "__transaction_state-"


@dataclass(frozen=True, kw_only=True, order=True)
class Placement:
    """A broker that became leader of a partition, controller, or coordinator (ns). name: of what; empty where it is not known."""

    at: int
    role: str
    name: str
    node: str


def rows(run: ReportData, clients: Iterable[str], placements: Sequence[Placement] = ()) -> list[dict[str, Any]]:
    """A row for each broker, in the order of their names.

    clients: nodes of the run's own processes, which are no brokers.
    placements: what brokers' logs say; the receipts' own are added.
    """
    sought = {node: moments for node, moments in _sought(run).items() if moments}
    struck = _struck(run)
    nodes = {placement.node for placement in placements} | set(sought) | set(struck) | _probed(run)
    segments = held(placements, run.end_ns)
    return [
        {
            "node": visible(node),
            "faults": struck.get(node, []),
            "sought": [[(at - run.origin_ns) // 1000, visible(role)] for at, role in sought.get(node, [])],
            "held": [
                [(begin - run.origin_ns) // 1000, (end - run.origin_ns) // 1000, visible(short), visible(text)]
                for begin, end, short, text in segments.get(node, [])
            ],
        }
        for node in sorted(nodes - set(clients), key=_natural)[:_MOST_ROWS]
    ]


def known(made: Sequence[dict[str, Any]]) -> str:
    """Where the roles come from, as a sentence for the page."""
    if any(row["held"] for row in made):
        return "Roles of brokers are from their own logs; a flag is a role that a fault looked for, at that moment."
    if any(row["sought"] for row in made):
        return "Roles of brokers are known only at the moments at which a fault looked for them (flags), and not between these."
    return "No receipt and no log says which broker led, controlled or coordinated."


def _struck(run: ReportData) -> dict[str, list[int]]:
    """The faults that struck each node: its targets, or the ends of its pairs where it names no target."""
    struck: dict[str, list[int]] = {}
    for fault in run.faults or ():
        pairs = [node for pair in fault.get("pairs") or () for node in pair.split(">")]
        if fault.get("injected_ns"):
            for node in dict.fromkeys(fault.get("targets") or pairs):
                struck.setdefault(str(node), []).append(fault["id"])
    return struck


def _sought(run: ReportData) -> dict[str, list[tuple[int, str]]]:
    """The role for which a fault chose a node, and when."""
    sought: dict[str, list[tuple[int, str]]] = {}
    for fault in run.faults or ():
        role = str(fault.get("role") or "")
        if fault.get("injected_ns") and role.partition(":")[0] in _ROLES:
            for node in fault.get("targets") or ():
                sought.setdefault(str(node), []).append((fault["injected_ns"], role))
    return sought


def _probed(run: ReportData) -> set[str]:
    """The nodes between which the harness probed."""
    return {str(node) for fault in run.faults or () for node in _reach(fault).get("nodes") or ()}


def _reach(fault: Doc) -> Doc:
    reach = fault.get("reach")
    return reach if isinstance(reach, dict) else {}


def held(placements: Sequence[Placement], end_ns: int) -> dict[str, list[tuple[int, int, str, str]]]:
    """For each node the stretches in which its roles stayed the same: (from, to, in short, in full)."""
    holders: dict[tuple[str, str], str] = {}
    since: dict[str, int] = {}
    segments: dict[str, list[tuple[int, int, str, str]]] = {}
    for placement in sorted(placements):
        subject = (placement.role, placement.name)
        before = holders.get(subject)
        if before == placement.node:
            continue
        for node in filter(None, (before, placement.node)):
            _close(segments, node, since, placement.at, _of(holders, node))
            since[node] = placement.at
        holders[subject] = placement.node
    for node in since:
        _close(segments, node, since, end_ns, _of(holders, node))
    return segments


def _close(
    segments: dict[str, list[tuple[int, int, str, str]]], node: str, since: dict[str, int], at: int, names: list[tuple[str, str]]
) -> None:
    begin = since.get(node)
    mine = segments.setdefault(node, [])
    if begin is not None and at > begin and names and len(mine) < _MOST_SEGMENTS:
        mine.append((begin, at, *_words(names)))


def _of(holders: dict[tuple[str, str], str], node: str) -> list[tuple[str, str]]:
    return sorted(subject for subject, holder in holders.items() if holder == node)


def _words(subjects: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """`controller, leads t-0 t-2, coordinates 17`: in short, and in full."""
    parts, full = [], []
    for role, verb in (("controller", "controller"), ("leader", "leads"), ("coordinator", "coordinates")):
        names = [name.removeprefix(_TRANSACTIONS) for each, name in subjects if each == role]
        if names:
            listed = " ".join(sorted(filter(None, names), key=_natural))
            parts.append(verb if role == "controller" else f"{verb} {listed if len(names) <= _NAMES else len(names)}")
            full.append(f"{verb} {listed}".strip() + (" of __transaction_state" if role == "coordinator" else ""))
    return ", ".join(parts), "; ".join(full)


def _natural(name: str) -> tuple[Any, ...]:
    """`n2` before `n10`."""
    head = name.rstrip("0123456789")
    return head, int(name[len(head) :][:18] or 0)
