"""A generated lawful history as a run directory whose lines are still to be merged, as workers leave them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq

from fencepost.checkers.model.lawful_history import write_lawful
from fencepost.harness.api.plans import Choice, Test
from fencepost.harness.api.values import HISTORY_VERSION
from fencepost.harness.planning.plan import make_plan

Row = dict[str, Any]


def write_run(folder: Path, transactions: int) -> int:
    """Write plan.json and history/*.jsonl of `transactions` in which nothing is wrong; how many operations there are."""
    write_lawful(folder, transactions=transactions)
    rows = pq.read_table(folder / "history.parquet").to_pylist()
    (folder / "history.parquet").unlink()
    _plan(folder)
    (folder / "history").mkdir()
    for process in sorted({row["process"] for row in rows}):
        lines = _lines([row for row in rows if row["process"] == process])
        encoded = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
        (folder / "history" / f"c{process}-0.jsonl").write_bytes(encoded)
    return len(rows)


def _plan(folder: Path) -> None:
    """A whole plan, with what the generator decided laid over it."""
    path = folder / "plan.json"
    decided = json.loads(path.read_text())
    test = Test(name="lawful", workload=Choice(kind="transactions"))
    path.write_text(json.dumps({**make_plan(test, run=decided["run"], seed=0, command=""), **decided}))


def _lines(rows: list[Row]) -> Iterator[Row]:
    """One process's file: header, process, and two lines for each operation."""
    first = rows[0]
    common = {"process": first["process"], "isolation": first["isolation"], "final": first["final"], "client": "lawful"}
    yield {"format": "fencepost-history", "version": HISTORY_VERSION, **{key: first[key] for key in ("slot", "node", "role")}}
    yield {"type": "process", **common, "transactional_id": first["transactional_id"]}
    for row in rows:
        name = {"process": row["process"], "op": row["op"], "f": row["f"]}
        value = json.loads(row["detail"]) if row["detail"] else _value(row["f"], row["mops"])
        planned = [mop[:3] if mop[0] == "send" else mop[:1] for mop in value] if isinstance(value, list) else {}
        yield {"type": "invoke", **name, "time": row["time"], "intent": row["intent"], "value": planned}
        yield {"type": row["type"], **name, "time": row["end"], "decided": row["decided"], "value": value, "errors": []}


def _value(f: str, mops: list[Row]) -> list[list[Any]]:
    """Micro-operations as a worker writes them; one poll for all records that were read."""
    if f == "txn":
        return [["send", *(mop[key] for key in ("partition", "v", "offset", "began", "ended"))] for mop in mops]
    got: dict[str, list[list[int]]] = {}
    for mop in mops:
        got.setdefault(mop["partition"], []).append([mop["offset"], mop["v"]])
    return [["poll", got, mops[0]["ended"] if mops else 0]]
