"""What a trace takes of a history, some operations at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.harness.api.history import OPERATIONS
from fencepost.harness.interop.micro_operations import micro_operations

Batches = Callable[[Sequence[str]], Iterator[pa.RecordBatch]]  # of some columns of a history
HARNESS = "harness"
ROWS = 256  # operations that are read at a time: a final reader's may hold a thousand records each
BUFFER = 1 << 20  # bytes of each column that are read at a time
_NEEDED = ("index", "process", "f", "type", "intent", "time", "end", "mops", "errors")
_OPTIONAL = ("op", "slot", "node", "role", "isolation", "transactional_id", "final")
_LACKING = dict.fromkeys(_OPTIONAL)
COLUMNS = [replace(column, optional=column.name in _OPTIONAL) for column in OPERATIONS if column.name in (*_NEEDED, *_OPTIONAL)]


def batches(path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Some columns of a history, few operations at a time; those that are not there are left out."""
    with pq.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False) as file:
        yield from file.iter_batches(ROWS, columns=[name for name in columns if name in file.schema_arrow.names])


def rows(source: Batches) -> Iterator[dict[str, Any]]:
    for batch in source((*_NEEDED, *_OPTIONAL)):
        names = batch.schema.names
        columns = [micro_operations(batch[name]) if name == "mops" else batch[name].to_pylist() for name in names]
        for values in zip(*columns, strict=True):
            yield {**_LACKING, **dict(zip(names, values, strict=True))}


def node_of(row: Mapping[str, Any]) -> str:
    """The node of an operation; of a history that names none, its slot."""
    if row["process"] < 0:
        return HARNESS
    slot = row["slot"]
    return str(row["node"] or (f"slot {slot}" if slot is not None and slot >= 0 else "clients"))


def clients_of(source: Batches) -> set[str]:
    """The nodes of clients."""
    return {node_of(row) for batch in source(["process", "slot", "node"]) for row in _distinct(batch)} - {HARNESS}


def _distinct(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    table = pa.Table.from_batches([batch])
    return [{**_LACKING, **row} for row in table.group_by(table.column_names).aggregate([]).to_pylist()]


@dataclass(frozen=True)
class Span:
    """The times of a trace (ns).

    origin: its first moment. last: its last.
    ends: where the slice of each operation ends: that of one without completion where its process begins another, or at the last.
    """

    origin: int
    last: int
    ends: Any

    @classmethod
    def of(cls, source: Batches, receipts: Sequence[Mapping[str, Any]]) -> Span:
        process, time, end = (_numbers(source, name) for name in ("process", "time", "end"))
        struck = [receipt["injected_ns"] for receipt in receipts if receipt["injected_ns"]]
        healed = [receipt["healed_ns"] for receipt in receipts if receipt["injected_ns"] and receipt["healed_ns"]]
        last = max([*healed, *struck, int(time.max(initial=0)), int(end.max(initial=0))], default=0)
        origin = min([*struck, *([int(time.min())] if len(time) else [])], default=0)
        ends = np.where(end >= 0, np.maximum(end, time), _next_begin(process, time, last))
        return cls(origin, last, ends)


def _numbers(source: Batches, name: str) -> Any:
    """A column of whole numbers; -1 where there is none."""
    parts = (pc.fill_null(batch.column(name), -1).to_numpy(zero_copy_only=False) for batch in source([name]))
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def _next_begin(process: Any, time: Any, last: int) -> Any:
    order = np.lexsort((time, process))
    following = np.full(len(order), last)
    same = process[order[1:]] == process[order[:-1]]
    following[order[:-1][same]] = time[order[1:][same]]
    return following
