"""Sentences about findings that a Kafka engineer understands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fencepost.checkers.model.findings import Finding, FindingRecord
from fencepost.checkers.model.values import ABORTED, COMMITTED, NONE
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api import split_record_id
from fencepost.harness.api.words import enumeration, form

UNKNOWN = "ended without a known outcome"
MOST_PLACES = 6
MOST_OPERATIONS = 3
SHORTEST_NS = 50_000  # is 0.1 ms in words


def apart(ns: int, word: str = "before") -> str:
    """`3.2 ms before`; `before` alone where less lies between than that says, or where a history has no times, but an order."""
    return f"{ns / 1e6:.1f} ms {word}" if ns >= SHORTEST_NS else word


class FindingText:
    """Words for operations and records."""

    def __init__(self, run: RunView) -> None:
        self.run = run

    def _at(self, op: int) -> int:
        return int(self.run.overview.at(op))

    def name(self, op: int, capital: bool = True) -> str:
        """`Transaction 412 of process 3`. The harness reads nothing but a group's offsets."""
        overview, at = self.run.overview, self._at(op)
        if overview.process[at] < 0:
            return f"{'T' if capital else 't'}he look at the group's offsets in the end"
        word = "transaction" if overview.txn[at] else "send" if overview.send[at] else "poll"
        text = f"{word} {overview.op[at]} of process {overview.process[at]}"
        return text.capitalize() if capital else text

    def question(self, op: int) -> str:
        """`question 7 of process 3`: of one that asked for a group's offsets."""
        return f"question {self.run.overview.op[self._at(op)]} of {self.process(op)}"

    def transactional(self, op: int) -> bool:
        """True if an operation is a transaction."""
        return bool(self.run.overview.txn[self._at(op)])

    def process(self, op: int) -> str:
        """`process 3`: who did an operation."""
        return f"process {self.run.overview.process[self._at(op)]}"

    def decided(self, op: int) -> int:
        return int(self.run.overview.decided[self._at(op)])

    def ended(self, op: int) -> int:
        return int(self.run.overview.end[self._at(op)])

    def outcome(self, op: int) -> str:
        """The end of an operation, as the rest of a sentence whose subject is the operation."""
        overview, at = self.run.overview, self._at(op)
        if not overview.txn[at]:
            return {COMMITTED: "was acknowledged", ABORTED: "surely failed"}.get(int(overview.status[at]), UNKNOWN)
        if self.by_logs([op]):
            return f"{UNKNOWN}, and the logs have it committed"
        if overview.status[at] == COMMITTED:
            return "was acknowledged as committed"
        if overview.status[at] == ABORTED:
            return "was surely aborted" if overview.ok[at] or overview.failed[at] else f"{UNKNOWN}, and the logs have it aborted"
        return UNKNOWN

    def aborted(self, op: int) -> bool:
        """True if an operation is a transaction that surely failed."""
        at = self._at(op)
        return bool(self.run.overview.txn[at] and self.run.overview.status[at] == ABORTED)

    def proven(self, op: int) -> str:
        """The reason why what is missing of an operation was promised, where its own outcome does not say so."""
        return "" if self.promised(op) else ", and committed, for a read_committed reader got a record of it"

    def promised(self, op: int) -> bool:
        """True if what an operation sent, and got acknowledged, is a promise in any case."""
        at = self._at(op)
        return bool(self.run.overview.status[at] == COMMITTED or not self.run.overview.txn[at])

    def by_logs(self, ops: Sequence[int]) -> bool:
        """True if one of some operations is known to have committed by the brokers' logs alone."""
        return bool(np.isin(ops, self.run.decisions.committed).any())

    def how_missing(self, partition: str, count: int = 1) -> str:
        final = self.run.overview.final_reads.get(partition)
        verb = form(count, "was", "were")
        if final and final.committed:
            return f"{verb} not returned by the complete final read"
        if final and final.uncommitted:
            return f"{verb} not returned even by the complete read_uncommitted final read"
        return f"{verb} read by nobody, though later records were"

    def places(self, rows: Sequence[FindingRecord]) -> str:
        """`t-0@17, t-2@9`, shortened when there are many."""
        places = list(dict.fromkeys(row.place for row in sorted(rows, key=lambda row: (row.partition, row.offset))))
        if len(places) <= MOST_PLACES:
            return " and ".join(places) if len(places) < 3 else ", ".join(places)
        return f"{places[0]} to {places[-1]}"

    def records_at(self, rows: Sequence[FindingRecord], verb: str, verbs: str) -> str:
        """`record at t-0@17 was`, `records at t-0@17 and t-2@9 were`."""
        count = len({row.place for row in rows})
        return f"{form(count, 'record')} at {self.places(rows)} {form(count, verb, verbs)}"

    def written(self, rows: Sequence[FindingRecord]) -> str:
        """`the record it wrote to t-1 (acknowledged at offset 12)`."""
        if len(rows) > 1:
            return f"the {len(rows)} records it wrote to {self.places(rows)}"
        row = rows[0]
        ack = f"acknowledged at offset {row.offset}" if row.offset != NONE else "its offset is unknown"
        return f"the record it wrote to {row.partition} ({', '.join(filter(None, (row.value_text, ack)))})"

    def names(self, rows: Sequence[FindingRecord]) -> str:
        """`poll 0 of process 3 and poll 2 of process 4`: the operations of some rows, shortened when there are many."""
        ops = list(dict.fromkeys(row.op for row in rows))
        shown = [self.name(op, capital=False) for op in ops[:MOST_OPERATIONS]]
        shown += [f"{len(ops) - MOST_OPERATIONS} more"] if len(ops) > MOST_OPERATIONS else []
        return enumeration(shown)

    def first_of(self, rows: Sequence[FindingRecord], what: str) -> str:
        """` (the first of 3 such reads)`: of rows of which only the first is named; what: `reads`."""
        return f" (the first of {len(rows)} such {what})" if len(rows) > 1 else ""

    def read_elsewhere(self, finding: Finding) -> str:
        read = finding.records("read")
        return f", and its {self.records_at(read, 'was', 'were')} read" if read else ""

    def writer(self, row: FindingRecord, capital: bool = False) -> str:
        """The sender of a record, from the identity it carries."""
        if row.v < 0:
            return f"{'A' if capital else 'a'} record that {'nobody sent' if row.value else 'is not readable'}{row.value_note}"
        process, op, seq = split_record_id(row.v)
        return f"{'R' if capital else 'r'}ecord {seq} of operation {op} of process {process}{row.value_note}"

    def destination(self, v: int) -> str:
        return self.run.origins.get(v, ("nowhere", NONE))[0]

    def unreadable(self, row: FindingRecord) -> str:
        return self.run.unreadable(row.op, row.partition, row.offset) or "its content is not what anybody sent"
