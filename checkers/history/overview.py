"""One light pass over the columns of a history that have one value per operation.

What comes out is small beside the records: who did what, when, how it ended; which final reads were complete; how settling went.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fencepost.checkers.history.scan import numbers_of
from fencepost.checkers.history.source import LocalSource, Source
from fencepost.checkers.model.arrays import Bools, Ints, among, distinct
from fencepost.checkers.model.values import ABORTED, COMMITTED, FOREVER, INFO, NONE, FinalRead, Resets
from fencepost.harness.system.array_files import ArrayFiles, Growing

TEXTS = ("isolation", "f", "type", "intent")
NUMBERS = {"index": np.int64, "process": np.int32, "op": np.int32, "time": np.int64, "end": np.int64, "decided": np.int64}
COLUMNS = (*NUMBERS, *TEXTS, "final", "detail")
_MOVES = ("assign", "subscribe")  # each of them moves its consumer, whatever it says
_ROUNDED_S = 1.0  # a time for which somebody waited was read a little before it was compared with the bound, and is rounded
COMMITTED_LEVEL, UNCOMMITTED = "read_committed", "read_uncommitted"


@dataclass(frozen=True)
class Overview:
    """Operations as arrays in order of `index`; times in CLOCK_MONOTONIC ns, NONE where unknown. 46 bytes an operation.

    arrays: the files in which they lie, if they are large.
    """

    index: Any  # 32 bits where that is enough, like process and op
    process: Any
    op: Any
    time: Ints
    end: Ints
    decided: Ints
    status: NDArray[np.int8]  # what is known: COMMITTED, ABORTED, INFO
    ok: Bools  # how it ended; neither: `info`
    failed: Bools
    txn: Bools
    aborting: Bools  # a transaction that was to abort: nobody calls its commit
    send: Bools
    main: Bools  # an operation of a client in the main phase
    writer: Bools  # one that writes, before the final phase
    final_reads: dict[str, FinalRead] = field(default_factory=dict)
    settled: dict[str, tuple[int, int]] = field(default_factory=dict)  # partition -> (last stable offset, high watermark)
    contradictory: tuple[str, ...] = ()  # partitions of which settling says two offsets that cannot be
    settle_op: int = NONE
    settle_time: int = NONE
    settle_bound_s: float = 0.0
    resets: Resets = field(default_factory=Resets)
    arrays: ArrayFiles = field(default_factory=ArrayFiles)

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def dense(self) -> bool:
        """True if operations are numbered without a gap from 0, so that an index is a position."""
        return not len(self) or (self.index[0] == 0 and int(self.index[-1]) == len(self) - 1)

    @cached_property
    def processes(self) -> Any:
        """All processes, in order."""
        return distinct(self.process)

    @cached_property
    def writing_processes(self) -> Any:
        """Processes of which an operation may write, in order."""
        return distinct(self.process[self.txn | self.send])

    @cached_property
    def last_write_began(self) -> int:
        """The time at which the last operation of such a process began."""
        return int(self.time.max(where=among(self.process, self.writing_processes), initial=0))

    def at(self, index: Any) -> Any:
        """Positions of operations by their history index."""
        return index if self.dense else np.searchsorted(self.index, index)


def read_overview(history: Source | Path, isolation: str = COMMITTED_LEVEL) -> Overview:
    """Read the per-operation columns of a history (a path: a file of this machine). Raises `source.read_errors`.

    isolation: the level of readers whose own is not known.
    """
    source = LocalSource(history) if isinstance(history, Path) else history
    overview = build_overview(*source.batches(COLUMNS, TEXTS), isolation)
    pa.default_memory_pool().release_unused()
    return overview


def build_overview(count: int, batches: Iterable[pa.RecordBatch], isolation: str = COMMITTED_LEVEL) -> Overview:
    """An overview of so many operations, from batches of `COLUMNS` (texts dictionary-encoded) in any order."""
    arrays, kinds = ArrayFiles(), {**NUMBERS, "status": np.int8, **dict.fromkeys(_FLAGS, np.bool_)}
    growing = {name: Growing(arrays, count, kind) for name, kind in kinds.items()}
    details: list[dict[str, Any]] = []
    for batch in batches:
        numbers = {name: numbers_of(batch.column(name)) for name in NUMBERS}
        for name, values in {**numbers, **_outcomes(batch, numbers["process"])}.items():
            growing[name].append(values)
        moves = pc.fill_null(pc.is_in(batch.column("f"), pa.array(_MOVES)), False)
        details += batch.filter(pc.or_(pc.is_valid(batch.column("detail")), moves)).to_pylist()
    columns = {name: growing.pop(name).array() for name in kinds}
    _in_order(columns)
    finals, settled, assigned = _details(sorted(details, key=lambda row: int(row["index"])))
    settling = _settling(settled)
    final_reads = _final_reads(finals, settling["settled"], _first_times(finals, columns), isolation)
    begun = _begun(finals, settling, settled[-1]["time"] if settled else FOREVER, columns)
    final_reads = {partition: replace(final, begun=begun[partition]) for partition, final in final_reads.items()}
    stored = {name: arrays.stored(columns.pop(name)) for name in list(columns)}
    return Overview(**stored, **settling, arrays=arrays, final_reads=final_reads, resets=_resets(assigned))


_FLAGS = ("ok", "failed", "txn", "aborting", "send", "main", "writer")


def _outcomes(batch: pa.RecordBatch, process: Any) -> dict[str, Any]:
    """Outcomes and kinds of some operations, from their texts."""

    def has(column: str, word: str) -> Bools:
        texts = batch.column(column)
        code = {text: number for number, text in enumerate(texts.dictionary.to_pylist())}.get(word, -2)
        return np.asarray(pc.fill_null(texts.indices, -1).to_numpy(zero_copy_only=False) == code)

    ok, failed, txn, send = has("type", "ok"), has("type", "fail"), has("f", "txn"), has("f", "send")
    aborting = txn & has("intent", "abort")
    aborted = failed | (ok & aborting)
    early = ~np.asarray(pc.fill_null(batch.column("final"), False).to_numpy(zero_copy_only=False), dtype=np.bool_)
    known = ~txn | has("intent", "commit")  # of a transaction that ended ok without a word of its intent nobody knows how
    status = np.where(aborted, ABORTED, np.where(ok & known, COMMITTED, INFO))
    main, writer = early & (process >= 0), early & (txn | send)
    flags = {"ok": ok, "failed": failed, "txn": txn, "aborting": aborting, "send": send, "main": main, "writer": writer}
    return {"status": status, **flags}


def _in_order(columns: dict[str, Any]) -> None:
    """Sort by index where a history is not, and number with 32 bits where that is enough."""
    index = columns["index"]
    if not (index[1:] > index[:-1]).all():
        order = np.argsort(index, kind="stable")
        for name, values in columns.items():
            columns[name] = values[order]
    if columns["index"].max(initial=0) < np.iinfo(np.int32).max:
        columns["index"] = columns["index"].astype(np.int32)


def _details(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], ...]:
    """`final-read`, `settle` and `assign` or `subscribe` operations, their details parsed (empty if they cannot be)."""
    for row in rows:
        try:
            parsed = json.loads(row["detail"] or "{}")
        except ValueError:
            parsed = {}
        row["detail"] = parsed if isinstance(parsed, dict) else {}
    return tuple([row for row in rows if row["f"] in names] for names in (("final-read",), ("settle",), _MOVES))


def _resets(rows: list[dict[str, Any]]) -> Resets:
    """Assignments that may have happened. Unless it seeks, an `assign` moves no consumer in the partitions that it names; one
    that names none, for it has no completion, may have moved it in any.

    Whether it sought may be unknown (`position`).
    """
    rows = [row for row in rows if row["type"] != "fail"]
    unaffected: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        if row["f"] == "assign" and not row["detail"].get("seek_to_beginning") and "position" not in row["detail"]:
            for partition in set(row["detail"].get("partitions") or ()):
                unaffected.setdefault(str(partition), []).append(number)
    process, op = (np.array([row[name] for row in rows], dtype=np.int64) for name in ("process", "index"))
    return Resets(process, op, unaffected)


def _first_times(rows: list[dict[str, Any]], numbers: dict[str, Any]) -> dict[int, int]:
    """The time at which each process that made a final read began its first operation."""
    return {process: int(numbers["time"][numbers["process"] == process].min()) for process in {row["process"] for row in rows}}


def _begun(finals: list[dict[str, Any]], settling: dict[str, Any], settled_ns: int, columns: dict[str, Any]) -> dict[str, int]:
    """The time at which the final phase of each partition began: with the first operation of one of its final readers, or
    settling.

    The end up to which its readers read is measured then.
    """
    final = {process: ~columns["main"] & (columns["process"] == process) for process in {row["process"] for row in finals}}
    first = {process: int(columns["time"][which].min(initial=FOREVER)) for process, which in final.items()}
    begun = dict.fromkeys((*settling["settled"], *settling.get("contradictory", ())), settled_ns)
    for row in finals:
        for partition in row["detail"]:
            begun[partition] = min(begun.get(partition, FOREVER), first[row["process"]])
    return begun


def _offsets(values: Any, count: int) -> tuple[int, ...]:
    """A list of so many known offsets; empty for anything else. Clients write unknown offsets as null or as negative numbers."""
    known = isinstance(values, list) and len(values) == count and all(type(value) is int and value >= 0 for value in values)
    return tuple(values) if known else ()


def _seconds(value: Any) -> float:
    """A length of time; 0 for what is none."""
    return float(value) if type(value) in (int, float) and 0 < value < FOREVER / 1e9 else 0.0


def _settling(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The last measurement of last stable offsets and high watermarks.

    One that contradicts itself is none: a last stable offset above the high watermark, or below it although all had reached
    theirs (`ok`), or before the bound had passed.
    """
    if not rows:
        return {"settled": {}}
    last = rows[-1]
    detail = last["detail"]
    values = detail.get("partitions", detail)
    values = values if isinstance(values, dict) else {}
    bound, waited = (_seconds(detail.get(name)) if "partitions" in detail else 0.0 for name in ("bound_s", "waited_s"))
    in_vain = last["type"] == "info" and ("waited_s" not in detail or waited >= bound - _ROUNDED_S)
    known = {partition: _offsets(pair, 2) for partition, pair in values.items()}
    settled = {
        partition: (pair[0], pair[1])
        for partition, pair in known.items()
        if pair and last["type"] != "fail" and (pair[0] == pair[1] or (pair[0] < pair[1] and in_vain))
    }
    when = last["end"] if last["end"] is not None else last["time"]
    contradictory = tuple(sorted(partition for partition, pair in known.items() if pair and partition not in settled))
    measured = {"settled": settled, "contradictory": contradictory}
    return {**measured, "settle_op": last["index"], "settle_time": when, "settle_bound_s": bound}


def _final_reads(
    rows: list[dict[str, Any]], settled: dict[str, tuple[int, int]], first: dict[int, int], isolation: str
) -> dict[str, FinalRead]:
    """The complete final reads of each partition: those that went up to the end offset or beyond, whatever became of their other
    partitions. One that begins above its end contradicts itself, and is none.
    """
    complete: dict[str, dict[bool, dict[int, int]]] = {}
    reader: dict[int, tuple[int, int, int]] = {}
    for row in rows:
        if row["type"] == "fail":
            continue
        reader[row["process"]] = (row["process"], row["index"], first[row["process"]])
        for partition, span in row["detail"].items():
            offsets = _offsets(span, 3)
            if offsets and offsets[0] <= offsets[1] <= offsets[2]:
                levels = complete.setdefault(partition, {True: {}, False: {}})
                levels[(row["isolation"] or isolation) != UNCOMMITTED][row["process"]] = offsets[1]
    return {partition: _final_read(levels, settled.get(partition), reader) for partition, levels in complete.items()}


def _final_read(
    levels: dict[bool, dict[int, int]], settled: tuple[int, int] | None, reader: dict[int, tuple[int, int, int]]
) -> FinalRead:
    committed, uncommitted = levels[True], levels[False]
    reach = min(committed.values(), default=0)
    stalled = (settled is not None and settled[0] < settled[1]) or reach < max(uncommitted.values(), default=0)
    readers, witnesses = (tuple(reader[process] for process in sorted(level)) for level in (committed, uncommitted))
    unsettled = bool(committed) and settled is None and not uncommitted
    return FinalRead(
        tuple(sorted(committed)), tuple(sorted(uncommitted)), reach, bool(committed) and stalled, unsettled, readers, witnesses
    )
