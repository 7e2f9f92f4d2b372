"""Fencing: the cells of the workload's matrix that were exercised, KIP-98's table of errors, and KIP-618's promises."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.harness.api.values import Property
from fencepost.harness.page_text import number
from fencepost.harness.report.documents import Doc, Ops, ReportData

PROMISES = "connect-promise"
_COLUMNS = ("process", "slot", "f", "type", "time", "end", "detail")


@dataclass(frozen=True, kw_only=True)
class CellRow:
    """One cell: how many instances went through it, how often a rival initialised meanwhile, how their transactions ended."""

    name: str
    instances: str
    rivals: str
    first: str
    again: str


@dataclass(frozen=True, kw_only=True)
class ErrorRow:
    """One row of the table of errors."""

    situation: str
    calls: str
    demanded: str
    source: str
    state: str
    css: str
    met: str
    violated: str


@dataclass
class _Cell:
    instances: int = 0
    rivals: int = 0
    ends: tuple[Counter[str], Counter[str]] = field(default_factory=lambda: (Counter(), Counter()))


def fields(run: ReportData) -> dict[str, Any]:
    """The template's variables; empty for runs in which no producer initialised again."""
    tables = {"error_table": error_table(run.verdict), "promises": error_table(run.verdict, PROMISES)}
    compared = {f"{name}_compared": sum(row.state in ("met", "violated") for row in rows) for name, rows in tables.items()}
    return {"cells": cells(run.ops) if run.ops is not None else (), **tables, **compared}


# --------------------------------------------------------------------------------------------------
# Cells
# --------------------------------------------------------------------------------------------------
def cells(ops: Ops) -> tuple[CellRow, ...]:
    """The cells that the `initialise` operations of a history name, in the order of their names; others belong to none."""
    initialised = ops.table(np.flatnonzero(ops.f.among("initialise")), ("slot", "detail")).to_pylist()
    slots = {row["slot"] for row in initialised if _cell_of(row)}
    if not slots:
        return ()
    table = ops.table(np.flatnonzero(ops.f.among("initialise", "txn")), _COLUMNS)
    rows = table.filter(pc.is_in(table["slot"], pa.array(slots, table["slot"].type))).to_pylist()
    by_name: dict[str, _Cell] = {}
    for slot in slots:
        _count([row for row in rows if row["slot"] == slot], by_name)
    return tuple(_row(name, by_name[name]) for name in sorted(by_name))


def _count(rows: list[Mapping[str, Any]], by_name: dict[str, _Cell]) -> None:
    """Count what one slot did. A rival's operation lies inside one of another process."""
    current: dict[int, tuple[_Cell, int]] = {}
    outer: Mapping[str, Any] = {}
    for row in rows:
        inside = bool(outer) and row["process"] != outer["process"] and row["time"] <= (outer["end"] or row["time"])
        outer = outer if inside else row
        if row["f"] == "initialise":
            current.pop(row["process"], None)
            if not (name := _cell_of(row)):
                continue
            cell = by_name.setdefault(name, _Cell())
            cell.rivals += inside and row["type"] == "ok"
            cell.instances += not inside
            current[row["process"]] = (cell, 0)
        elif not inside and row["process"] in current:
            cell, place = current[row["process"]]
            cell.ends[min(place, 1)][row["type"]] += 1
            current[row["process"]] = (cell, place + 1)


def _cell_of(row: Mapping[str, Any]) -> str:
    try:
        detail = json.loads(row["detail"] or "{}")
    except ValueError:
        return ""
    return str(detail.get("cell") or "") if isinstance(detail, dict) else ""


def _row(name: str, cell: _Cell) -> CellRow:
    first, again = (", ".join(f"{count} {word}" for word, count in sorted(ends.items())) for ends in cell.ends)
    return CellRow(name=name, instances=number(cell.instances), rivals=number(cell.rivals), first=first, again=again)


# --------------------------------------------------------------------------------------------------
# Errors
# --------------------------------------------------------------------------------------------------
def error_table(verdict: Doc, *names: str) -> tuple[ErrorRow, ...]:
    """The rows of the properties that compare with a table: of these, else of all but KIP-618's; each is met, violated or not
    exercised."""
    return tuple(_error_row(row) for row in _table_rows(verdict, names))


def _table_rows(verdict: Doc, names: Sequence[str]) -> Iterator[Doc]:
    for answer in (*verdict.get("properties", ()), *verdict.get("allowed", ())):
        if answer.get("compared") and (answer.get("name") in names if names else answer.get("name") != PROMISES):
            yield from answer.get("table", ())


def _error_row(row: Doc) -> ErrorRow:
    met, violated = row.get("met") or 0, row.get("violated") or 0
    state = "violated" if violated else "met" if met else Property.NOT_EXERCISED.value
    css = {"violated": "violated", "met": "held"}.get(state, "not-exercised")
    words = {name: str(row.get(name, "")) for name in ("situation", "calls", "demanded", "source")}
    return ErrorRow(**words, state=state, css=css, met=number(met), violated=number(violated))
