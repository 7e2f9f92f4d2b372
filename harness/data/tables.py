"""The tables of a run as pandas data frames. Spark is not started, and not imported.

Whole numbers and truth values have pandas' nullable types (`Int64`, `boolean`): what is not known is `NA`, and no number loses a
digit. Lists stay lists, of dictionaries where their elements are structs (docs/history.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from fencepost.harness.api import CampaignError
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.history import ANOMALIES, OPERATIONS, RECEIPTS, STORED, Column
from fencepost.harness.api.run import Run, RunFile

LISTS = tuple(column.name for column in OPERATIONS if column.type.startswith("list of "))
PLAIN = tuple(column.name for column in OPERATIONS if column.name not in LISTS)
OF_RECORD = ("index", "process", "op", "f", "type", "intent", "isolation", "final")  # columns of an operation beside its records
RECORD_KINDS = ("sent", "polled")
COLUMNS: dict[str, Sequence[Column]] = {
    RunFile.HISTORY: OPERATIONS,
    RunFile.RECEIPTS: RECEIPTS,
    RunFile.ANOMALIES: ANOMALIES,
    RunFile.STORED: STORED,
}
_NULLABLE = {
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
}
_NODE = ("index", "f", "type", "process", "op", "slot", "node", "role", "intent", "isolation", "transactional_id", "final")
_NODE_TIMES = ("time", "end", "decided")


def frame(run: Run, file: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """A table of a run's directory. columns: some of them; None: all that are there. Raises HistoryError and CampaignError."""
    demand(run, file)
    path = run.path(file)
    there = pq.read_schema(path).names
    if columns is not None and (unknown := [name for name in columns if name not in there]):
        raise CampaignError([f"{file} of {run} has no column `{unknown[0]}`; there are {', '.join(there)}"])
    return nullable(pq.read_table(path, columns=None if columns is None else list(columns)))


def demand(run: Run, file: str) -> None:
    """Raises HistoryError where a table is missing or damaged, or lies on another file system, with the remedy."""
    if file == RunFile.HISTORY and run.is_remote:
        raise HistoryError(f"{run}: its history is at {run.history}, which only Spark reads: use `.spark(session)`")
    if file == RunFile.STORED and run.logs is None:
        raise HistoryError(f"{run}: {file} does not belong to the run (its manifest names none); remove it")
    run.demand_table(file, COLUMNS[file])


def nullable(table: pa.Table) -> pd.DataFrame:
    """A table with pandas' nullable types."""
    made: pd.DataFrame = table.to_pandas(types_mapper=_NULLABLE.get)
    return made


def history(run: Run, columns: Sequence[str] | None) -> pd.DataFrame:
    """A row per operation; without columns, all that have one value per operation."""
    return frame(run, RunFile.HISTORY, PLAIN if columns is None else columns)


def records(run: Run) -> pd.DataFrame:
    """A row per sent or polled record, in the order of operations."""
    demand(run, RunFile.HISTORY)
    table = pq.read_table(run.path(RunFile.HISTORY), columns=[*OF_RECORD, "mops"])
    none = pa.RecordBatch.from_pylist([], schema=table.schema)
    return nullable(pa.Table.from_batches(map(_records, (none, *table.to_batches()))))


def _records(batch: pa.RecordBatch) -> pa.RecordBatch:
    mops, parents = batch.column("mops").flatten(), pc.list_parent_indices(batch.column("mops"))
    columns = {name: batch.column(name).take(parents) for name in OF_RECORD}
    kinds = pa.array(RECORD_KINDS).take(mops.field("kind"))
    fields = {name: mops.field(name) for name in ("partition", "v", "offset", "began", "ended")}
    return pa.RecordBatch.from_pydict({**columns, "kind": kinds, **fields})


def nodes(run: Run, operations: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """Operations by history index, each with the attributes of a node; what is not known is left out."""
    source = ds.dataset(run.path(RunFile.HISTORY), format="parquet")
    wanted = ds.field("index").isin(pa.array(operations))
    for batch in source.to_batches(columns=[*_NODE, *_NODE_TIMES, "mops"], filter=wanted):
        counts = _counts(batch.column("mops"))
        names = [name for name in batch.schema.names if name != "mops"]
        for row, sent, polled in zip(_rows(batch, names), *counts, strict=True):
            index = row.pop("index")
            yield index, {**{name: value for name, value in row.items() if value is not None}, "sent": sent, "polled": polled}


def _rows(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    for values in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
        yield dict(zip(names, values, strict=True))


def _counts(mops: pa.ListArray) -> Iterable[list[int]]:
    """Of each operation the number of records that it sent, and of those that it polled."""
    parents = pc.list_parent_indices(mops).to_numpy(zero_copy_only=False)
    kinds = mops.flatten().field("kind").to_numpy(zero_copy_only=False)
    return [np.bincount(parents[kinds == kind], minlength=len(mops)).tolist() for kind in (0, 1)]
