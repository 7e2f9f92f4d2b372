"""A run's directory as a run leaves it, small and lawful: plan, manifest, lines, receipts, logs; not merged, not judged."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from fencepost.checkers.model.lawful_history import write_lawful
from fencepost.harness.api.evidence import HistoryFile, Manifest
from fencepost.harness.api.run import RunFile
from fencepost.harness.api.values import HISTORY_VERSION
from fencepost.harness.history.manifest import counted
from fencepost.harness.history.run_directory import open_run, plan_checksum, write_manifest, write_plan
from support.written_once import written_once

ROLES = {"writer": "writer", "reader": "reader", "final": "final", "harness": "harness"}
FAULT = {"id": 0, "kind": "kill", "role": "leader", "targets": ["n1"], "pairs": [], "planned_ns": 5, "injected_ns": 9}


@written_once
def record_run(folder: Path, transactions: int = 15, **more: Any) -> Path:
    """Write the run into `folder`; returns it. more: as in `write_lawful`."""
    run = write_lawful(folder, transactions=transactions, partitions=2, processes=3, sends=2, **more).id
    rows = pq.read_table(folder / RunFile.HISTORY).to_pylist()
    (folder / RunFile.HISTORY).unlink()
    lines = folder / RunFile.LINES
    lines.mkdir()
    for process, mine in itertools.groupby(sorted(rows, key=lambda row: (row["process"], row["time"])), _process):
        name = "harness" if process < 0 else f"c{process}-0"
        (lines / f"{name}.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in lines_of_process(run, process, list(mine)))
        )
    receipts = [{**FAULT, "healed_ns": healed, "evidence": {"pid": 7}, "effective": True} for healed in (0, 19)]
    (lines / RunFile.FAULT_LINES).write_text("".join(json.dumps(line) + "\n" for line in receipts))
    (folder / RunFile.LOGS).mkdir()
    (folder / RunFile.LOGS / "harness.log").write_text("performed\n")
    schedule = [
        {"id": 0, "at_s": 0.1, "lasts_s": 0.2, "kind": "kill", "options": {"target": "leader"}, "lane": "main", "seed": 1}
    ]
    plan = {**open_run(folder).plan, "created": "2026-11-21T12:00:00Z", "schedule": schedule, "time_s": 1.0, "manifest": True}
    write_plan(folder, plan)
    attest(folder)
    return folder


def attest(folder: Path) -> None:
    """Write the manifest of the files that are there, as a run does at its end."""
    run = open_run(folder)
    files = [*run.roster, HistoryFile(RunFile.FAULT_LINES, role="faults")]
    slots = max(file.slot or 0 for file in files) + 1
    whole = tuple(counted(replace(file, run=None), (folder / RunFile.LINES / file.name).read_bytes()) for file in files)
    write_manifest(folder, Manifest(run=run.id, slots=slots, complete=True, files=whole, plan=plan_checksum(run.plan)))


def of_former_days(folder: Path) -> None:
    """Make it a run of a fencepost that wrote no manifest."""
    (folder / RunFile.MANIFEST).unlink()
    write_plan(folder, {key: value for key, value in open_run(folder).plan.items() if key != "manifest"})


def _process(row: Mapping[str, Any]) -> int:
    return int(row["process"])


def lines_of_process(run: str, process: int, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Lines that one worker wrote (docs/history.md)."""
    first = rows[0]
    begun = {"time": first["time"] - 2, "wall": 0}
    header = {"run": run, "slot": max(process, -1), "node": f"c{process}", "role": ROLES.get(first["role"], "reader"), "pid": 1}
    yield {"format": "fencepost-history", "version": HISTORY_VERSION, **header, **begun}
    of_process = {"isolation": first["isolation"], "final": first["final"], "transactional_id": first["transactional_id"]}
    yield {"type": "process", "process": process, "time": first["time"] - 1, **of_process}
    for op, row in enumerate(rows):
        shared = {"process": process, "op": op, "f": row["f"]}
        intent = {"intent": row["intent"]} if row["intent"] else {}
        value = json.loads(row["detail"]) if row["detail"] else list(_mops(row["mops"]))
        planned = None if row["detail"] else [mop[:3] if mop[0] == "send" else mop[:1] for mop in value]
        yield {"type": "invoke", **shared, "time": row["time"], "value": planned, **intent}
        if row["end"] is not None:
            decided = {"decided": row["decided"]} if row["decided"] is not None else {}
            yield {"type": row["type"], **shared, "time": row["end"], "value": value, "errors": [], **decided}


def _mops(mops: list[dict[str, Any]]) -> Iterator[list[Any]]:
    for (kind, ended), group in itertools.groupby(mops, key=lambda mop: (mop["kind"], mop["kind"] and mop["ended"])):
        if kind == 0:
            yield from (["send", mop["partition"], mop["v"], mop["offset"], mop["began"], mop["ended"]] for mop in group)
        else:
            got: dict[str, list[list[int]]] = {}
            for mop in group:
                got.setdefault(mop["partition"], []).append([mop["offset"], mop["v"]])
            yield ["poll", got, ended]
