"""Histories written as tables, as in the docstrings of the checks (`checkers/anomalies/__init__.py` says how to read one).

Beside what docstrings need: `send a` is a record without acknowledgement, `send a@?` one acknowledged at an unknown offset,
`read a@?` one returned without an offset, `-x` a record of an operation that never began. Kinds: `txn`, `send` (outside
transactions), `poll`, `final read`, `initialise`, `settle`, each of the readers also with `uncommitted`, a final read also
with `short` (it ended before the end) and `to 6` (the end was at offset 6). A `txn` may read, `process a@5` (an input record),
commit `offset 6` of a group, and `send x@0 of a` (made of the input a); `group offsets` are those at the end, or `none`. To a
`list` coordinators answer `id Ongoing 6000 since 1` (the state of the one transactional id, its timeout and begin in ms), leaders
`open 7` (from that offset on). A reader
may get `output a@0` of a program (a record that names the input a; `?@0` names none; `a@0=1` says that one input
of its key was counted); `drain 1 1 ordered` is what the program
declares, and that it had caught up. A reader, or a `read log` of the harness, may get `record a:3@5/7` (position 3 of source a,
written by producer 7), `stored a:3@5/7` (an offset), `counted 1:3@5/7` (of a changelog: 3 inputs of the key
that those of process 1 in in-0 share), a marker `COMMIT@6/7`; without a producer none is known. `read store standby 4` of the
harness is a copy that has its changelog up to offset 4, and the rows of it. Outcomes:
`committed`, `aborted`, `unknown`, for a transaction also `unasked` (unknown, commit was never called) and `failed` (whose commit
was called).

An outcome may go on with an error of the operation, as in `unknown: commit _FENCED fatal`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from fencepost.harness.api import record_id
from support.histories import COMMITTED, UNCOMMITTED

MS = 1_000_000
OUTCOMES = {"": "ok", "committed": "ok", "acknowledged": "ok", "aborted": "fail", "failed": "fail"}
KINDS = {"txn": ("txn", "writer"), "send": ("send", "writer"), "poll": ("poll", "reader"), "final read": ("poll", "final")}
KINDS["initialise"] = ("initialise", "writer")  # where there is one, all writers have one transactional id
UNSENT = 19  # the process of records that no row sends
END = 100  # offset at which final reads end


class HistoryTable:
    """The operations of a table, in partitions, processes and a time of its own.

    v: the identity of each record by its name.
    settled: partition -> the two offsets that `settle` saw.
    """

    def __init__(self, lines: Sequence[str], topic: str = "t", base: int = 0, start: int = 1_000 * MS) -> None:
        self.topic, self.base, self.start = topic, base, start
        self.ops: list[dict[str, Any]] = []
        self.v: dict[str, int] = {}
        self.settled: dict[str, list[int]] = {}
        self._made_of: dict[str, list[str]] = {}  # input -> outputs
        self._next_op: dict[int, int] = {}
        head, *rows = [re.split(r"\s{2,}", line.strip()) for line in lines]
        self.partitions = head[3:-1]
        for row in rows:
            self._operation(*(row + [""] * (len(head) - len(row))))
        if any(op["f"] in ("initialise", "list-transactions") for op in self.ops):
            for op in self.ops:
                op["transactional_id"] = self.topic if op["role"] == "writer" else None
        for op in self.ops:
            op["mops"] = [mop if mop[0] == 0 else self._named(*mop) for mop in op["mops"]]
            op["chains"] = [chain for row in op["chains"] for chain in self._chains(op, row)]
            op["outputs"] = [{**row, "v": self._named(1, "", row["v"])[2] if row["v"] != "?" else -1} for row in op["outputs"]]

    def _operation(self, ms: str, who: str, kind: str, *cells: str) -> None:
        begin, end = (int(at) if at else None for at in ms.split("-"))
        assert begin is not None
        if kind == "settle":
            offsets = [[int(offset) for offset in re.findall(r"-?\d+", cell)] for cell in cells[:-1]]
            settled = {self._own(partition): pair for partition, pair in zip(self.partitions, offsets, strict=True) if pair}
            self.settled.update(settled)
            return
        if kind == "group offsets":
            self._group_offsets(begin, end, dict(zip(self.partitions, cells, strict=False)))
            return
        if kind == "list":
            self._listing(begin, end, dict(zip(self.partitions, cells, strict=False)))
            return
        if kind == "read log":
            row = self._row(0, "read-log", "harness", "", begin, end) | {"process": -1, "slot": -1, "isolation": None}
            for partition, cell in zip(self.partitions, cells, strict=False):
                self._entries(row, self._own(partition), cell)
            self.ops.append(row)
            return
        if kind.startswith("read store"):
            self._store(begin, end, *kind.split()[2:], cells)
            return
        if kind.startswith("drain"):
            self._drain(begin, end, kind.split(), [self._own(name) for name in self.partitions if name.startswith("out")])
            return
        process = self.base + int(who)
        if kind == "committed":  # a member fetches the group's offsets
            self._fetched_offsets(process, begin, end, dict(zip(self.partitions, cells, strict=False)))
            return
        level = UNCOMMITTED if "uncommitted" in kind else COMMITTED
        short, at = "short" in kind, re.search(r" to (\d+)", kind)
        kind = re.sub(r" uncommitted| short| to \d+", "", kind)
        op = self._row(process, *KINDS[kind], cells[-1], begin, end) | {"isolation": level}
        for partition, cell in zip(self.partitions, cells[:-1], strict=True):
            self._records(op, self._own(partition), cell)
            self._entries(op, self._own(partition), cell)
        self.ops.append(op)
        if kind == "final read":
            last = int(at[1]) if at else END
            spans = {self._own(partition): [0, last, last - short] for partition in self.partitions}
            row = {"op": op["op"] + 1, "f": "final-read", "time": op["end"], "detail": json.dumps(spans), "mops": []}
            self._next_op[process] += 1
            self.ops.append({**op, **row})

    def _row(self, process: int, f: str, role: str, outcome: str, begin: int, end: int | None) -> dict[str, Any]:
        number = self._next_op[process] = self._next_op.get(process, -1) + 1
        outcome, _, error = outcome.partition(": ")
        type = OUTCOMES.get(outcome, "info")
        start, over = self.start + begin * MS, None if end is None else self.start + end * MS
        called = f == "txn" and outcome not in ("aborted", "unasked")
        op = {"process": process, "slot": process, "op": number, "node": "c0", "role": role, "f": f, "final": role == "final"}
        op |= {"transactional_id": None, "intent": ("commit" if called else "abort") if f == "txn" else None, "type": type}
        op |= {"time": start, "end": over, "decided": over if called else None}
        op["errors"] = [_error(error, over)] if error else []
        return {
            **op,
            "strange": [],
            "detail": None,
            "mops": [],
            "chains": [],
            "offsets": [],
            "outputs": [],
            "counts": [],
            "entries": [],
        }

    def _drain(self, begin: int, end: int | None, words: list[str], partitions: list[str]) -> None:
        detail = {"group": "", "outputs": [int(words[1]), int(words[2])], "output_partitions": partitions}
        detail |= {"ordered": "ordered" in words, "counts": "counts" in words, "drained": True, "waited_s": 1.0}
        row = self._row(0, "drain", "harness", "", begin, end) | {"process": -1, "slot": -1, "isolation": None}
        self.ops.append({**row, "detail": json.dumps(detail)})

    def _group_offsets(self, begin: int, end: int | None, cells: dict[str, str]) -> None:
        offsets = {
            self._own(partition): int(cell) if cell.isdigit() else None
            for partition, cell in cells.items()
            if cell.isdigit() or cell == "none"
        }
        row = self._row(0, "group-offsets", "harness", "", begin, end) | {"process": -1, "slot": -1, "isolation": None}
        self.ops.append({**row, "detail": json.dumps({"group": self.topic, "offsets": offsets})})

    def _listing(self, begin: int, end: int | None, cells: dict[str, str]) -> None:
        producer, transactions, opened = {"producer_id": self.base, "epoch": 0}, [], []
        for partition, cell in cells.items():
            if known := re.search(r"id (\w+) (\d+) since (\d+)", cell):
                state = {"state": known[1], "timeout_ms": int(known[2]), "started_ms": int(known[3])}
                transactions.append({**producer, "transactional_id": self.topic, **state, "partitions": [self._own(partition)]})
            opened += [
                {**producer, "partition": self._own(partition), "offset": int(at)} for at in re.findall(r"open (\d+)", cell)
            ]
        detail = {"transactions": transactions, "open": opened, "silent": [], "quiet_s": begin / 1000}
        row = self._row(0, "list-transactions", "harness", "", begin, end) | {"process": -1, "slot": -1, "isolation": None}
        self.ops.append({**row, "detail": json.dumps(detail)})

    def _fetched_offsets(self, process: int, begin: int, end: int | None, cells: dict[str, str]) -> None:
        offsets = {self._own(partition): int(cell) for partition, cell in cells.items() if cell.isdigit()}
        row = self._row(process, "committed", "member", "", begin, end) | {"isolation": COMMITTED}
        self.ops.append({**row, "detail": json.dumps({"offsets": offsets})})

    def _store(self, begin: int, end: int | None, role: str, position: str, cells: Sequence[str]) -> None:
        """A copy of the store whose changelog is the column with its rows, in the instance c2."""
        row = self._row(0, "read-store", "harness", "", begin, end) | {"process": -1, "slot": -1, "isolation": None}
        ((changelog, cell),) = [(name, cell) for name, cell in zip(self.partitions, cells, strict=False) if cell not in ("", "-")]
        partition = f"c2:{self._own(changelog)}"
        about = {"partition": partition, "offset": 0, "kind": role, "name": "counts", "number": int(position)}
        row["entries"].append(about | dict.fromkeys(("timestamp", "producer_id", "producer_epoch", "transactional")))
        self._entries(row, partition, cell)
        self.ops.append(row)

    def _chains(self, op: dict[str, Any], row: dict[str, Any]) -> list[dict[str, Any]]:
        """A row for each record that the operation made of an input."""
        outputs = [self.v[name] for name in self._made_of.get(row["v"], []) if self.v[name] in {mop[2] for mop in op["mops"]}]
        return [{**row, "v": self.v[row["v"]], "output": output} for output in outputs or [None]]

    def _own(self, partition: str) -> str:
        topic, _, number = partition.rpartition("-")
        return f"{self.topic}-{number}" if topic == "t" else f"{self.topic}-{topic}-{number}"

    def _entries(self, op: dict[str, Any], partition: str, cell: str) -> None:
        """`record a:3@5/7`, `stored a:3@6/7`, `counted 1:3@6/7` and `COMMIT@7/7` in the order of the words."""
        words = re.findall(r"(?:(record|stored|counted) )?(\w+)(?::(-?\d+))?@(\d+)(?:/(\d+))?", cell)
        kind, kinds = "", {"record": "record", "stored": "offset", "counted": "counted"}
        for verb, name, number, offset, producer in words if re.search("record|stored|counted|COMMIT|ABORT", cell) else ():
            kind = kinds.get(verb, kind)
            marker = name in ("COMMIT", "ABORT")
            name = f"{self._own('in-0')}/{self.base + int(name)}/0" if kind == "counted" and not marker else name
            row = {"partition": partition, "offset": int(offset), "timestamp": 0, "number": -1 if marker else int(number)}
            row |= {"kind": name if marker else kind, "name": "" if marker else name, "producer_epoch": 0 if producer else None}
            op["entries"].append(
                row | {"producer_id": int(producer) if producer else None, "transactional": bool(producer) or None}
            )

    def _records(self, op: dict[str, Any], partition: str, cell: str) -> None:
        """`send a@5, b` and `read a@5, c@6` in the order of the words."""
        verb = last = ""
        for word in cell.replace(",", "").split():
            if word in ("record", "stored", "counted"):  # what follows are entries
                return
            if word in ("send", "read", "process", "offset", "of", "output"):
                verb = word
            elif verb == "of":
                self._made_of.setdefault(word, []).append(last)
                verb = "send"
            elif verb == "offset":
                op["offsets"].append({"partition": partition, "offset": int(word)})
            elif verb == "output" and word != "-":
                name, _, at = word.partition("@")
                at, _, count = at.partition("=")
                op["outputs"].append({"partition": partition, "offset": int(at), "v": name, "ended": op["end"]})
                if count:
                    op["counts"].append({"partition": partition, "offset": int(at), "count": int(count)})
            elif verb == "process":
                name, _, at = word.partition("@")
                op["chains"].append({"partition": partition, "offset": int(at), "v": name})
            elif word != "-":
                last = word.partition("@")[0]
                name, at, offset = word.partition("@")
                place = int(offset) if offset.lstrip("-").isdigit() else None
                self._record(op, partition, verb, name, place, bool(at))

    def _record(self, op: dict[str, Any], partition: str, verb: str, name: str, offset: int | None, acknowledged: bool) -> None:
        if verb == "send":
            begun, name = not name.startswith("-"), name.removeprefix("-")
            v = self.v[name] = record_id(op["process"], op["op"], len(op["mops"]))
            began = op["time"] + 10 * (1 + len(op["mops"]))
            op["mops"].append((0, partition, v, offset, began if begun else None, began + 5 if acknowledged else None))
        else:
            op["mops"].append((1, partition, name, offset, None, op["end"]))

    def _named(self, kind: int, partition: str, name: str, *rest: Any) -> tuple[Any, ...]:
        """A read with the identity of its record, which a later row may have sent, or none."""
        v = self.v.setdefault(name, record_id(self.base + UNSENT, len(self.v), 0))
        return kind, partition, v, *rest


def _error(text: str, time: int | None) -> dict[str, Any]:
    """`commit _FENCED fatal`: what a call raised, and its class."""
    call, name, flag = text.split()
    flags = {kind: kind == flag for kind in ("fatal", "retriable", "abortable")}
    return {"call": call, "name": name, "code": 0, "text": "", "time": time, **flags}


def with_settling(ops: Sequence[dict[str, Any]], settled: dict[str, list[int]]) -> list[dict[str, Any]]:
    """Operations in the order of time, and the harness' last look at some partitions (without any: none)."""
    ops = sorted(ops, key=lambda op: op["time"])
    if not settled:
        return ops
    op = {"process": -1, "slot": -1, "op": 0, "node": None, "role": "harness", "f": "settle", "final": False, "isolation": None}
    op |= {"type": "info", "time": ops[-1]["time"] + MS, "end": ops[-1]["time"] + 2 * MS, "decided": None, "mops": []}
    op |= {"transactional_id": None, "intent": None, "errors": [], "strange": []}
    return [*ops, {**op, "detail": json.dumps({"partitions": settled, "bound_s": 30})}]
