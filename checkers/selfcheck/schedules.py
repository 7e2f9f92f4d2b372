"""Short histories, each with a cycle or another anomaly in it: a line, carried out step by step, and put before a history.

A line is a sequence of steps, a millisecond apart::

    A1+0      operation 1 of process A sends a record to partition 0
    A1<0@2    it polls record number 2 of partition 0
    A1!       it calls commit
    A1.       it ends ok (and has called commit right before, if it had not)
    A1~       its commit is refused, as that of a fenced producer, by an error that the client calls retriable; it ends
    A1*       it initialises a transactional id, which is then that of every process of the schedule

An operation begins right before its first step; the second one of a process at the very moment at which the first one ended,
which orders them in their process and not in real time. What sends is a transaction, the rest polls. At the end two readers, one
at each isolation level, read everything in one poll, so that nothing follows from them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa

from fencepost.checkers.graph.examples import EXAMPLES
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.history_rows import HistoryRows, rows_of
from fencepost.checkers.model.planted import DamagedHistory, PlantedDamage
from fencepost.checkers.model.values import NONE
from fencepost.checkers.selfcheck.prefix_history import free_process, free_topic, prepend
from fencepost.harness.api import record_id

TICK = 1_000_000  # ns from step to step
STEP = re.compile(r"(?P<process>[A-Z])(?P<number>\d*)(?P<what>[+<!.*~])(?P<partition>\d*)(?:@(?P<record>\d+))?")
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"

# What is shown -> how it comes about, and in words.
SCHEDULES = {
    **EXAMPLES,
    "int-send-skip": ("A+0 B+0 A+0 A. B.", "B's record lies between two of A's"),
    "lso-overrun": ("A+0 B+0 B. R<0@1 R. A.", "R polls B's record, which lies above A's, before A calls commit"),
    "zombie-commit": ("A1* A2+0 B1* A2! A2.", "A commits after B has initialised the same transactional id"),
    "wrong-error": ("A1* A2+0 B1* A2~ B2+0 B2.", "A's commit is refused by a retriable error, after B has taken over its id"),
    "zombie-write": ("A1* B1* A2+0 A2! A2.", "A sends and commits after B has initialised the same transactional id"),
}


@dataclass
class _Operation:
    """One operation while a schedule is carried out; times in ns, `NONE` where it has not come to that."""

    process: int
    number: int
    begin: int
    mops: list[dict[str, Any]] = field(default_factory=list)
    decided: int = NONE
    end: int = NONE
    overrides: dict[str, Any] = field(default_factory=dict)

    @property
    def sends(self) -> bool:
        return any(mop["kind"] == 0 for mop in self.mops)

    def row(self) -> dict[str, Any]:
        """The operation in the words of a history."""
        f = (
            {"f": "txn", "role": "writer", "intent": "commit", "decided": self.decided}
            if self.sends
            else {"f": "poll", "role": "reader"}
        )
        who = {"process": self.process, "slot": self.process, "op": self.number, "node": "c0", "isolation": COMMITTED}
        return {**who, "final": False, "type": "ok", "time": self.begin, "end": self.end, **f, **self.overrides}


@dataclass
class ScheduledHistory:
    """A schedule carried out: its operations in the order in which they began, and the records of each partition by offset."""

    process: int
    topic: str
    operations: dict[str, _Operation] = field(default_factory=dict)
    logs: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # partition -> (offset, record)
    ends: dict[str, int] = field(default_factory=dict)  # partition -> the next offset
    operations_of: dict[str, list[_Operation]] = field(default_factory=dict)  # letter -> operations of the process
    aborted: set[int] = field(default_factory=set)  # records

    def step(self, text: str, now: int) -> None:
        """One step of a schedule, at a time."""
        match = STEP.fullmatch(text)
        assert match, f"{text} is no step of a schedule"
        mine = self.operations_of.setdefault(match["process"], [])
        name = match["process"] + match["number"]
        if name not in self.operations:
            begin = mine[-1].end if mine else now - TICK // 2
            who = mine[-1].process if mine else self.process + len(self.operations_of) - 1
            mine.append(_Operation(who, len(mine), begin))
            self.operations[name] = mine[-1]
        operation, partition = self.operations[name], f"{self.topic}-{match['partition']}"
        match match["what"]:
            case "+":
                self._send(operation, partition, now)
            case "<":
                offset, v = self.logs[partition][int(match["record"])]
                operation.mops.append({"kind": 1, "partition": partition, "v": v, "offset": offset, "began": NONE, "ended": now})
            case "!":
                operation.decided = now
            case "~":
                self._refuse(operation, now)
            case "*":
                operation.end, operation.overrides = now, {"f": "initialise", "role": "writer"}
            case _:
                self._end(operation, now)

    def _send(self, operation: _Operation, partition: str, now: int) -> None:
        v, offset = record_id(operation.process, operation.number, len(operation.mops)), self.ends.get(partition, 0)
        mop = {"kind": 0, "partition": partition, "v": v, "offset": offset, "began": now, "ended": now + TICK // 4}
        operation.mops.append(mop)
        self.logs.setdefault(partition, []).append((offset, v))
        self.ends[partition] = offset + 1

    def _refuse(self, operation: _Operation, now: int) -> None:
        """The commit of a fenced producer; its records are aborted."""
        flags = {"fatal": False, "retriable": True, "abortable": False}
        error = {"call": "commit", "name": "PRODUCER_FENCED", "code": 90, "text": "refused", "time": now, **flags}
        operation.decided, operation.end = now - TICK // 4, now
        operation.overrides = {"type": "info", "errors": [error]}
        self.aborted |= {mop["v"] for mop in operation.mops}

    def _end(self, operation: _Operation, now: int) -> None:
        """Commit; every partition that it wrote to gets a marker. A poll returns all that it got at its end."""
        operation.end = now
        if operation.decided == NONE and operation.sends:
            operation.decided = now - TICK // 4
        for partition in {mop["partition"] for mop in operation.mops if mop["kind"] == 0}:
            self.ends[partition] += 1
        for mop in operation.mops if not operation.sends else ():
            mop["ended"] = now

    def answer(self, number: int, begin: int, end: int, value: Mapping[str, Any]) -> None:
        """Add the answer of coordinators and leaders, with the number of the harness's operation."""
        mine = {"process": NONE, "slot": NONE, "node": "harness", "isolation": None, "role": "harness"}
        overrides = {**mine, "f": "list-transactions", "detail": json.dumps(value)}
        self.operations[f"answer {number}"] = _Operation(NONE, number, begin, end=end, overrides=overrides)

    def read_back(self, now: int) -> None:
        """Two final readers, one after the other; each gets everything in one poll."""
        for reader, level in (("F", COMMITTED), ("G", UNCOMMITTED)):
            ends = json.dumps({partition: [0, end, end] for partition, end in sorted(self.ends.items())})
            hidden = self.aborted if level == COMMITTED else set()
            steps = [
                f"{reader}1<{partition.rpartition('-')[2]}@{n}"
                for partition, log in self.logs.items()
                for n, (_, v) in enumerate(log)
                if v not in hidden
            ]
            for text in [*steps, f"{reader}1.", f"{reader}2."]:
                self.step(text, now := now + TICK)
            final = {"final": True, "role": "final", "isolation": level}
            self.operations[f"{reader}1"].overrides = final
            self.operations[f"{reader}2"].overrides = {**final, "f": "final-read", "detail": ends}

    def rows(self, like: pa.Schema) -> HistoryRows:
        """The schedule as a history with these columns."""
        operations = sorted(
            self.operations.values(), key=lambda operation: (operation.begin, operation.process, operation.number)
        )
        contested = any(operation.overrides.get("f") == "initialise" for operation in operations)
        ident = {"transactional_id": self.topic if contested else None}
        made = [{name: _known(name, value) for name, value in {**operation.row(), **ident}.items()} for operation in operations]
        table = pa.Table.from_pylist([{**row, "index": at} for at, row in enumerate(made)], schema=like)
        mops = pd.DataFrame([{"op": at, **mop} for at, operation in enumerate(operations) for mop in operation.mops])
        return rows_of(table, mops.assign(at=[float(at) for at in range(len(mops))]))


def _known(name: str, value: Any) -> Any:
    """A value of a column; None where it is not known."""
    return None if value == NONE and name not in ("process", "slot") else value


def scheduled_history(schedule: str, beside: HistoryRows) -> ScheduledHistory:
    """A schedule step by step, with processes and partitions that another history does not use."""
    carried = ScheduledHistory(free_process(beside), free_topic(beside))
    steps = schedule.split()
    for number, text in enumerate(steps, 1):
        carried.step(text, number * TICK)
    carried.read_back((len(steps) + 1) * TICK)
    return carried


@dataclass(frozen=True)
class Schedule:
    """Plants a schedule before a history. It is the same whatever the draw; only what comes after it differs."""

    name: str

    def __call__(self, rows: HistoryRows, rng: Random) -> DamagedHistory:
        steps, words = SCHEDULES[self.name]
        carried = scheduled_history(steps, rows)
        made = carried.rows(rows.table.schema)
        records = frozenset(v for log in carried.logs.values() for _, v in log)
        what = f"before the history, in partitions of their own: {words} ({steps})"
        return DamagedHistory(prepend(made, rows), what, records, frozenset(carried.logs), own_partitions=True)


def scheduled(name: str, accompanying: tuple[str, ...] = (), cycle: str = "") -> PlantedDamage:
    """The damage that puts the schedule `name` before a history, and must be found as what it is named after."""
    return PlantedDamage(name, Schedule(name), (name,), accompanying, "needs nothing", cycle)
