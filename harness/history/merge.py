"""The workers' histories merged into Parquet: the only reader of the lines that `harness.history.writer` writes.

The format, version 1, is documented in docs/history.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.harness.api import record_ids
from fencepost.harness.api.beneath import replacing
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.evidence import Evidence, Gap, GapKind, HistoryFile, missing_evidence
from fencepost.harness.api.history import OPERATIONS, RECEIPTS, arrow_type, schema, writing
from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.history import unsaid
from fencepost.harness.history.contradictions import Contents
from fencepost.harness.history.operation_columns import Row
from fencepost.harness.history.operations import FileReading
from fencepost.harness.history.receipts import receipts
from fencepost.harness.history.roster import Roster, content, present, roster_of
from fencepost.harness.history.run_directory import write_damage

OPS_SCHEMA, FAULTS_SCHEMA = schema(OPERATIONS), schema(RECEIPTS)
MOP, ERROR, STRANGE = (arrow_type(name) for name in ("mop", "error", "strange"))
MOVED_NS = 1_000_000_000  # less is a clock that is kept right
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
    run.demand_readable(RunFile.LINES)
    if not run.roster and run.lacks(RunFile.PLAN):
        raise HistoryError(f"{run}: no history/*.jsonl in it; is this a run's directory?")
    roster = roster_of(run)
    gaps = list(roster.gaps)
    rows = _rows(run, roster, gaps)
    _write(run, RunFile.HISTORY, rows, OPS_SCHEMA)
    _write(run, RunFile.RECEIPTS, _receipts(run, roster, gaps), FAULTS_SCHEMA)
    write_damage(run.directory, gaps, [file.name for file in present(run)], run.plan.get("run", ""))
    return gaps


def demand_local(run: Run) -> None:
    """Raises HistoryError when a run's history lies on another file system, which only a check can reach."""
    if run.is_remote:
        raise HistoryError(
            f"{run}: its history lies at {run.history}; copy that run's directory to this machine, and name the copy"
        )


def _rows(run: Run, roster: Roster, gaps: list[Gap]) -> list[Row]:
    """The operations of all files, numbered in the order of their invocations."""
    parts: list[_Part] = []
    begins: dict[HistoryFile, int] = {}
    for file in (file for file in roster.files if file.role != "faults"):
        part = _read(run, roster, (file,))
        begins[file] = part.reading.begins
        others = [other for other in parts if other.reading.processes & part.reading.processes]
        if others and (roster.planned or _is_copy(part.reading.rows, [row for other in others for row in other.reading.rows])):
            why = f"it has operations of the processes of {others[0].files[0].name}; it is not read"
            gaps.append(Gap(file=file.name, why=why, kind=GapKind.SURPLUS))
            continue
        if others:
            files = (file for each in (part, *others) for file in each.files)
            part = _read(run, roster, tuple(sorted(files, key=lambda file: begins[file])))  # each goes on where another ends
        parts = [*(other for other in parts if other not in others), part]
    gaps += [gap for part in parts for gap in (*part.gaps, *part.reading.gaps)]
    rows = [row for part in parts for row in part.reading.rows]
    gaps += _moved([part.reading.clock for part in parts if part.reading.clock is not None and roster.ours])
    rows.sort(key=lambda row: (row["time"], row["process"]))
    for index, row in enumerate(rows):
        row["index"] = index
    if not roster.ours:
        gaps += _completed(rows, Evidence.SENDS in missing_evidence(gaps))
    return rows


class _Part(NamedTuple):
    """Files whose operations are of processes of their own: most often one."""

    files: tuple[HistoryFile, ...]
    reading: FileReading
    gaps: tuple[Gap, ...]


def _read(run: Run, roster: Roster, files: tuple[HistoryFile, ...]) -> _Part:
    """The operations of some files, one file after the other."""
    contents = [content(run, file, roster.slots) for file in files]
    reading = FileReading(files[0], roster.slots, roster.ours, all(each.whole for each in contents), roster.planned)
    for file, held in zip(files, contents, strict=True):
        reading.turn_to(file)
        for number, raw in held.lines:
            if reading.is_full:
                reading.abandon(number)
                break
            reading.take(number, raw)
    reading.finish()
    return _Part(files, reading, tuple(gap for held in contents for gap in held.gaps))


def _is_copy(some: Sequence[Row], rows: Sequence[Row]) -> bool:
    """True if every one of some operations is among the rows, and says the same."""
    known = {(row["process"], row["op"]): row for row in rows}
    return all(known.get((row["process"], row["op"])) == row for row in some)


def _completed(rows: list[Row], lacks_sends: bool) -> list[Gap]:
    """Fill in what follows from the rows of a history of others, and return what they leave unsaid.

    lacks_sends: it is known already that sends are missing.
    """
    table = pa.table({name: pa.array([row[name] for row in rows], OPS_SCHEMA.field(name).type) for name in unsaid.COLUMNS})
    keys = np.array([record_ids.operation_key(row["process"], row["op"]) for row in rows], dtype=np.int64)
    contents = Contents(table)
    mops = list(contents.through([_mops_column([row["mops"] for row in rows])]))
    senders = unsaid.unknown_senders([] if lacks_sends else mops, keys)
    unchained = np.array([bool(row["offsets"]) and not row["chains"] for row in rows], dtype=np.bool_)
    answer = unsaid.unsaid(table, RunFile.LINES, senders, contents, unchained)
    for row, final, decided in zip(rows, answer.final.tolist(), answer.decided.tolist(), strict=True):
        row.update(final=final, decided=None if decided < 0 else decided)
    return list(answer.gaps)


def _moved(clocks: Sequence[int]) -> Iterator[Gap]:
    """The gap of a run whose machine was given another time, by nobody of ours: timeouts of brokers, and timestamps, follow it.

    Times of the history do not: they are of CLOCK_MONOTONIC. clocks: the distance between the two, when each file was begun (ns).
    """
    moved = max(clocks, default=0) - min(clocks, default=0)
    if moved > MOVED_NS:
        why = f"the clock of the machine was set by {moved / 1e9:,.0f} s during the run, and no receipt tells of it"
        yield Gap(file=RunFile.LINES, why=why, kind=GapKind.UNATTESTED, evidence=(Evidence.RECEIPTS,))


def _receipts(run: Run, roster: Roster, gaps: list[Gap]) -> list[dict[str, Any]]:
    """The receipts, of the file that has them."""
    for file in roster.files:
        if file.role == "faults":
            file_content = content(run, file, roster.slots)
            rows, damaged = receipts(file, file_content.lines)
            gaps += [*file_content.gaps, *damaged]
            return rows
    return []


def _mops_column(per_row: list[list[tuple[Any, ...]]]) -> pa.Array:
    """The nested column from flat ones: far quicker than a dictionary per record."""
    flat = [mop for mops in per_row for mop in mops]
    columns = zip(*flat, strict=True) if flat else [()] * len(MOP.fields)
    arrays = [pa.array(column, kind.type) for column, kind in zip(columns, MOP.fields, strict=True)]
    offsets = [0]
    for mops in per_row:
        offsets.append(offsets[-1] + len(mops))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.StructArray.from_arrays(arrays, fields=list(MOP.fields)))


def _write(run: Run, file: str, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    """Write atomically: a half-written Parquet file is never seen under its name."""
    columns = {}
    for name, kind in zip(schema.names, schema.types, strict=True):
        if name == "mops":
            columns[name] = _mops_column([row["mops"] for row in rows])
        else:
            columns[name] = pa.array([row.get(name) for row in rows], kind)
    with replacing(run.directory, file) as part:
        pq.write_table(pa.table(columns, schema=schema), part, **writing(schema), row_group_size=ROWS_PER_GROUP)
