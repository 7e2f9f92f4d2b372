"""The workers' histories merged into Parquet: the only reader of the lines that `harness.history.writer` writes.

The format, version 1, is documented in docs/history.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from harness.api import HISTORY_VERSION, Gap, HistoryError, HistoryFile, Outcome, Run, RunFile, evidence_of, replacing
from harness.api.history import COMPLETION, HEADER, INVOCATION, OPERATIONS, PROCESS, RECEIPTS, REQUIRED, arrow_type, schema
from harness.runs.directory import write_damage

OPS_SCHEMA, FAULTS_SCHEMA = schema(OPERATIONS), schema(RECEIPTS)
MOP, ERROR, STRANGE = (arrow_type(name) for name in ("mop", "error", "strange"))
ROWS_PER_GROUP = 32_768  # one row group is one Spark task


# --------------------------------------------------------------------------------------------------
# Merging
# --------------------------------------------------------------------------------------------------
def merge(run: Run) -> list[Gap]:
    """Write `history.parquet` and `faults.parquet` from the workers' lines, and `damage.json`; returns what the history lacks.

    A run that was cut off before its first operation gives an empty history. Raises HistoryError for what is no run at all, and
    for a run whose history lies on another file system.
    """
    demand_local(run)
    if not run.roster and run.lacks(RunFile.PLAN):
        raise HistoryError(f"{run}: no history/*.jsonl in it; is this a run's directory?")
    folder = run.path(RunFile.LINES)
    damage: list[Gap] = []
    rows: list[dict[str, Any]] = []
    for file in run.roster:
        rows.extend(_operations(folder / file.name, file, damage))
    rows.sort(key=lambda row: (row["time"], row["process"]))
    for index, row in enumerate(rows):
        row["index"] = index
    _write(run.path(RunFile.HISTORY), rows, OPS_SCHEMA)
    _write(run.path(RunFile.RECEIPTS), _receipts(folder / RunFile.FAULT_LINES, damage), FAULTS_SCHEMA)
    write_damage(run.directory, damage, [file.name for file in run.roster])
    return damage


def demand_local(run: Run) -> None:
    """Raises HistoryError when a run's history lies on another file system, which only a check can reach."""
    if run.is_remote:
        raise HistoryError(
            f"{run}: its history lies at {run.history}; copy that run's directory to this machine, and name the copy"
        )


def _lines(path: Path, file: HistoryFile, damage: list[Gap]) -> Iterator[tuple[int, dict[str, Any]]]:
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    content = path.read_bytes().splitlines(keepends=True)
    for number, raw in enumerate(content, 1):
        if not raw.strip():
            continue
        try:
            yield number, decode(raw)
        except msgspec.DecodeError as error:
            cut = number == len(content) and not raw.endswith(b"\n")
            why = "cut off while it was written (the worker was killed)" if cut else f"not a JSON object: {error}"
            damage.append(_unreadable(file, number, why))


def _unreadable(file: HistoryFile, number: int, why: str) -> Gap:
    return Gap(file=file.name, line=number, why=why, role=file.role or "", slot=file.slot, evidence=evidence_of(file.role))


def _operations(path: Path, file: HistoryFile, damage: list[Gap]) -> Iterator[dict[str, Any]]:
    """The operations of one worker's file. Processes of one file come one after the other."""
    header = begun = _BLANK  # what the lines so far say of every operation that follows
    opened: dict[tuple[int, int], dict[str, Any]] = {}
    done: list[dict[str, Any]] = []
    for number, line in _lines(path, file, damage):
        try:
            kind = line.get("type")
            if line.get("format") == "fencepost-history":
                if line["version"] != HISTORY_VERSION:
                    raise HistoryError(f"{path}: history version {line['version']}; this fencepost reads {HISTORY_VERSION}")
                header = {**_BLANK, **_copied(HEADER, line)}
                begun = header
            elif kind == "process":
                begun = {**header, **_copied(PROCESS, line)}
            elif kind == "invoke":
                opened[line["process"], line["op"]] = _row(begun, line)
            elif kind in ("ok", "fail", "info"):
                row = opened.pop((line["process"], line["op"]))
                done.append(_completed(row, line))
            else:
                raise ValueError(f"unknown type {kind!r}")
        except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
            damage.append(_unreadable(file, number, f"not understood ({type(error).__name__}: {error})"))
    yield from done
    yield from opened.values()  # invoked, and nobody knows what became of it


def _row(begun: dict[str, Any], line: dict[str, Any]) -> dict[str, Any]:
    """An operation as its invocation tells it; `begun`: what the lines before it say."""
    value = line.get("value")
    mops = _mops(value) if isinstance(value, list) else []
    return {**begun, **_copied(INVOCATION, line), "type": Outcome.INFO.value, "mops": mops}


def _completed(row: dict[str, Any], line: dict[str, Any]) -> dict[str, Any]:
    value = line.get("value")
    row.update(_copied(COMPLETION, line), type=line["type"], end=line["time"])
    if isinstance(value, list):
        row["mops"] = _mops(value)
        row["strange"] = [odd for mop in value if mop[0] == "poll" and len(mop) > 3 for odd in mop[3]]
    elif value is not None:
        row["detail"] = msgspec.json.encode(value).decode()
    return row


_COLUMNS = {line: [one for one in OPERATIONS if one.line == line] for line in (HEADER, PROCESS, INVOCATION, COMPLETION)}
_BLANK = {one.name: [] if one.type.startswith("list") else one.default for one in OPERATIONS}


def _copied(which: str, line: dict[str, Any]) -> dict[str, Any]:
    """The columns that are copied from a line of this kind. Raises KeyError: one that every such line has is missing."""
    copied = {}
    for column in _COLUMNS[which]:
        value = line.get(column.name)
        if value is None and column.default is REQUIRED:
            raise KeyError(column.name)
        copied[column.name] = _BLANK[column.name] if value is None else bool(value) if column.type == "bool" else value
    return copied


def _mops(value: Iterable[list[Any]]) -> list[tuple[Any, ...]]:
    """Micro-operations as rows of MOP; a poll gives a row per record."""
    rows: list[tuple[Any, ...]] = []
    for mop in value:
        if mop[0] == "send":
            _, partition, v, *done = mop
            rows.append((0, partition, v, *(done or (None, None, None))))
        elif mop[0] == "poll":
            if len(mop) > 1:
                ended = mop[2]
                rows += [(1, partition, v, offset, None, ended) for partition, got in mop[1].items() for offset, v in got]
        else:
            raise ValueError(f"unknown micro-operation {mop[0]!r}")
    return rows


def _receipts(path: Path, damage: list[Gap]) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    last: dict[int, dict[str, Any]] = {}
    for _, line in _lines(path, HistoryFile(path.name, role="faults"), damage):
        if "id" in line:
            last[line["id"]] = {
                **line,
                "pairs": [f"{source}>{destination}" for source, destination in line.get("pairs", [])],
                "evidence": msgspec.json.encode(line.get("evidence", {})).decode(),
                "healing": msgspec.json.encode(line.get("healing", {})).decode(),
                "reach": line.get("reach") or None,
            }
    return [last[id_] for id_ in sorted(last)]


def _mops_column(per_row: list[list[tuple[Any, ...]]]) -> pa.Array:
    """The nested column from flat ones: far quicker than a dictionary per record."""
    flat = [mop for mops in per_row for mop in mops]
    columns = zip(*flat, strict=True) if flat else [()] * len(MOP.fields)
    arrays = [pa.array(column, kind.type) for column, kind in zip(columns, MOP.fields, strict=True)]
    offsets = [0]
    for mops in per_row:
        offsets.append(offsets[-1] + len(mops))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.StructArray.from_arrays(arrays, fields=list(MOP.fields)))


def _write(path: Path, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    """Write atomically: a half-written Parquet file is never seen under its name."""
    columns = {}
    for name, kind in zip(schema.names, schema.types, strict=True):
        if name == "mops":
            columns[name] = _mops_column([row["mops"] for row in rows])
        else:
            columns[name] = pa.array([row.get(name) for row in rows], kind)
    with replacing(path) as part:
        pq.write_table(pa.table(columns, schema=schema), part, compression="zstd", row_group_size=ROWS_PER_GROUP)
