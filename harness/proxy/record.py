"""The record of proxies as a table: one row per request, made of the lines about it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

WIRE = pa.schema(
    [
        ("node", pa.string()),
        ("connection", pa.int64()),
        ("number", pa.int64()),
        ("client", pa.string()),
        ("client_id", pa.string()),
        ("correlation", pa.int32()),
        ("api", pa.string()),
        ("version", pa.int16()),
        ("arrived_ns", pa.int64()),
        ("forwarded_ns", pa.int64()),
        ("answered_ns", pa.int64()),
        ("returned_ns", pa.int64()),
        ("copies", pa.int32()),
        ("transactional_id", pa.string()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("answer_producer_id", pa.int64()),
        ("answer_producer_epoch", pa.int16()),
        ("committed", pa.bool_()),
        ("group", pa.string()),
        ("error", pa.string()),
        ("partitions", pa.string()),
        ("answer_partitions", pa.string()),
        ("request", pa.string()),
        ("answer", pa.string()),
        ("rules", pa.list_(pa.string())),
        ("made_by_proxy", pa.bool_()),
        ("lost", pa.string()),
    ]
)
_OF_REQUEST = (
    "node", "connection", "client", "client_id", "correlation", "api", "version", "arrived_ns", "transactional_id",
    "producer_id", "producer_epoch", "committed", "group",
)  # fmt: skip


def read(directory: Path) -> pa.Table:
    """The requests in all files `*.jsonl` of a directory, in the order in which they arrived."""
    rows = [row for file in sorted(directory.glob("*.jsonl")) for row in rows_of(lines_of(file))]
    return pa.Table.from_pylist(sorted(rows, key=lambda row: row["arrived_ns"]), WIRE)


def lines_of(file: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file. The last one may be torn, by an end of the process while it was written: it is left out."""
    with open(file, "rb") as content:
        for line in content:
            if not line.endswith(b"\n"):
                return
            yield json.loads(line)


def rows_of(lines: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each request that lines are about."""
    rows: dict[int, dict[str, Any]] = {}
    for line in lines:
        if line["at"] == "request":
            rows[line["n"]] = _row(line)
        elif row := rows.get(line.get("n", -1)):
            _add(row, line)
    return list(rows.values())


def _row(line: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a request without its answer. One that is kept back was forwarded only if another line says so."""
    kept = line.get("kept", False)
    return {
        **dict.fromkeys(WIRE.names),
        **{key: line.get(key) for key in _OF_REQUEST},
        "number": line["n"],
        "forwarded_ns": None if kept else line["arrived_ns"],
        "copies": 0 if kept else 1,
        "partitions": json.dumps(line.get("partitions") or []),
        "answer_partitions": "[]",
        "request": _text(line.get("body")),
        "rules": list(line.get("rules", ())),
        "made_by_proxy": False,
    }


def _add(row: dict[str, Any], line: Mapping[str, Any]) -> None:
    match line["at"]:
        case "forwarded":
            row["forwarded_ns"] = row["forwarded_ns"] or line["forwarded_ns"]
            row["copies"] += 1
        case "answer" if "copy" not in line:
            _answer(row, line)
        case "returned":
            row["returned_ns"] = line["returned_ns"]
        case "lost":
            row["lost"] = line["why"]
            row["returned_ns"] = None


def _answer(row: dict[str, Any], line: Mapping[str, Any]) -> None:
    row.update({key: line.get(key) for key in ("answered_ns", "returned_ns", "error", "made_by_proxy")})
    row["answer_producer_id"] = line.get("producer_id")
    row["answer_producer_epoch"] = line.get("producer_epoch")
    row["answer_partitions"] = json.dumps(line.get("partitions") or [])
    row["answer"] = _text(line.get("body"))
    row["rules"] += [name for name in line.get("rules", ()) if name not in row["rules"]]


def _text(body: Any) -> str | None:
    return None if body is None else json.dumps(body)
