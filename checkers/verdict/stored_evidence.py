"""Entries of the brokers' logs around a finding (`stored.parquet`): shown beside it, and never a reason for a verdict."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.checkers.model.findings import Finding
from fencepost.harness.api.history import STORED
from fencepost.harness.api.run import Run, RunFile

AROUND = 2  # offsets on each side of a record's
MOST_PLACES, MOST_ROWS = 6, 60  # of a finding
_SHOWN = [column.name for column in STORED if not column.optional]
_SAME_IN = [name for name in _SHOWN if name != "node"]


class StoredRecords:
    """The rows of some partitions, by partition; within each in the order of offsets.

    nodes: the brokers that were read.
    """

    def __init__(self, table: pa.Table) -> None:
        self.nodes: list[str] = sorted(table["node"].unique().to_pylist())
        self._rows: dict[str, list[dict[str, Any]]] = {}
        for row in table.to_pylist():
            self._rows.setdefault(row["partition"], []).append(row)
        self._offsets = {name: np.array([row["offset"] for row in rows]) for name, rows in self._rows.items()}
        self._of: dict[int | None, list[dict[str, Any]]] = {}
        for rows in self._rows.values():
            for row in rows:
                self._of.setdefault(row["v"], []).append(row)

    def around(self, finding: Finding) -> dict[str, Any]:
        """Rows at and beside the places of a finding's records, and wherever they are stored.

        nodes: the brokers that were read. rows: as in the table, with `nodes`, those whose logs agree on the row. absent: missing
        records of the finding that none of the logs holds.
        """
        places = list(dict.fromkeys((row.partition, row.offset) for row in finding.rows if row.offset >= 0))
        near = [row for place in places[:MOST_PLACES] for row in self._beside(*place)]
        near += [row for v in {row.v for row in finding.rows if row.v >= 0} for row in self._of.get(v, ())]
        missing = dict.fromkeys(row.v for row in finding.records("missing") if row.v >= 0)
        absent = [v for v in missing if v not in self._of]
        return {"nodes": self.nodes, "rows": _agreeing(near)[:MOST_ROWS], "absent": absent}

    def _beside(self, partition: str, offset: int) -> Sequence[dict[str, Any]]:
        """Rows of the offset and of the nearest ones on each side."""
        offsets = self._offsets.get(partition, np.empty(0, dtype=np.int64))
        distinct = np.unique(offsets)
        low, high = np.searchsorted(distinct, offset, side="left"), np.searchsorted(distinct, offset, side="right")
        chosen = distinct[max(0, low - AROUND) : high + AROUND]
        if not len(chosen):
            return ()
        first, last = np.searchsorted(offsets, chosen[0], side="left"), np.searchsorted(offsets, chosen[-1], side="right")
        return self._rows[partition][first:last]


def _agreeing(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows that differ in their node only as one, in the order of partitions and offsets."""
    nodes: dict[tuple[Any, ...], set[str]] = {}
    for row in rows:
        nodes.setdefault(tuple(row[name] for name in _SAME_IN), set()).add(row["node"])
    ordered = sorted(nodes.items(), key=lambda item: item[0][:2])
    return [{**dict(zip(_SAME_IN, key, strict=True)), "nodes": sorted(where)} for key, where in ordered]


def add_stored_evidence(run: Run, findings: Sequence[Finding]) -> str:
    """Give each forbidden finding what the logs hold around it (`stored`); in words why not, if a table is there and unreadable.

    A run whose cluster showed no logs has no table; then nothing is added. Findings of cycles and clients have no place.
    """
    path = run.logs
    wanted = [candidate for candidate in findings if candidate.forbidden and "cycle" not in candidate.detail]
    wanted = [candidate for candidate in wanted if any(row.partition for row in candidate.rows)]
    if not wanted or path is None or not os.path.lexists(path):
        return ""
    partitions = sorted({row.partition for candidate in wanted for row in candidate.rows})
    if problem := run.table_problem(RunFile.STORED, STORED):
        return f"{problem}: no finding shows what the brokers' logs hold"
    try:
        stored = StoredRecords(
            pq.read_table(path, columns=_SHOWN, filters=[("partition", "in", partitions), ("kind", "!=", "log")])
        )
    except (OSError, pa.ArrowException) as error:
        return f"{RunFile.STORED} could not be read ({error}): no finding shows what the brokers' logs hold"
    for finding in wanted:
        finding.detail = {**finding.detail, "stored": stored.around(finding)}
    return ""
