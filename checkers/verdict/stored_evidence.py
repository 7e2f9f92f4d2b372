"""Entries of the brokers' logs around a finding (`stored.parquet`): shown beside it, and never a reason for a verdict."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.checkers.model.findings import Finding
from fencepost.harness.api.history import STORED
from fencepost.harness.api.run import Run, RunFile

AROUND = 2  # offsets on each side of a record's
MOST_PLACES, MOST_ROWS, MOST_FATES = 6, 60, 24  # of a finding
_SHOWN = [column.name for column in STORED if not column.optional]
_SAME_IN = [name for name in _SHOWN if name != "node"]
_TRANSACTIONAL = "transactional"  # a column that older tables lack
_DECISIONS = {"COMMIT": "committed", "ABORT": "aborted"}  # a marker's kind, and what it makes of a record
_NONE = -1
_Fate = tuple[str, int | None, int | None]  # with the offsets of the record and of its marker
_ABSENT: _Fate = "absent", None, None


class StoredRecords:
    """The rows of some partitions, in the order of partitions and offsets.

    table: columns `_SHOWN`, and `_TRANSACTIONAL` where it is known.
    nodes: the brokers that were read.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table.sort_by([("partition", "ascending"), ("offset", "ascending")]).combine_chunks()
        self.nodes: list[str] = sorted(table["node"].unique().to_pylist())
        self._node = _places(self._table["node"], self.nodes)
        self._offset, self._producer = (self._table[name].to_numpy() for name in ("offset", "producer_id"))
        self._v = self._table["v"].fill_null(_NONE).to_numpy()
        self._by_v = np.argsort(self._v, kind="stable")
        self._decision = _places(self._table["kind"], list(_DECISIONS))
        self._markers = np.flatnonzero(self._decision != _NONE)
        known = _TRANSACTIONAL in self._table.column_names
        self._transactional = self._table[_TRANSACTIONAL].fill_null(False).to_numpy() if known else None
        counts = self._table["partition"].value_counts().to_pylist()  # in the order of the rows
        ends = np.cumsum([each["counts"] for each in counts], dtype=np.int64)
        self._spans = {each["values"]: slice(int(end) - each["counts"], int(end)) for each, end in zip(counts, ends, strict=True)}

    def around(self, finding: Finding) -> dict[str, Any]:
        """Rows at and beside the places of a finding's records, and wherever they are stored.

        nodes: the brokers that were read. rows: as in the table, with `nodes`, those whose logs agree on the row. absent: missing
        records of the finding that none of the logs holds. fates: what the logs make of its records (`FateDocument`).
        """
        places = list(dict.fromkeys((row.partition, row.offset) for row in finding.rows if row.offset >= 0))
        named = list(dict.fromkeys((row.partition, row.v) for row in finding.rows if row.v >= 0))
        fates = [fate for partition, v in named[:MOST_FATES] for fate in self._fates(partition, v)]
        shown = [at for place in places[:MOST_PLACES] for at in self._beside(*place)]
        shown += np.flatnonzero(np.isin(self._v, [v for _, v in named]))[: MOST_ROWS * len(self.nodes)].tolist()
        shown += [at for fate in fates if fate["marker"] is not None for at in self._at(fate["partition"], fate["marker"])]
        missing = np.array(list(dict.fromkeys(row.v for row in finding.records("missing") if row.v >= 0)), dtype=np.int64)
        absent = missing[~np.isin(missing, self._v)].tolist()
        rows = self._table.select(_SHOWN).take(np.unique(np.array(shown, dtype=np.int64))).to_pylist()
        return {"nodes": self.nodes, "rows": _agreeing(rows)[:MOST_ROWS], "absent": absent, "fates": fates}

    def _beside(self, partition: str, offset: int) -> Sequence[int]:
        """Where the rows of an offset and of the nearest ones on each side are."""
        span = self._spans.get(partition, slice(0, 0))
        offsets = self._offset[span]
        distinct = np.unique(offsets)
        low, high = np.searchsorted(distinct, offset, side="left"), np.searchsorted(distinct, offset, side="right")
        chosen = distinct[max(0, low - AROUND) : high + AROUND]
        if not len(chosen):
            return ()
        first, last = np.searchsorted(offsets, chosen[0], side="left"), np.searchsorted(offsets, chosen[-1], side="right")
        return range(span.start + first, span.start + last)

    def _at(self, partition: str, offset: int) -> Sequence[int]:
        """Where the rows of an offset are."""
        span = self._spans[partition]
        first, last = (np.searchsorted(self._offset[span], offset, side=side) for side in ("left", "right"))
        return range(span.start + first, span.start + last)

    def _fates(self, partition: str, v: int) -> Iterator[dict[str, Any]]:
        """What the logs of a partition make of a record, once for each answer that they give."""
        span = self._spans.get(partition, slice(0, 0))
        first, last = (np.searchsorted(self._v, v, side=side, sorter=self._by_v) for side in ("left", "right"))
        lies = [at for at in self._by_v[first:last] if span.start <= at < span.stop]
        agreeing: dict[_Fate, list[str]] = {}
        for number in np.unique(self._node[span]):
            here = [self._fate(at, span.stop) for at in lies if self._node[at] == number] or [_ABSENT]
            for fate in here:
                agreeing.setdefault(fate, []).append(self.nodes[number])
        for fate, nodes in agreeing.items():
            yield {"partition": partition, "v": v, "nodes": nodes, **dict(zip(("fate", "offset", "marker"), fate, strict=True))}

    def _fate(self, at: int, end: int) -> _Fate:
        """The fate of the record of a row. end: of the rows of its partition.

        A transaction's records are decided by the first marker of their producer id behind them, whose epoch may be a later one
        (KIP-360, KIP-890).
        """
        offset = int(self._offset[at])
        if self._transactional is not None and not self._transactional[at]:
            return "plain", offset, None
        behind = self._markers[slice(*np.searchsorted(self._markers, (at, end)))]
        own = behind[(self._producer[behind] == self._producer[at]) & (self._node[behind] == self._node[at])]
        if len(own):
            return list(_DECISIONS.values())[self._decision[own[0]]], offset, int(self._offset[own[0]])
        return "unknown" if self._transactional is None else "open", offset, None


def _places(column: pa.ChunkedArray, among: Sequence[str]) -> np.ndarray[Any, Any]:
    """The place of each value among some; `_NONE`: it is none of them."""
    return np.asarray(pc.index_in(column, pa.array(among, pa.string())).fill_null(_NONE))


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
        columns = [*_SHOWN, *([_TRANSACTIONAL] if _TRANSACTIONAL in pq.read_schema(path).names else [])]
        stored = StoredRecords(
            pq.read_table(path, columns=columns, filters=[("partition", "in", partitions), ("kind", "!=", "log")])
        )
    except (OSError, pa.ArrowException) as error:
        return f"{RunFile.STORED} could not be read ({error}): no finding shows what the brokers' logs hold"
    for finding in wanted:
        finding.detail = {**finding.detail, "stored": stored.around(finding)}
    return ""
