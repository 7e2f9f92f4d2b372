"""One light pass over the columns of `history.parquet` that have one value per operation.

What comes out is small beside the records: who did what, when, how it ended; which final reads were complete; how settling went.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from checkers.anomaly import Bools, Ints
from checkers.log import ABORTED, COMMITTED, INFO, NONE, FinalRead, Resets

TEXTS = ("role", "isolation", "f", "type", "intent")
COLUMNS = ("index", "process", "slot", "op", *TEXTS, "final", "time", "end", "decided", "detail")
UNCOMMITTED = "read_uncommitted"


@dataclass(frozen=True)
class Overview:
    """Operations as arrays in order of `index`; times in CLOCK_MONOTONIC ns, NONE where unknown."""

    index: Ints
    process: Ints
    slot: Ints
    op: Ints
    time: Ints
    end: Ints
    decided: Ints
    status: NDArray[np.int8]  # what is known: COMMITTED, ABORTED, INFO
    kind: NDArray[Any]  # `ok`, `fail`, `info`
    txn: Bools
    send: Bools
    main: Bools  # an operation of a client in the main phase
    writer: Bools  # one that writes, before the final phase
    intends_abort: Bools
    final_reads: dict[str, FinalRead] = field(default_factory=dict)
    settled: dict[str, tuple[int, int]] = field(default_factory=dict)  # partition -> (last stable offset, high watermark)
    settle_op: int = NONE
    settle_time: int = NONE
    settle_bound_s: float = 0.0
    resets: Resets = field(default_factory=Resets)

    def at(self, index: Any) -> Any:
        """Positions of operations by their history index."""
        return np.searchsorted(self.index, index)


def read_overview(path: Path) -> Overview:
    """Read the per-operation columns of a history. Raises what pyarrow raises when it is no Parquet file."""
    table = pq.read_table(path, columns=list(COLUMNS), read_dictionary=list(TEXTS)).combine_chunks()
    if not _is_sorted(table["index"]):
        table = table.sort_by("index")
    f, kind = table["f"], table["type"]
    txn, aborting = _is(f, "txn"), _is(table["intent"], "abort")
    ok, failed = _is(kind, "ok"), _is(kind, "fail")
    status = np.full(len(table), INFO, dtype=np.int8)
    status[ok & ~(txn & aborting)] = COMMITTED
    status[failed | (ok & txn & aborting)] = ABORTED
    sends = _is(f, "send")
    early = ~_flags(table["final"])
    finals, settled, assigned = _details(table)
    numbers: dict[str, Any] = {name: _ints(table[name]) for name in ("index", "process", "slot", "op", "time", "end", "decided")}
    return Overview(
        **numbers,
        status=status,
        kind=np.select([ok, failed], ["ok", "fail"], "info"),
        txn=txn,
        send=sends,
        main=early & (numbers["process"] >= 0),
        writer=early & (txn | sends),
        intends_abort=aborting,
        **_settling(settled),
        final_reads=_final_reads(finals, _settling(settled)["settled"], _first(finals, numbers)),
        resets=_resets(assigned),
    )


def _is_sorted(column: pa.ChunkedArray) -> bool:
    values = _ints(column)
    return bool((values[1:] > values[:-1]).all())


def _ints(column: pa.ChunkedArray) -> Ints:
    return np.asarray(pc.fill_null(pc.cast(column, pa.int64()), NONE).to_numpy(), dtype=np.int64)


def _flags(column: pa.ChunkedArray) -> Bools:
    return np.asarray(pc.fill_null(column, False).to_numpy(), dtype=np.bool_)


def _is(column: pa.ChunkedArray, word: str) -> Bools:
    """Where a text column has this word. Compared once per distinct text."""
    if not len(column):
        return np.zeros(0, dtype=np.bool_)
    texts = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    texts = texts.chunk(0) if isinstance(texts, pa.ChunkedArray) else texts
    code = {text: number for number, text in enumerate(texts.dictionary.to_pylist())}.get(word, -2)
    return np.asarray(pc.fill_null(texts.indices, -1).to_numpy(zero_copy_only=False) == code)


def _details(table: pa.Table) -> tuple[list[dict[str, Any]], ...]:
    """`final-read`, `settle` and `assign` or `subscribe` operations, in order, their details parsed (empty if they cannot be)."""
    rows = table.filter(pc.is_valid(table["detail"])).to_pylist()
    for row in rows:
        try:
            row["detail"] = json.loads(row["detail"])
        except ValueError:
            row["detail"] = {}
    return tuple([row for row in rows if row["f"] in names] for names in (("final-read",), ("settle",), ("assign", "subscribe")))


def _resets(rows: list[dict[str, Any]]) -> Resets:
    """Assignments that may have happened. An `assign` leaves a partition that it names where it was, unless it seeks."""
    rows = [row for row in rows if row["type"] != "fail"]
    kept: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        if row["f"] == "assign" and not row["detail"].get("seek_to_beginning"):
            for partition in set(row["detail"].get("partitions") or ()):
                kept.setdefault(str(partition), []).append(number)
    process, op = (np.array([row[name] for row in rows], dtype=np.int64) for name in ("process", "index"))
    return Resets(process, op, kept)


def _first(rows: list[dict[str, Any]], numbers: dict[str, Any]) -> dict[int, int]:
    """When each process that made a final read began its first operation."""
    return {process: int(numbers["time"][numbers["process"] == process].min()) for process in {row["process"] for row in rows}}


def _settling(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The last look at last stable offsets and high watermarks."""
    if not rows:
        return {"settled": {}}
    last = rows[-1]
    detail = last["detail"]
    values = detail.get("partitions", detail)
    settled = {
        partition: (int(pair[0]), int(pair[1]))
        for partition, pair in values.items()
        if isinstance(pair, list) and len(pair) == 2 and None not in pair
    }
    when = last["end"] if last["end"] is not None else last["time"]
    bound = detail.get("bound_s", 0.0) if "partitions" in detail else 0.0
    return {"settled": settled, "settle_op": last["index"], "settle_time": when, "settle_bound_s": float(bound or 0.0)}


def _final_reads(rows: list[dict[str, Any]], settled: dict[str, tuple[int, int]], first: dict[int, int]) -> dict[str, FinalRead]:
    """Which final reads of each partition were complete: returned ok, and went up to the end offset or beyond."""
    complete: dict[str, dict[bool, dict[int, int]]] = {}
    reader: dict[int, tuple[int, int, int]] = {}
    for row in rows:
        if row["type"] != "ok":
            continue
        reader[row["process"]] = (row["process"], row["index"], first[row["process"]])
        for partition, span in row["detail"].items():
            if isinstance(span, list) and len(span) == 3 and None not in span and span[2] >= span[1]:
                levels = complete.setdefault(partition, {True: {}, False: {}})
                levels[row["isolation"] != UNCOMMITTED][row["process"]] = span[1]
    return {partition: _final_read(levels, settled.get(partition), reader) for partition, levels in complete.items()}


def _final_read(
    levels: dict[bool, dict[int, int]], settled: tuple[int, int] | None, reader: dict[int, tuple[int, int, int]]
) -> FinalRead:
    stable, all_of_it = levels[True], levels[False]
    reach = min(stable.values(), default=0)
    stalled = (settled is not None and settled[0] < settled[1]) or reach < max(all_of_it.values(), default=0)
    readers = tuple(reader[process] for process in sorted(stable))
    return FinalRead(tuple(sorted(stable)), tuple(sorted(all_of_it)), reach, bool(stable) and stalled, readers)
