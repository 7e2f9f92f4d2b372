"""A small history of its own, put right before another one, for what that one does not allow or would hide.

The two share no process and no partition, and the first is over before the second begins. So no step leads from the second back
to the first: each anomaly, and each cycle, lies in one of them and not in both.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.history_rows import HistoryRows, read_rows, rows_of
from fencepost.checkers.model.lawful_history import write_lawful
from fencepost.checkers.model.values import NONE
from fencepost.checkers.selfcheck.lawful_logs import lawful_logs
from fencepost.harness.system import liveness

GAP = 10_000_000  # ns between the two
SMALL = 160  # transactions of the lawful one
PROCESSES = 32  # that a small history may have
_PROCESS = 39  # bits of an identity below the process


def prepend(first: HistoryRows, then: HistoryRows) -> HistoryRows:
    """Both histories as one; the clock of the second is put forward."""
    forward = int(first.ops[["time", "end"]].to_numpy().max()) + GAP - int(then.ops["time"].min() if len(then.ops) else 0)
    late = _forward(then.whole, forward)
    table = pa.concat_tables([_like(first.whole, late.schema), late])
    table = table.set_column(table.column_names.index("index"), "index", pa.array(np.arange(len(table))))
    mops = then.mops.assign(op=then.mops["op"] + len(first.ops))
    for name in ("began", "ended"):
        mops[name] = mops[name].where(mops[name] == NONE, mops[name] + forward)
    return rows_of(table.combine_chunks(), pd.concat([first.mops, mops], ignore_index=True))


def _forward(table: pa.Table, by: int) -> pa.Table:
    for name in ("time", "end", "decided"):
        table = table.set_column(table.column_names.index(name), name, pc.add(table[name], by))
    if "errors" not in table.column_names:
        return table
    errors = [
        [{**error, "time": error["time"] and error["time"] + by} for error in some or ()] for some in table["errors"].to_pylist()
    ]
    moved = pa.array(errors, table.schema.field("errors").type)
    return table.set_column(table.column_names.index("errors"), "errors", moved)


def _like(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The history with the columns of another history; those that it lacks, and lists of another type, are null."""
    same = {
        field.name for field in schema if field.name in table.column_names and table.schema.field(field.name).type == field.type
    }
    known = same | {name for name in table.column_names if not pa.types.is_nested(table.schema.field(name).type)}
    columns = [
        table[field.name].cast(field.type) if field.name in known else pa.nulls(len(table), field.type) for field in schema
    ]
    return pa.table(columns, schema=schema)


def free_process(rows: HistoryRows) -> int:
    """The first of so many process numbers that a history uses nowhere (`PROCESSES`)."""
    used = np.unique(np.r_[NONE, rows.ops["process"].to_numpy(), rows.mops["v"].to_numpy() >> _PROCESS])
    gaps = np.flatnonzero(np.diff(np.r_[used, used[-1] + 2 * PROCESSES]) > PROCESSES)
    return int(used[gaps[0]]) + 1


def free_topic(rows: HistoryRows) -> str:
    """The name of a topic that a history does not use."""
    used = {partition.rpartition("-")[0] for partition in rows.mops["partition"].unique()}
    return next(name for name in (f"planted{'_' * number}" for number in range(len(used) + 1)) if name not in used)


def small_lawful(beside: HistoryRows) -> HistoryRows:
    """A lawful history in which every damage can be planted, with processes and partitions that another one does not use."""
    with liveness.temporary_directory("selfcheck") as folder:
        made = read_rows(Path(write_lawful(folder, transactions=SMALL).history))
    process, topic = free_process(beside), free_topic(beside)
    numbers = made.table["process"].to_numpy()
    columns = {
        **dict.fromkeys(("process", "slot"), pa.array(np.where(numbers == NONE, NONE, numbers + process), pa.int32())),
        "detail": pa.array([text and _renamed(text, topic) for text in made.table["detail"].to_pylist()], pa.string()),
    }
    table = made.table
    for name, column in columns.items():
        table = table.set_column(table.column_names.index(name), name, column)
    partitions = topic + made.mops["partition"].str.slice(1)
    small = rows_of(table, made.mops.assign(v=made.mops["v"] + (process << _PROCESS), partition=partitions))
    return replace(small, logs=lawful_logs(small))


def _renamed(detail: str, topic: str) -> str:
    return json.dumps({f"{topic}-{partition.rpartition('-')[2]}": span for partition, span in json.loads(detail).items()})
