"""A `workload.log` -> history.parquet, values.parquet, faults.parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.harness.api.beneath import replacing
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.evidence import Gap, GapKind
from fencepost.harness.api.history import VALUES, schema, writing
from fencepost.harness.api.run import RunFile
from fencepost.harness.history.merge import FAULTS_SCHEMA, OPS_SCHEMA
from fencepost.harness.interop.chaos.log_lines import LogLine, damaged, log_lines
from fencepost.harness.interop.chaos.operations import Operations
from fencepost.harness.interop.chaos.workloads import (
    FIRST_READERS,
    READS_WRITES,
    RW_SUBSCRIBE,
    TX_SINGLE,
    TX_SUBSCRIBE,
    Thread,
    Workload,
)

_NOT_KNOWN = {
    "admin": "list-offsets, which logs no record that somebody read",
    "writer": "tx-compact, whose topic is compacted",
    "": "tx-money or writes, which logs no record that somebody read",
}


def adopt_log(path: Path, run_dir: Path) -> tuple[list[Gap], Workload]:
    """Write a log's history into `run_dir`. Returns what could not be read, and the workload.

    Raises HistoryError: a workload whose log says too little, or nothing in it.
    """
    damage: list[Gap] = []
    try:
        lines = list(log_lines(path, damage))
    except (OSError, EOFError) as error:
        raise HistoryError(f"{path}: cannot be read: {error}") from error
    workload = _workload(path, lines)
    operations = _operations(path.name, lines, workload, damage)
    rows, names = operations.rows(whole=not damage)
    if not rows:
        raise HistoryError(f"{path}: a log of {workload.name} without an operation in it")
    values = [dict(zip(("v", "partition", "value"), name, strict=True)) for name in names]
    tables = (
        (RunFile.HISTORY, rows, OPS_SCHEMA),
        (RunFile.VALUES, values, schema(VALUES)),
        (RunFile.RECEIPTS, _faults(lines), FAULTS_SCHEMA),
    )
    for file, content, columns in tables:
        with replacing(run_dir, file) as part:
            pq.write_table(pa.Table.from_pylist(content, schema=columns), part, **writing(columns))
    return [*damage, *operations.gaps(), *_violations(path.name, lines)], workload


def _workload(path: Path, lines: Sequence[LogLine]) -> Workload:
    """The workload, by what its threads are and do."""
    roles = {line.words[1] if len(line.words) > 1 else "" for line in lines if line.command == "started" and line.words}
    if "streaming" in roles:
        return TX_SUBSCRIBE
    if "producing" in roles:
        return RW_SUBSCRIBE
    if "producer" in roles:
        return READS_WRITES
    if "consumer" in roles and "writer" not in roles:
        return TX_SINGLE
    which = next((text for role, text in _NOT_KNOWN.items() if role in roles), "a workload that it does not name")
    raise HistoryError(
        f"{path}: a log of Redpanda's chaos tests, of {which}; read are logs of {Workload.known} (docs/foreign-histories.md)"
    )


def _operations(file: str, lines: Sequence[LogLine], workload: Workload, damage: list[Gap]) -> Operations:
    operations, threads = Operations(file), dict[int, Thread]()
    for line in lines:
        if line.thread < 0 or line.command in ("violation", "event"):
            continue
        try:
            if line.command == "started":
                threads[line.thread] = _thread(operations, line)
            elif line.thread not in threads:
                raise ValueError(f"thread {line.thread} does something before its line `started`")
            elif handler := workload.handlers.get(line.command):
                handler(threads[line.thread], line)
            elif not line.command.startswith("log"):
                raise ValueError(f"`{line.command}` is no command of {workload.name}")
        except (ValueError, LookupError) as error:
            lacks = isinstance(error, LookupError) or "unpack" in str(error)
            damage.append(damaged(file, line.number, f"`{line.command}` has other arguments" if lacks else str(error)))
    return operations


def _thread(operations: Operations, line: LogLine) -> Thread:
    if not 0 <= line.thread < FIRST_READERS:
        raise ValueError(f"thread {line.thread} of {FIRST_READERS} at most")
    server, role, partition = (*line.words, "", "", "")[:3]
    return Thread(operations, server, role, partition)


def _violations(file: str, lines: Sequence[LogLine]) -> list[Gap]:
    """What the workload itself complained about: it ends then, and does not log the record in question."""
    return [
        Gap(file=file, line=line.number, why=f"the workload itself ended with: {' '.join(line.words)}", kind=GapKind.SHORTENED)
        for line in lines
        if line.command == "violation"
    ]


def _faults(lines: Sequence[LogLine]) -> list[dict[str, Any]]:
    """A receipt for each fault, from `injecting` to `healed`; nobody measured it, and the log does not name it."""
    rows: list[dict[str, Any]] = []
    for line in (line for line in lines if line.command == "event" and line.words):
        word = line.words[0]
        if word == "injecting":
            rows.append(_receipt(len(rows), line.time))
        elif word == "injected" and rows:
            rows[-1]["injected_ns"] = line.time
        elif word == "healed" and rows:
            rows[-1]["healed_ns"] = line.time
    return rows


def _receipt(number: int, time: int) -> dict[str, Any]:
    blank: dict[str, Any] = {"role": "", "targets": [], "pairs": [], "evidence": "{}", "healing": "{}", "effective": None}
    return {"id": number, "kind": "fault", "planned_ns": time, "injected_ns": time, "healed_ns": 0, "note": "", **blank}
