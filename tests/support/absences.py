"""Small lawful histories as somebody else might have written them, each without one thing after the other."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from fencepost.harness.history.merge import OPS_SCHEMA
from support.histories import History
from support.recorded_run import lines_of_process

Lines = list[dict[str, Any]]
Rows = list[dict[str, Any]]
_MOP = ("kind", "partition", "v", "offset", "began", "ended")


# --------------------------------------------------------------------------------------------------
# Lawful histories
# --------------------------------------------------------------------------------------------------
def transactions() -> Rows:
    """Committed, aborted and undecided transactions, a reader, final readers at both levels."""
    h = History()
    h.txn(0, {"t-0": [0, 1], "t-1": [0]})
    h.txn(1, {"t-0": 3, "t-1": [2]}, type="fail", intent="abort")
    h.poll(5, {"t-0": [0, 1], "t-1": [0]})
    h.txn(0, {"t-0": [5], "t-1": [4]}, type="info")
    h.txn(1, {"t-0": [7], "t-1": [6]})
    h.poll(5, {"t-0": [5, 7], "t-1": [4, 6]})
    h.settle({"t-0": (9, 9), "t-1": (8, 8)})
    h.final({"t-0": [0, 1, 5, 7], "t-1": [0, 4, 6]}, {"t-0": [0, 1, 3, 5, 7], "t-1": [0, 2, 4, 6]}, end=8, position=9)
    return rows_of(h)


def sends() -> Rows:
    """Sends outside transactions, acknowledged and not, a reader, final readers."""
    h = History()
    h.send(0, {"t-0": [0, 1], "t-1": [0]})
    h.send(1, {"t-0": [2], "t-1": [1]})
    h.poll(5, {"t-0": [0, 1, 2], "t-1": [0, 1]})
    h.send(0, {"t-0": [3]}, type="info")
    h.send(1, {"t-1": None}, type="fail")
    h.poll(5, {"t-0": [3]})
    h.settle({"t-0": (4, 4), "t-1": (2, 2)})
    h.final({"t-0": [0, 1, 2, 3], "t-1": [0, 1]}, end=2, position=4)
    return rows_of(h)


def without_final_phase() -> Rows:
    """Transactions and two readers of the main phase."""
    h = History()
    h.txn(0, {"t-0": [0, 1]})
    h.txn(1, {"t-0": 3}, type="fail", intent="abort")
    h.poll(5, {"t-0": [0, 1]})
    h.poll(6, {"t-0": [0, 1]})
    h.txn(0, {"t-0": 5}, type="info")
    h.poll(6, {"t-0": [5]})
    h.txn(1, {"t-0": 7})
    h.poll(5, {"t-0": [5, 7]})
    h.poll(6, {"t-0": [7]})
    return rows_of(h)


def pipeline() -> Rows:
    """Members of a group that process records in transactions, and the group's offsets at the end."""
    h = History()
    h.txn(0, {"in-0": [0, 2], "in-1": [0]})
    for member in (2, 3):
        h.add(member, "subscribe", role="member", detail=json.dumps({"topics": ["in"]}))
    for member, partition, offset, place, fresh in ((2, "in-0", 0, 0, True), (3, "in-1", 0, 2, True), (2, "in-0", 2, 4, False)):
        op = h.ops[h.txn(member, {"out-0": [place]}, role="member")]
        ((_, _, output, *_),), v = op["mops"], h.v(partition, offset)
        op["mops"].insert(0, (1, partition, v, offset, None, op["time"] + 1))
        op["chains"] = [{"partition": partition, "offset": offset, "v": v, "output": output}]
        op["offsets"] = [{"partition": partition, "offset": offset + 1}]
        op["detail"] = json.dumps({"rebalances": [["assigned", [partition]]]}) if fresh else None
    h.settle({"in-0": (4, 4), "in-1": (2, 2), "out-0": (6, 6)})
    h.final({"in-0": [0, 2], "in-1": [0], "out-0": [0, 2, 4]}, end=2, position=6)
    h.add(
        -1, "group-offsets", isolation=None, role="harness", detail=json.dumps({"group": "g", "offsets": {"in-0": 3, "in-1": 1}})
    )
    return rows_of(h)


HISTORIES: tuple[Callable[[], Rows], ...] = (transactions, sends, without_final_phase)


def rows_of(h: History) -> Rows:
    blank = dict.fromkeys(OPS_SCHEMA.names)
    return [{**blank, **op, "mops": [dict(zip(_MOP, mop, strict=True)) for mop in op["mops"]]} for op in h.ops]


def as_lines(rows: Rows) -> Lines:
    """One file of all processes, one after the other."""
    by_process = itertools.groupby(sorted(rows, key=lambda row: (row["process"], row["time"])), lambda row: row["process"])
    return [line for process, mine in by_process for line in lines_of_process("x", process, list(mine))]


def as_text(lines: Sequence[Any]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


# --------------------------------------------------------------------------------------------------
# Without something
# --------------------------------------------------------------------------------------------------
def lines_without(lines: Lines) -> Iterator[tuple[str, Lines]]:
    """The lines without each line, each kind of line, each key, each micro-operation and each of its elements; in words what."""
    yield from _whole_lines(lines)
    yield from _keys(lines)
    for at, line in enumerate(lines):
        yield from _values(lines, at, line)


def _whole_lines(lines: Lines) -> Iterator[tuple[str, Lines]]:
    for at, line in enumerate(lines):
        where = f"line {at + 1} ({line.get('type')} {line.get('f')})"
        yield where, lines[:at] + lines[at + 1 :]
        yield f"all behind {where}", lines[: at + 1]
        yield f"{where} twice", lines[: at + 1] + lines[at:]
        if line.get("type") == "invoke" and "op" in line:
            operation = (line["process"], line["op"])
            yield f"operation of {where}", [other for other in lines if (other.get("process"), other.get("op")) != operation]
    for kind in sorted({(line.get("type"), line.get("f")) for line in lines}, key=str):
        yield f"lines {kind}", [line for line in lines if (line.get("type"), line.get("f")) != kind]
    for process in sorted({line["process"] for line in lines if "process" in line}):
        yield f"process {process}", [line for line in lines if line.get("process") != process]
        yield f"all but process {process}", [line for line in lines if line.get("process") in (process, None)]
    yield "order", lines[::-1]


def _keys(lines: Lines) -> Iterator[tuple[str, Lines]]:
    for key in sorted({key for line in lines for key in line}):
        yield f"key {key}", [_less(line, key) for line in lines]
        for at, line in enumerate(lines):
            if key in line:
                yield f"key {key} of line {at + 1} ({line.get('type')} {line.get('f')})", _with(lines, at, _less(line, key))
                yield f"value of {key} of line {at + 1}", _with(lines, at, {**line, key: None})


def _values(lines: Lines, at: int, line: dict[str, Any]) -> Iterator[tuple[str, Lines]]:
    value = line.get("value")
    if isinstance(value, dict):
        for key in value:
            yield f"{key} in line {at + 1}", _with(lines, at, {**line, "value": _less(value, key)})
            yield f"value of {key} in line {at + 1}", _with(lines, at, {**line, "value": {**value, key: None}})
        return
    for place, mop in enumerate(value if isinstance(value, list) else ()):
        if not isinstance(mop, list):
            continue  # a partition that is assigned
        where = f"micro-operation {place} of line {at + 1} ({line['type']} {line['f']})"
        others = [
            (where, []),
            *((f"element {element} of {where}", [mop[:element]]) for element in range(1 + len(mop[:1]), len(mop))),
        ]
        others += [
            (f"value {element} of {where}", [[*mop[:element], None, *mop[element + 1 :]]]) for element in range(1, len(mop))
        ]
        for what, instead in others:
            yield what, _with(lines, at, {**line, "value": [*value[:place], *copy.deepcopy(instead), *value[place + 1 :]]})


def _less(mapping: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name != key}


def _with(lines: Lines, at: int, line: dict[str, Any]) -> Lines:
    return [*lines[:at], line, *lines[at + 1 :]]


def tables_without(rows: Rows) -> Iterator[tuple[str, pa.Table]]:
    """A table of the rows without each column, row, kind of row and value; in words what."""
    whole = pa.Table.from_pylist(rows, schema=OPS_SCHEMA)
    for name in OPS_SCHEMA.names:
        yield f"column {name}", whole.drop_columns([name])
        at = OPS_SCHEMA.get_field_index(name)
        yield f"values of {name}", whole.set_column(at, OPS_SCHEMA.field(name), pa.nulls(len(rows), OPS_SCHEMA.field(name).type))
        if name in ("f", "role", "isolation", "type", "process", "final"):
            for value in {row[name] for row in rows}:
                yield f"rows of {name} {value}", _table([row for row in rows if row[name] != value])
                yield f"rows but those of {name} {value}", _table([row for row in rows if row[name] == value])
    for at, row in enumerate(rows):
        yield f"row {at} ({row['f']})", _table([*rows[:at], *rows[at + 1 :]])
        for name, value in row.items():
            if value not in (None, []):
                yield f"{name} of row {at} ({row['f']})", _table([*rows[:at], {**row, name: None}, *rows[at + 1 :]])
    for name in _MOP:
        for kinds in ((0,), (1,), (0, 1)):
            mops = ([{**mop, name: None} if mop["kind"] in kinds else mop for mop in row["mops"]] for row in rows)
            yield f"{name} of kinds {kinds}", _table([{**row, "mops": less} for row, less in zip(rows, mops, strict=True)])


def _table(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=OPS_SCHEMA)


# --------------------------------------------------------------------------------------------------
# Jepsen's
# --------------------------------------------------------------------------------------------------
def jepsen_lines() -> Lines:
    """Jepsen's JSON lines of a lawful history: assigned consumers, transactions of each outcome, a crash."""

    def send(key: int, value: int) -> list[Any]:
        return ["send", key, value]

    operations: tuple[tuple[int, str, Any, Any, str], ...] = (
        (0, "assign", [5, 6], [5, 6], "ok"),
        (1, "assign", [5, 6], [5, 6], "ok"),
        (0, "txn", [send(5, 1), send(6, 1)], [["send", 5, [0, 1]], ["send", 6, [0, 1]]], "ok"),
        (1, "txn", [["poll"], send(5, 2)], [["poll", {"5": [[0, 1]], "6": [[0, 1]]}], ["send", 5, [2, 2]]], "ok"),
        (0, "txn", [send(5, 3)], [["send", 5, [4, 3]]], "info"),
        (0, "crash", None, None, "info"),
        (2, "assign", [5, 6], [5, 6], "ok"),
        (2, "txn", [send(6, 4), send(6, 5)], [["send", 6, [2, 4]], ["send", 6, [3, 5]]], "fail"),
        (2, "txn", [send(6, 6), ["poll"]], [["send", 6, [5, 6]], ["poll", {}]], "ok"),
        (1, "poll", [["poll"]], [["poll", {"5": [[2, 2], [4, 3]], "6": [[5, 6]]}]], "ok"),
        (2, "poll", [["poll"]], [["poll", {"5": [[0, 1], [2, 2], [4, 3]], "6": [[0, 1], [5, 6]]}]], "ok"),
    )
    lines: Lines = []
    for process, f, planned, done, type_ in operations:
        lines += [{"type": "invoke", "f": f, "value": planned, "process": process}]
        lines += [{"type": type_, "f": f, "value": done, "process": process}]
    return [{"index": index, "time": 10 * index + 10, **line} for index, line in enumerate(lines)]
