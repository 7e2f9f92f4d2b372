"""The files of a run's history that its workers would have written for some operations (docs/history.md)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fencepost.harness.api import record_ids
from fencepost.harness.api.evidence import HistoryFile, Manifest
from fencepost.harness.api.files import checksum
from fencepost.harness.api.history import STRUCTS
from fencepost.harness.api.run import RunFile
from fencepost.harness.api.values import HISTORY_VERSION
from fencepost.harness.history.manifest import counted
from fencepost.harness.history.run_directory import open_run, plan_checksum, write_manifest

Row = Mapping[str, Any]
_MOP = [field.name for field in STRUCTS["mop"]]
IDLE = {"time": 9, "role": "reader", "isolation": "read_committed", "final": False, "transactional_id": None}
_ENTRY = [field.name for field in STRUCTS["entry"]][1:]


def write_lines(folder: Path, run: str, ops: Sequence[Row]) -> None:
    """Write `history/*.jsonl` of operations: rows of the table, or of `support.histories`.

    A process is that of the slot of its number; final readers get the last slots, and a slot of which no operation tells had a
    worker that did nothing.
    """
    lines = folder / RunFile.LINES
    lines.mkdir()
    by_process = _by_process(_ended(_numbered(_with_last_slots(ops))))
    for process in range(min(by_process), max(by_process) + 1):
        name = "harness" if process < 0 else f"c{process}-0"
        content = _lines(run, process, by_process.get(process, []))
        (lines / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in content))


def attest(folder: Path) -> None:
    """Write the manifest of the files that are there, as a run does at its end."""
    run, stored = open_run(folder), folder / RunFile.STORED
    files = [*run.roster, HistoryFile(RunFile.FAULT_LINES, role="faults")]
    slots = max(file.slot or 0 for file in files) + 1
    whole = tuple(counted(replace(file, run=None), (folder / RunFile.LINES / file.name).read_bytes()) for file in files)
    tables = {stored.name: checksum(stored)} if stored.exists() else {}
    manifest = Manifest(run=run.id, slots=slots, complete=True, files=whole, plan=plan_checksum(run.plan), tables=tables)
    write_manifest(folder, manifest)


def _by_process(ops: Sequence[Row]) -> dict[int, list[Row]]:
    by_process: dict[int, list[Row]] = {}
    for op in sorted(ops, key=lambda op: op["time"]):
        by_process.setdefault(op["process"], []).append(op)
    return by_process


def _with_last_slots(ops: Sequence[Row]) -> list[Row]:
    """Operations whose final readers, who send nothing, come right behind the other processes, read_committed first."""
    finals = sorted({(op["isolation"] or "", op["process"]) for op in ops if op["final"]})
    first = 1 + max((op["process"] for op in ops if not op["final"]), default=-1)
    numbers = {process: first + at for at, (_, process) in enumerate(finals)}
    return [{**op, "process": numbers.get(op["process"], op["process"])} for op in ops]


def _ended(ops: Sequence[Row]) -> list[Row]:
    """Operations of which only the last one of a process has no completion: a worker goes on when it knows that one is over."""
    last = {op["process"]: op["op"] for op in ops}
    return [
        {**op, "type": "info", "end": op["time"] + 1} if op["end"] is None and op["op"] != last[op["process"]] else op
        for op in ops
    ]


def _numbered(ops: Sequence[Row]) -> list[Row]:
    """Operations with the numbers that a worker gives, 0, 1, 2, ... in each process, also in the identities of their records."""
    own, numbers = dict[tuple[int, int], int](), dict[int, Iterator[int]]()
    made = []
    for op in sorted(ops, key=lambda op: op["time"]):
        number = next(numbers.setdefault(op["process"], itertools.count()))
        own[int(record_ids.operation_key(op["process"], op["op"]))] = number
        made.append({**op, "op": number})
    return [_renamed(op, own) for op in made]


def _renamed(op: Row, own: Mapping[int, int]) -> Row:
    def name(v: int | None) -> int | None:
        if v is None or v < 0 or (number := own.get(int(record_ids.operation_key_of(v)))) is None:
            return v
        return int(record_ids.of(record_ids.process_of(v), number, record_ids.seq_of(v)))

    mops = [mop if isinstance(mop, Mapping) else dict(zip(_MOP, mop, strict=True)) for mop in op["mops"]]
    more = {column: [{**row, "v": name(row["v"])} for row in op.get(column) or ()] for column in ("chains", "outputs")}
    more["chains"] = [{**row, "output": name(row["output"])} for row in more["chains"]]
    return {**op, **more, "mops": [{**mop, "v": name(mop["v"])} for mop in mops]}


# --------------------------------------------------------------------------------------------------
# Lines
# --------------------------------------------------------------------------------------------------
def _lines(run: str, process: int, rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Lines that one worker wrote."""
    first = rows[0] if rows else IDLE
    begun = {"time": first["time"] - 2, "wall": 0}
    role, node = ("harness", "harness") if process < 0 else (first["role"], f"c{process}")
    header = {"run": run, "slot": process, "node": node, "role": role, "pid": 1}
    yield {"format": "fencepost-history", "version": HISTORY_VERSION, **header, **begun}
    of_process = {"isolation": first["isolation"], "final": first["final"], "transactional_id": first["transactional_id"]}
    yield {"type": "process", "process": process, "time": first["time"] - 1, **of_process}
    for row in rows:
        shared = {"process": process, "op": row["op"], "f": row["f"]}
        intent = {"intent": row["intent"]} if row["intent"] else {}
        detail = json.loads(row["detail"]) if row["detail"] else {}
        rebalances = {name: detail.pop(name) for name in ("rebalances",) if name in detail}
        value = detail if detail or (row["detail"] and not rebalances) else list(_value(row))
        planned = value if isinstance(value, dict) else [_planned(mop) for mop in value]
        yield {"type": "invoke", **shared, "time": row["time"], "value": planned, **intent}
        if row["end"] is not None:
            decided = {"decided": row["decided"]} if row["decided"] is not None else {}
            more = {**decided, **rebalances, "errors": row.get("errors") or []}
            yield {"type": row["type"], **shared, "time": row["end"], "value": value, **more}


def _planned(mop: list[Any]) -> list[Any]:
    """What an invocation says of a micro-operation: what was sent and processed, and not what came of it."""
    return mop[:3] if mop[0] == "send" else mop if mop[0] in ("input", "offset") else ["poll"]


def _value(row: Row) -> Iterator[list[Any]]:
    """The completion's micro-operations."""
    sends = {mop["v"]: ["send", *(mop[name] for name in _MOP[1:])] for mop in row["mops"] if mop["kind"] == 0}
    made = {chain["output"] for chain in row["chains"]}
    yield from (send for v, send in sends.items() if v not in made)
    for place, chains in itertools.groupby(row["chains"], key=lambda chain: (chain["partition"], chain["offset"], chain["v"])):
        yield ["input", *place]
        yield from (sends[chain["output"]] for chain in chains if chain["output"] is not None)
    yield from (["offset", each["partition"], each["offset"]] for each in row.get("offsets") or ())
    yield from _polled(row)
    if row["outputs"]:
        yield ["output", _got(row["outputs"], "v"), row["outputs"][0]["ended"], [*_strange(row)]]
    if row.get("counts"):
        yield ["count", _got(row["counts"], "count")]
    for partition, entries in itertools.groupby(row.get("entries") or (), key=lambda entry: entry["partition"]):
        yield ["entries", partition, [[entry[name] for name in _ENTRY] for entry in entries]]


def _polled(row: Row) -> Iterator[list[Any]]:
    polled = [mop for mop in row["mops"] if mop["kind"]]
    odd = [] if row["outputs"] else [*_strange(row)]
    if not polled and row["f"] == "poll":
        yield ["poll", {}, row["end"], odd]
    for ended, group in itertools.groupby(polled, key=lambda mop: mop["ended"]):
        yield ["poll", _got(list(group), "v"), ended, odd]
        odd = []


def _strange(row: Row) -> Iterator[Any]:
    yield from row.get("strange") or ()


def _got(rows: Sequence[Row], what: str) -> dict[str, list[list[int]]]:
    got: dict[str, list[list[int]]] = {}
    for row in rows:
        got.setdefault(row["partition"], []).append([row["offset"], row[what]])
    return got
