"""Findings: suspicious rows grouped by cause, with a sentence that a Kafka engineer understands."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from checkers.api import Check
from checkers.partition.log import ABORTED, COMMITTED, NONE
from checkers.run_view import RunView
from harness.api import split_record_id

SLACK_NS = 1_000_000_000
MOST_PLACES = 6
LONGEST_VALUE = 40


@dataclass(frozen=True)
class Row:
    """One record involved in a finding (`CheckResult` says what the fields mean).

    value: what the record was called where the history comes from; empty for our own histories, where `v` is the name.
    """

    partition: str
    op: int
    v: int
    offset: int
    time: int
    role: str
    value: str = ""

    @property
    def place(self) -> str:
        """`t-0@17`; with the original value, when there is one: `5@17 (value 42)`."""
        if self.offset == NONE:
            return f"{self.partition} (offset unknown{', ' if self.value else ''}{self.valued})"
        return f"{self.partition}@{self.offset}{self.called}"

    @property
    def valued(self) -> str:
        """`value 42`, on one line and not too long; empty when there is no original value."""
        if not self.value:
            return ""
        told = self.value if self.value.isprintable() else self.value.encode("unicode_escape").decode()
        return f"value {told if len(told) <= LONGEST_VALUE else told[: LONGEST_VALUE - 1] + '…'}"

    @property
    def called(self) -> str:
        """` (value 42)`, to be put after a word for the record; empty when there is no original value."""
        return f" ({self.valued})" if self.value else ""

    def document(self) -> dict[str, Any]:
        offset = None if self.offset == NONE else self.offset
        told = {"partition": self.partition, "offset": offset, "v": self.v, "operation": self.op, "role": self.role}
        return {**told, "value": self.value} if self.value else told


@dataclass
class Finding:
    """One cause of one anomaly: its rows, first in time first."""

    anomaly: str
    rows: list[Row]
    sentence: str = ""
    forbidden: bool = True
    id: int = 0
    faults: list[int] = field(default_factory=list)
    detail: dict[str, Any] = field(default_factory=dict)

    def records(self, role: str) -> list[Row]:
        return [row for row in self.rows if row.role == role]

    @property
    def time(self) -> int:
        return min(row.time for row in self.rows)

    @property
    def operations(self) -> list[int]:
        return sorted({row.op for row in self.rows})

    def document(self, most: int | None = None) -> dict[str, Any]:
        """The finding as in `verdict.json`, with so many operations and records at most; `size` is how many records it has."""
        return {
            "id": self.id,
            "anomaly": self.anomaly,
            "forbidden": self.forbidden,
            "sentence": self.sentence,
            "operations": self.operations[:most],
            "records": [row.document() for row in self.rows[:most]],
            "size": len(self.rows),
            "time": self.time,
            "faults": self.faults,
            **self.detail,
        }


def group(check: Check[Any], rows: pd.DataFrame, originals: Mapping[int, str]) -> list[Finding]:
    """Rows to findings: by cause, over all partitions or inside each as the check says; first in time first.

    originals: identity -> the record's value where the history comes from (`RunView.originals`).
    """
    if rows.empty:
        return []
    rows = rows.sort_values(["time", "partition", "offset"], kind="stable")
    keys = ["cause"] if check.across else ["partition", "cause"]
    numbers = rows.groupby(keys, sort=False).ngroup().to_numpy()
    order = np.argsort(numbers, kind="stable")
    columns = [rows[name].to_numpy()[order].tolist() for name in ("partition", "op", "v", "offset", "time", "role")]
    bounds = [*np.flatnonzero(np.diff(numbers[order], prepend=-1)).tolist(), len(order)]
    columns.append([originals.get(v, "") for v in columns[2]])
    made = [Row(*values) for values in zip(*columns, strict=True)]
    return [Finding(check.name, made[start:stop]) for start, stop in itertools.pairwise(bounds)]


class FindingText:
    """Words for operations and records."""

    def __init__(self, run: RunView) -> None:
        self.run = run

    def _at(self, op: int) -> int:
        return int(self.run.overview.at(op))

    def name(self, op: int, capital: bool = True) -> str:
        """`Transaction 412 of process 3`."""
        view, at = self.run.overview, self._at(op)
        word = "transaction" if view.txn[at] else "send" if view.send[at] else "poll"
        text = f"{word} {view.op[at]} of process {view.process[at]}"
        return text.capitalize() if capital else text

    def decided(self, op: int) -> int:
        return int(self.run.overview.decided[self._at(op)])

    def outcome(self, op: int) -> str:
        """How an operation ended, as the rest of a sentence whose subject is the operation."""
        view, at = self.run.overview, self._at(op)
        if not view.txn[at]:
            return "was acknowledged"
        if view.status[at] == COMMITTED:
            return "was acknowledged as committed"
        if view.status[at] == ABORTED:
            return "was surely aborted"
        return "ended without a known outcome"

    def how_missing(self, partition: str, count: int = 1) -> str:
        final = self.run.overview.final_reads.get(partition)
        verb = "was" if count == 1 else "were"
        if final and final.committed:
            return f"{verb} not returned by the complete final read"
        if final and final.uncommitted:
            return f"{verb} not returned even by the complete read_uncommitted final read"
        return f"{verb} read by nobody, though later records were"

    def places(self, rows: Sequence[Row]) -> str:
        """`t-0@17, t-2@9`, shortened when there are many."""
        places = list(dict.fromkeys(row.place for row in sorted(rows, key=lambda row: (row.partition, row.offset))))
        if len(places) <= MOST_PLACES:
            return " and ".join(places) if len(places) < 3 else ", ".join(places)
        return f"{places[0]} to {places[-1]}"

    def written(self, rows: Sequence[Row]) -> str:
        """`the record it wrote to t-1 (acknowledged at offset 12)`."""
        if len(rows) > 1:
            return f"the {len(rows)} records it wrote to {self.places(rows)}"
        row = rows[0]
        ack = f"acknowledged at offset {row.offset}" if row.offset != NONE else "its offset is unknown"
        return f"the record it wrote to {row.partition} ({', '.join(filter(None, (row.valued, ack)))})"

    def and_more(self, rows: Sequence[Row]) -> str:
        return f" (and {len(rows) - 1} more times)" if len(rows) > 1 else ""

    def read_elsewhere(self, finding: Finding) -> str:
        seen = finding.records("read")
        return f", and its records at {self.places(seen)} were read" if seen else ""

    def writer(self, row: Row, capital: bool = False) -> str:
        """Who sent a record, from the identity it carries."""
        if row.v < 0:
            return f"{'A' if capital else 'a'} record that {'nobody sent' if row.value else 'is not readable'}{row.called}"
        process, op, seq = split_record_id(row.v)
        return f"{'R' if capital else 'r'}ecord {seq} of operation {op} of process {process}{row.called}"

    def destination(self, v: int) -> str:
        return self.run.homes.get(v, ("nowhere", NONE))[0]

    def strange(self, row: Row) -> str:
        return self.run.strange(row.op, row.partition, row.offset) or "its content is not what anybody sent"
