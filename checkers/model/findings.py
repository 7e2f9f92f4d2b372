"""Findings: the rows of a check's result, grouped by cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.checkers.model.results import Rows, count_rows
from fencepost.checkers.model.values import NONE

SLACK_NS = 1_000_000_000
LONGEST_VALUE = 40


@dataclass(frozen=True)
class FindingRecord:
    """One record involved in a finding (`CheckResult` says what the fields mean).

    value: the record's value in the system that the history comes from; empty for our own histories, where `v` is its name.
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
            return f"{self.partition} (offset unknown{', ' if self.value else ''}{self.value_text})"
        return f"{self.partition}@{self.offset}{self.value_note}"

    @property
    def value_text(self) -> str:
        """`value 42`, on one line and not too long; empty when there is no original value."""
        if not self.value:
            return ""
        text = self.value if self.value.isprintable() else self.value.encode("unicode_escape").decode()
        return f"value {text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + '…'}"

    @property
    def value_note(self) -> str:
        """` (value 42)`, to be put after a word for the record; empty when there is no original value."""
        return f" ({self.value_text})" if self.value else ""

    def document(self) -> dict[str, Any]:
        offset = None if self.offset == NONE else self.offset
        document = {"partition": self.partition, "offset": offset, "v": self.v, "operation": self.op, "role": self.role}
        return {**document, "value": self.value} if self.value else document


@dataclass
class Finding:
    """One cause of one anomaly: its rows, first in time first.

    processes: those of its operations, by role of the record (`sent`, `read`, `missing`).
    cause: the number of its cause, by which its rows were grouped.
    shown: readers got its records at places that show it by themselves (`Check.shown_by`); known only where that matters.
    """

    anomaly: str
    rows: list[FindingRecord]
    sentence: str = ""
    forbidden: bool = True
    id: int = 0
    faults: list[int] = field(default_factory=list)
    detail: dict[str, Any] = field(default_factory=dict)
    processes: Mapping[str, frozenset[int]] = field(default_factory=dict)
    cause: int = NONE
    shown: bool = False

    def records(self, role: str) -> list[FindingRecord]:
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


def group(anomaly: str, rows: Rows, original_values: Mapping[int, str], across: bool) -> list[Finding]:
    """Rows to findings: one for each cause, over all partitions (`across`) or inside each; first in time first.

    original_values: identity -> the record's value in the system that the history comes from (`RunView.original_values`).
    """
    if not count_rows(rows):
        return []
    columns = [rows[name].tolist() for name in ("partition", "op", "v", "offset", "time", "role")]
    columns.append([original_values.get(v, "") for v in columns[2]])
    records = [FindingRecord(*values) for values in zip(*columns, strict=True)]
    causes = rows["cause"].tolist()
    findings: dict[tuple[str, int], list[FindingRecord]] = {}
    for at in sorted(range(len(records)), key=lambda at: (records[at].time, records[at].partition, records[at].offset)):
        findings.setdefault(("" if across else records[at].partition, causes[at]), []).append(records[at])
    return [Finding(anomaly, some, cause=cause) for (_, cause), some in findings.items()]
