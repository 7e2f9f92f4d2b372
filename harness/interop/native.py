"""Our own formats, lying anywhere: JSON lines are merged as a run's are; Parquet is copied, batch by batch, into our columns."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from harness.api import Evidence, Gap, GapKind, HistoryError, RunFile
from harness.history import merge
from harness.history.merge import FAULTS_SCHEMA, OPS_SCHEMA
from harness.runs.directory import open_run


def merge_lines(path: Path, run_dir: Path) -> list[Gap]:
    """Copy the JSON lines of a file or a directory to `run_dir`/history, and merge them."""
    folder = run_dir / RunFile.LINES
    folder.mkdir(exist_ok=True)
    files = [path] if path.is_file() else sorted([*path.glob("*.jsonl"), *path.glob("history/*.jsonl")])
    for file in files:
        name = file.name.removesuffix(".gz")
        name = name if name.endswith(".jsonl") else f"{name}.jsonl"
        copy = folder / name
        shutil.copyfile(file, folder / f"also-{name}" if copy.exists() else copy)  # merging unpacks it, as far as it goes
    return merge.merge(open_run(run_dir))


def copy_parquet(path: Path, run_dir: Path) -> list[Gap]:
    """Write `history.parquet` with all of our columns (absent ones null, rows numbered anew in the order of their times), and
    `faults.parquet` and `values.parquet` when they lie beside it. Returns what the history lacks for columns that are absent.
    Raises HistoryError when a column cannot be read as what it should be."""
    whole = path / RunFile.HISTORY
    source = ds.dataset(whole if whole.exists() else path, format="parquet", exclude_invalid_files=path.is_dir())
    order = None if _sorted(source) else pc.sort_indices(source.to_table(columns=["time"])["time"])
    part, first = run_dir / f"{RunFile.HISTORY}.part", 0
    with pq.ParquetWriter(part, OPS_SCHEMA, compression="zstd") as writer:
        batches = (
            [source.to_table().take(order)]
            if order is not None
            else map(pa.Table.from_batches, ([b] for b in source.to_batches()))
        )
        for batch in batches:
            writer.write_table(_ours(batch, first, path))
            first += len(batch)
    part.replace(run_dir / RunFile.HISTORY)
    folder = path if path.is_dir() else path.parent
    values, beside = folder / RunFile.VALUES, folder / RunFile.RECEIPTS
    if values.exists():
        shutil.copyfile(values, run_dir / RunFile.VALUES)
    if beside.exists() and pq.read_schema(beside).names == FAULTS_SCHEMA.names:
        shutil.copyfile(beside, run_dir / RunFile.RECEIPTS)
    else:
        pq.write_table(FAULTS_SCHEMA.empty_table(), run_dir / RunFile.RECEIPTS)
    return [
        Gap(file=path.name, why=why, kind=GapKind.MISSING, evidence=evidence)
        for name, (evidence, why) in _ABSENT.items()
        if name not in source.schema.names
    ]


_ABSENT = {
    "decided": ((Evidence.DECISIONS,), "the column `decided` is absent: nobody knows when commits were called"),
    "final": (
        (Evidence.FINAL_COMMITTED, Evidence.FINAL_UNCOMMITTED),
        "the column `final` is absent: nobody knows what the final readers got",
    ),
}


def _sorted(source: ds.Dataset) -> bool:
    time = source.to_table(columns=["time"])["time"].to_numpy()
    return bool((time[1:] >= time[:-1]).all())


def _earliest_decision(table: pa.Table) -> pa.Array:
    """Where no column says when transactions were decided: those of unknown outcome surely not before they began."""
    undecided = pc.and_(pc.equal(table["f"], "txn"), pc.equal(table["type"], "info"))
    return pc.if_else(undecided, table["time"], pa.scalar(None, table["time"].type))


def _ours(table: pa.Table, first: int, path: Path) -> pa.Table:
    columns = {name: table[name] for name in table.column_names}
    columns["index"] = pa.array(np.arange(first, first + len(table)))
    columns.setdefault("slot", table["process"])
    columns.setdefault("final", pa.repeat(pa.scalar(False), len(table)))
    columns.setdefault("decided", _earliest_decision(table))
    arrays = []
    for field in OPS_SCHEMA:
        try:
            arrays.append(columns[field.name].cast(field.type) if field.name in columns else pa.nulls(len(table), field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise HistoryError(f"{path}: column {field.name} is not {field.type}: {error}; see docs/history.md") from error
    return pa.table(arrays, schema=OPS_SCHEMA)
