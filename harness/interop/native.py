"""Our own formats, lying anywhere: JSON lines are merged as a run's are; Parquet is copied, batch by batch, into our columns."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fencepost.harness.api import record_ids
from fencepost.harness.api.beneath import make_folder, names, replacing
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.evidence import Evidence, Gap, GapKind
from fencepost.harness.api.files import fits_in_memory, regular
from fencepost.harness.api.history import OPERATIONS, lacking_values, writing
from fencepost.harness.api.run import RunFile
from fencepost.harness.api.words import and_more, form
from fencepost.harness.history import merge, unsaid
from fencepost.harness.history.contradictions import WRITES, Contents
from fencepost.harness.history.lines import is_documented
from fencepost.harness.history.merge import FAULTS_SCHEMA, OPS_SCHEMA
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.interop.detect import line_files, parquet_files

_PARQUET = ds.ParquetFileFormat(default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True))
_UNREADABLE = OSError, pa.ArrowException, UnicodeDecodeError  # the last one of a name or a text


def merge_lines(path: Path, run_dir: Path) -> list[Gap]:
    """Copy the JSON lines of a file or a directory to `run_dir`/history, and merge them.

    Raises HistoryError for a file that cannot be read.
    """
    make_folder(run_dir, RunFile.LINES)
    files = [path] if path.is_file() else line_files(path)
    for file in files:
        name = file.name.removesuffix(".gz")
        name = name if name.endswith(".jsonl") else f"{name}.jsonl"
        copy, there = name, names(run_dir, RunFile.LINES)
        while copy in there or (file == path and copy == RunFile.FAULT_LINES):  # a file by itself is no receipts
            copy = f"also-{copy}"
        try:  # merging unpacks it, as far as it goes
            _copy(_of_bearable_size(file), run_dir, f"{RunFile.LINES}/{copy}")
        except OSError as error:
            raise HistoryError(
                f"{file}: cannot be read: {error.strerror or error}; the others can be judged without it"
            ) from error
    return merge.merge(open_run(run_dir))


def _copy(path: Path, run_dir: Path, file: str) -> None:
    """Copy a file from anywhere into a run's directory. Raises OSError: it cannot be read; UnwritableFile."""
    with regular(path).open("rb") as source, replacing(run_dir, file) as copy:
        shutil.copyfileobj(source, copy)


def _of_bearable_size(path: Path) -> Path:
    """A regular file that can be merged. Raises OSError."""
    if regular(path).stat().st_size > fits_in_memory():
        raise OSError(f"it has more than {fits_in_memory():,} bytes, an eighth of this machine's memory")
    return path


def copy_parquet(path: Path, run_dir: Path) -> list[Gap]:
    """Write `history.parquet` with all of our columns (absent ones null, rows numbered anew in the order of their times), and
    `faults.parquet` and `values.parquet` when they lie beside it. Returns what the history lacks for columns that are absent.
    Raises HistoryError when the table, or a column as what it should be, cannot be read."""
    try:
        return _copied(path, run_dir)
    except _UNREADABLE as error:
        raise HistoryError(f"{path}: cannot be read: {_first_line(error)}") from error


def _copied(path: Path, run_dir: Path) -> list[Gap]:
    sources = [ds.dataset(file, format=_PARQUET) for file in parquet_files(path)]
    time, process, op = (_numbers(sources, name, path) for name in ("time", "process", "op"))
    order = None if bool((time[1:] >= time[:-1]).all()) else np.argsort(time, kind="stable")
    again, copies = _copies(process, op, order)
    first, taken = 0, 0
    with replacing(run_dir, RunFile.HISTORY) as part, pq.ParquetWriter(part, OPS_SCHEMA, **writing(OPS_SCHEMA)) as writer:
        for batch in _batches(sources, order, path):
            once = batch.filter(pa.array(~again[taken : taken + len(batch)])) if copies else batch
            writer.write_table(_numbered(once, first))
            taken, first = taken + len(batch), first + len(once)
    columns = set(sources[0].schema.names).intersection(*(source.schema.names for source in sources))
    unknown = _completed(run_dir, path.name, columns)
    folder = path if path.is_dir() else path.parent
    damage = _copy_beside(folder / RunFile.VALUES, run_dir)
    with replacing(run_dir, RunFile.RECEIPTS) as table:
        pq.write_table(FAULTS_SCHEMA.empty_table(), table)
    damage += _copy_beside(folder / RunFile.RECEIPTS, run_dir, FAULTS_SCHEMA.names, (Evidence.RECEIPTS,))
    damage += [Gap(file=path.name, why=copies, evidence=_OPERATIONS)] if copies else []
    return (
        damage
        + unknown
        + [
            Gap(file=path.name, why=why, kind=GapKind.MISSING, evidence=evidence)
            for name, (evidence, why) in _ABSENT.items()
            if name not in columns
        ]
    )


def _numbers(sources: Sequence[ds.Dataset], name: str, path: Path) -> NDArray[np.int64]:
    """A column of whole numbers that no row may lack."""
    parts = [_cast(source.to_table(columns=[name])[name], OPS_SCHEMA.field(name), path) for source in sources]
    if any(part.null_count for part in parts):
        raise HistoryError(f"{path}: column {name} lacks values that docs/history.md requires")
    return np.concatenate([part.to_numpy().astype(np.int64) for part in parts])


def _batches(sources: Sequence[ds.Dataset], order: NDArray[np.intp] | None, path: Path) -> Iterator[pa.Table]:
    """The rows in their order. Raises HistoryError where they cannot be read: an OSError is one of the file that is written."""
    try:
        if order is not None:
            yield pa.concat_tables(_ours(source.to_table(), path) for source in sources).take(pa.array(order))
            return
        for source in sources:
            yield from (_ours(pa.Table.from_batches([batch]), path) for batch in source.to_batches())
    except _UNREADABLE as error:
        raise HistoryError(f"{path}: cannot be read: {_first_line(error)}") from error


def _completed(run_dir: Path, file: str, columns: Collection[str]) -> list[Gap]:
    """Fill in what follows from the rows of a copied history, and return what they leave unsaid.

    columns: those that it had; of one that is absent a gap says so (`_ABSENT`), and without `chains` there is no pipeline.
    """
    with pq.ParquetFile(run_dir / RunFile.HISTORY) as copied:
        light = copied.read(list(unsaid.COLUMNS))
        light, undocumented = _documented(light, file)
        keys = record_ids.operation_key(*(light[name].to_numpy().astype(np.int64) for name in ("process", "op")))
        contents = Contents(light)
        senders = unsaid.unknown_senders(contents.through(_mops(copied)), keys)
        answer = unsaid.unsaid(light, file, senders, contents, _unchained(copied) if "chains" in columns else None)
        taken = {"final": "final" in columns, "decided": "decided" in columns}
        new = {"final": pa.array(answer.final), "decided": pa.array(answer.decided, mask=answer.decided < 0)}
        changed = {
            name: values for name, values in new.items() if taken[name] and not light[name].combine_chunks().equals(values)
        }
        if undocumented:
            changed["detail"] = light["detail"].combine_chunks()
        if changed:
            _rewrite(copied, run_dir, changed)
    return undocumented + [gap for gap in answer.gaps if gap.evidence != (Evidence.DECISIONS,) or taken["decided"]]


def _documented(light: pa.Table, file: str) -> tuple[pa.Table, list[Gap]]:
    """The rows without the `detail` of those in which it is not as documented; and that this was left out."""
    rows = np.flatnonzero(pc.is_valid(light["detail"]).to_numpy(zero_copy_only=False))
    told = (light[name].take(rows).to_pylist() for name in ("f", "type", "detail"))
    wrong = [row for row, said in zip(rows.tolist(), zip(*told, strict=True), strict=True) if not is_documented(*said)]
    if not wrong:
        return light, []
    which = np.zeros(len(light), dtype=np.bool_)
    which[wrong] = True
    kept = pc.if_else(pa.array(which), pa.scalar(None, light["detail"].type), light["detail"])
    first = f"the `{light['f'][wrong[0]]}` {light['op'][wrong[0]]} of process {light['process'][wrong[0]]}"
    why = f"{first}{and_more(len(wrong) - 1)} {form(len(wrong), 'has', 'have')} a `detail` that docs/history.md does not know"
    gap = Gap(file=file, why=why, kind=GapKind.UNRELIABLE, evidence=WRITES)
    return light.set_column(light.column_names.index("detail"), "detail", kept), [gap]


def _mops(copied: pq.ParquetFile) -> Iterator[pa.Array]:
    """The column `mops` in parts."""
    return (batch.column("mops") for batch in copied.iter_batches(columns=["mops"]))


def _unchained(copied: pq.ParquetFile) -> NDArray[np.bool_]:
    """Rows that commit offsets of a group, and name no record that they processed."""
    masks = []
    for batch in copied.iter_batches(columns=["chains", "offsets"]):
        chains, offsets = (pc.fill_null(pc.list_value_length(batch.column(name)), 0) for name in ("chains", "offsets"))
        masks.append(pc.and_(pc.equal(chains, 0), pc.greater(offsets, 0)))
    return _joined(masks)


def _joined(parts: Sequence[pa.Array]) -> NDArray[np.bool_]:
    return np.concatenate([np.empty(0, dtype=np.bool_), *(part.to_numpy(zero_copy_only=False) for part in parts)])


def _rewrite(copied: pq.ParquetFile, run_dir: Path, changed: Mapping[str, pa.Array]) -> None:
    """Write a history again with other values of some columns."""
    first = 0
    with replacing(run_dir, RunFile.HISTORY) as part, pq.ParquetWriter(part, OPS_SCHEMA, **writing(OPS_SCHEMA)) as writer:
        for group in range(copied.num_row_groups):
            table = copied.read_row_group(group)
            for name, values in changed.items():
                table = table.set_column(
                    OPS_SCHEMA.get_field_index(name), OPS_SCHEMA.field(name), values.slice(first, len(table))
                )
            writer.write_table(table)
            first += len(table)


def _copies(process: NDArray[np.int64], op: NDArray[np.int64], order: NDArray[np.intp] | None) -> tuple[NDArray[np.bool_], str]:
    """The mask of rows, in the order in which they are copied, of an operation that was there before; and that, in words.

    Without any: an empty mask, and no words. Nobody refers to the harness' operations by their numbers: these may have any.
    """
    if order is not None:
        process, op = process[order], op[order]
    again = process >= 0
    again[np.unique(process << _OP_BITS | op & (1 << _OP_BITS) - 1, return_index=True)[1]] = False
    if not again.any():
        return again[:0], ""
    first, others = int(again.argmax()), int(again.sum()) - 1
    twice = f"operation {op[first]} of process {process[first]} is there twice{and_more(others, ', and ')}"
    return again, f"{twice}; what comes first is read"


def _copy_beside(path: Path, run_dir: Path, columns: Sequence[str] = (), evidence: tuple[Evidence, ...] = ()) -> list[Gap]:
    """Copy a table that lies beside a history, if it has just these columns; what is lost where it cannot be read."""
    try:
        if os.path.lexists(path) and (not columns or pq.read_schema(regular(path)).names == columns):
            _copy(path, run_dir, path.name)
    except _UNREADABLE as error:
        return [Gap(file=path.name, why=f"cannot be read: {_first_line(error)}", evidence=evidence)]
    return []


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


_OP_BITS = 40  # of an operation's number, beside its process
_OPERATIONS = tuple(kind for kind in Evidence if kind is not Evidence.RECEIPTS)
_ABSENT = {
    "decided": ((Evidence.DECISIONS,), "the column `decided` is absent: nobody knows when commits were called"),
    "final": (
        (Evidence.FINAL_COMMITTED, Evidence.FINAL_UNCOMMITTED),
        "the column `final` is absent: nobody knows what the final readers got",
    ),
}


def _earliest_decision(table: pa.Table) -> pa.Array:
    """The earliest decision where no column has it: transactions of unknown outcome were surely not decided before they began."""
    undecided = pc.and_(pc.equal(table["f"], "txn"), pc.equal(table["type"], "info"))
    return pc.if_else(undecided, table["time"], pa.scalar(None, table["time"].type))


def _ours(table: pa.Table, path: Path) -> pa.Table:
    """A table with all of our columns, those that are absent null; `index` is 0."""
    fields = {field.name: field for field in OPS_SCHEMA}
    columns = {name: _cast(table[name], fields[name], path) for name in table.column_names if name in fields}
    columns["index"] = pa.array(np.zeros(len(table), dtype=np.int64))
    columns.setdefault("slot", columns["process"])
    columns.setdefault("final", pa.repeat(pa.scalar(False), len(table)))
    if "decided" not in columns:
        columns["decided"] = _earliest_decision(pa.table({name: columns[name] for name in ("f", "type", "time")}))
    arrays = [columns.get(name, pa.nulls(len(table), field.type)) for name, field in fields.items()]
    whole = pa.table(arrays, schema=OPS_SCHEMA)
    if name := lacking_values(whole, OPERATIONS):
        raise HistoryError(f"{path}: column {name} lacks values that docs/history.md requires")
    return whole


def _numbered(table: pa.Table, first: int) -> pa.Table:
    index = OPS_SCHEMA.get_field_index("index")
    return table.set_column(index, OPS_SCHEMA.field(index), pa.array(np.arange(first, first + len(table))))


def _cast(column: pa.ChunkedArray, field: pa.Field, path: Path) -> pa.ChunkedArray:
    """A column as what it should be; moments in time as nanoseconds. Raises HistoryError: it is something else."""
    try:
        if pa.types.is_floating(column.type):  # what pandas has for a value that is absent
            column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        return column.cast(_in_nanoseconds(column.type)).cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise HistoryError(
            f"{path}: column {field.name} is not {field.type}: {_first_line(error)}; see docs/history.md"
        ) from error


def _in_nanoseconds(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type_):
        return pa.timestamp("ns", type_.tz)
    return pa.duration("ns") if pa.types.is_duration(type_) else type_
