"""A cycle in words and as data: who comes before whom, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fencepost.checkers.graph.group_offsets import PLACE, partition_of
from fencepost.checkers.graph.layers import DIRTY_WR, LSO, PROCESS, REALTIME, RW, WR, WW
from fencepost.checkers.graph.span_rows import Edge
from fencepost.checkers.history.lookup import records_of
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.values import NONE
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText, apart

KINDS = {WW: "ww", WR: "wr", DIRTY_WR: "wr", LSO: "lso", RW: "rw", PROCESS: "process", REALTIME: "realtime"}
Records = Mapping[tuple[int, str, int, str], int]  # (operation, partition, offset, role) -> v
Places = Mapping[tuple[str, int], str]  # (partition, offset) -> the place as it stands in a sentence


def sentence(cycle: Sequence[Edge], partitions: Sequence[str], finding: Finding, text: FindingText) -> str:
    """`T1 before T2, because T1 wrote t-0@5 right before T2's t-0@6; T2 before T1, because ...`, and who T1 and T2 are."""
    names, place_names = labels(cycle), _places(finding)
    steps = [
        f"{names[e.source]} before {names[e.target]}, because {because(e, names, partitions, place_names, text)}" for e in cycle
    ]
    questions = {e.target for e in cycle if _of_group(e, partitions) and e.kind == WR and not text.transactional(e.target)}
    who = [f"{name} is {text.question(op) if op in questions else text.name(op, capital=False)}" for op, name in names.items()]
    return f"{'; '.join(steps)}. ({', '.join(who)}.)"


def labels(cycle: Sequence[Edge]) -> dict[int, str]:
    """T1, T2, ... in the order of the cycle."""
    return {edge.source: f"T{number}" for number, edge in enumerate(cycle, 1)}


def _places(finding: Finding) -> Places:
    return {(row.partition, row.offset): row.place for row in sorted(finding.rows, key=lambda row: bool(row.value))}


def because(edge: Edge, names: dict[int, str], partitions: Sequence[str], place_names: Places, text: FindingText) -> str:
    """The reason why an edge's source comes before its target, in words."""
    source, target = names[edge.source], names[edge.target]
    view = text.run.overview
    if edge.kind == PROCESS:
        return f"process {view.process[view.at(edge.source)]} ended {source} before it began {target}"
    if edge.kind == REALTIME:
        between = int(view.time[view.at(edge.target)]) - int(view.end[view.at(edge.source)])
        return f"{source} had ended {apart(between)} {target} began"
    low, high = (place_names[partition_of(partitions[edge.place]), offset] for offset in (edge.low, edge.high))
    if _of_group(edge, partitions):
        return _because_of_offset(edge, (source, target), (low, high), text)
    if edge.kind == WW:
        return f"{source} wrote {low} right before {target}'s {high}"
    if edge.kind == LSO:
        return f"{target} read {high} past {source}'s {low}, which it may only after {source} was decided"
    if edge.kind == RW:
        return f"{source} read up to {low} and not the next record, {target}'s {high}"
    return f"{target} read {source}'s {low}"


def _of_group(edge: Edge, partitions: Sequence[str]) -> bool:
    """True if an edge is one through a group's committed offset."""
    return edge.place != NONE and partitions[edge.place].startswith(PLACE)


def _because_of_offset(edge: Edge, names: tuple[str, str], places: tuple[str, str], text: FindingText) -> str:
    (source, target), (low, high) = names, places
    if edge.kind == WW:
        return f"{target} processed the records from {source}'s offset of the group on, {low}, and committed {high}"
    if edge.kind == RW:
        return f"{source} fetched the group's offset {low} and not the next one, {target}'s {high}"
    if text.transactional(edge.target):
        return f"{target} processed the records from {source}'s offset of the group on, {low}"
    return f"{target} fetched {source}'s offset of the group, {low}"


def drawing(cycle: Sequence[Edge], partitions: Sequence[str], finding: Finding, text: FindingText) -> dict[str, Any]:
    """The cycle of a finding in `verdict.json`: vertices are operations by history index."""
    names, place_names = labels(cycle), _places(finding)
    edges = [
        {
            "from": edge.source,
            "to": edge.target,
            "kind": KINDS[edge.kind],
            "why": because(edge, names, partitions, place_names, text),
        }
        for edge in cycle
    ]
    return {"vertices": list(names), "edges": edges}


def rows(cycle: Sequence[Edge], partitions: Sequence[str], known: Records, run: RunView) -> dict[str, Any]:
    """Rows of a finding: the versions behind the edges, as what their operations sent or read."""
    ends = [end for edge in cycle if edge.place != NONE for end in _ends(edge)]
    made = [
        (partition_of(partitions[place]), op, offset, role, known.get((op, partitions[place], offset, role)))
        for op, place, offset, role in ends
    ]
    begun = run.overview.time[run.overview.at(np.array([row[1] for row in made]))]
    return {
        "partition": np.array([row[0] for row in made], dtype=object),
        "cause": np.zeros(len(made), dtype=np.int64),
        "op": np.array([row[1] for row in made], dtype=np.int64),
        "v": np.array([NONE if row[4] is None else row[4] for row in made], dtype=np.int64),
        "offset": np.array([row[2] for row in made], dtype=np.int64),
        "time": begun,
        "role": np.array([row[3] for row in made], dtype=object),
    }


def _ends(edge: Edge) -> list[tuple[int, int, int, str]]:
    """(operation, partition, offset, role) of both ends of an edge between records."""
    first = "read" if edge.kind == RW else "sent"
    second = "read" if edge.kind in (WR, DIRTY_WR, LSO) else "sent"
    return [(edge.source, edge.place, edge.low, first), (edge.target, edge.place, edge.high, second)]


def records_behind(cycles: Iterable[Sequence[Edge]], run: RunView) -> Records:
    """Identities of what the operations of some cycles sent and read; looked up once for all of them.

    A record whose acknowledgement had no offset is found by what was read, when one of these operations read it.
    """
    ops = {op for cycle in cycles for edge in cycle if edge.place != NONE for op in (edge.source, edge.target)}
    if not ops:
        return {}
    mops = records_of(run.history, ops).select(["kind", "op", "partition", "v", "offset"])
    rows = list(zip(*(column.to_pylist() for column in mops.columns), strict=True))
    read = [row for kind, *row in rows if kind == 1 and row[-1] != NONE]
    places = {(partition, v): offset for _, partition, v, offset in read}
    known = {(op, partition, offset, "read"): v for op, partition, v, offset in read}
    for op, partition, v, offset in (row for kind, *row in rows if kind == 0):
        for at in {places.get((partition, v), offset), offset} - {NONE}:
            known[op, partition, at, "sent"] = v
    return known
