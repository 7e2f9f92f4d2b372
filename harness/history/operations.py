"""The operations of one worker's file, and what the file lacks (docs/history.md).

A worker does one operation after the other, numbers them 0, 1, 2, ... in each process, and writes the invocation before the call.
So the lines around a damaged one tell what it was. A completion without its invocation says all but when it began. An invocation
without its completion is `info`. Where whole operations are missing, a row `unreadable` stands for them: nobody knows where the
process stood after it.
"""

from __future__ import annotations

import sys
from collections.abc import KeysView, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from fencepost.harness.api import Outcome
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.evidence import Evidence, Gap, GapKind, HistoryFile, between_lines, evidence_of
from fencepost.harness.api.history import OPERATIONS, UNREADABLE
from fencepost.harness.api.values import HISTORY_VERSION
from fencepost.harness.history.contradictions import WRITES
from fencepost.harness.history.lines import (
    COMPLETION,
    CUT_OFF,
    HEADER,
    INVOCATION,
    PROCESS,
    Output,
    Poll,
    decoded,
    demand_names_once,
    line_count,
)
from fencepost.harness.history.operation_columns import Row, micro_operations, mops_of

MOST_GAPS = 10_000  # of a file: what comes after so many is not read
_NAMES = {
    which: [column.name for column in OPERATIONS if column.line == which] for which in (HEADER, PROCESS, INVOCATION, COMPLETION)
}
BLANK: Row = {column.name: [] if column.type.startswith("list") else column.default for column in OPERATIONS}


class FileReading:
    """Takes the lines of one file in order, or of several that have operations of the same processes.

    rows: its operations.
    gaps: what it lacks, as far as its lines show.
    begins: the lowest time of an operation (ns).
    clock: how far the machine's wall clock was ahead of CLOCK_MONOTONIC when it was begun (ns); None: not known.
    file: whose it is, as far as that is known without its lines.
    slots: how many places for workers the run has; 0: not known.
    ours: it is of a run of ours, whose operations are numbered without a hole.
    whole: it is as it was at the run's end.
    planned: nobody but a kill cuts off its last line: who has only the lines of a run may have cut them.
    """

    def __init__(self, file: HistoryFile, slots: int, ours: bool, whole: bool, planned: bool = True) -> None:
        self._file, self._slots, self._ours, self._whole, self._planned = file, slots, ours, whole, planned
        self.rows: list[Row] = []
        self.gaps: list[Gap] = []
        self.clock: int | None = None
        self.begins = sys.maxsize
        self._run: str | None = None  # by the last header
        self._header = _blank_header(file)
        self._begun: dict[int | None, Row] = {}  # by process: what its process line says; None: the last such line
        self._open: dict[int, Row] = {}  # by process: the operation that was invoked
        self._last: dict[int, tuple[int, int]] = {}  # by process: the number of its last operation, and the last time known
        self._taken: dict[tuple[int, int], Row] = {}  # by process and number, where operations may come in any order
        self._damaged: list[tuple[int, str]] = []  # lines since the last good one
        self._skipped = self._suspicious = False  # lines are left out: since the last good one, or anywhere before
        self._repeated = False  # some operation is there twice
        self._without_level: set[int] = set()
        self._number = self._earliest = self._latest = 0  # the last line taken; when its file or its process began, its last time
        self._unordered = False  # a line is older than one before it

    # -- lines -----------------------------------------------------------------------------------
    def turn_to(self, file: HistoryFile) -> None:
        """Go on with the first line of a file."""
        self._settle()
        self._damaged, self._skipped = [], False
        self._file, self._header, self._number = file, _blank_header(file), 0

    @property
    def processes(self) -> KeysView[int]:
        """The processes that have operations here."""
        return self._last.keys()

    def take(self, number: int, raw: bytes) -> None:
        """The next line; numbers that are left out are lines that are not to be believed. Raises HistoryError: another format."""
        self._skipped |= number - line_count(raw) != self._number
        self._suspicious |= self._skipped
        self._number = number
        if not raw.strip():
            return
        try:
            which, line = decoded(raw)
            if not self._ours:
                demand_names_once(raw)
        except ValueError as error:
            self._damaged.append((number, f"not understood: {error}" if raw.endswith(b"\n") else CUT_OFF))
            self._suspicious = True
            return
        self._unordered |= (line.time or 0) < self._latest
        self._latest = max(self._latest, line.time or 0)
        if which in (INVOCATION, COMPLETION):
            self.begins = min(self.begins, line.time)
        if which == INVOCATION:
            self._invoked(line)
        elif which == COMPLETION:
            self._completed(line)
        else:
            self._began(which, line)
        self._damaged, self._skipped = [], False

    @property
    def is_full(self) -> bool:
        """True when so much of the file is damaged that the rest is not to be read."""
        return len(self.gaps) + len(self._damaged) >= MOST_GAPS

    def abandon(self, number: int) -> None:
        """Leave out everything from a line on."""
        self._suspicious = True
        why = f"{MOST_GAPS:,} lines before it are damaged or there twice: from here on nothing is read"
        self._damaged.append((number, why))

    def finish(self) -> None:
        """Take the end of the file: an operation that is open was invoked, and its outcome is unknown."""
        if self._damaged and self._damaged[-1][1] == CUT_OFF and self._ours and self._planned:
            number, why = self._damaged.pop()
            if self._whole:  # so it was at the run's end: an operation that never began, or one without completion
                self._add(why, (), line=number)
            else:
                self._add(why, kind=GapKind.UNATTESTED, line=number)
        if self._damaged and len(self._open) == 1 and self._damaged[0][1] != CUT_OFF:  # what is cut off had more behind it
            self._add(self._damaged[0][1], self._unsent(), line=self._damaged.pop(0)[0])
        self._settle()
        if self._repeated and self._suspicious and not self._whole:  # written over others, perhaps in the middle of lines
            why = "operations are there twice and lines cannot be read: nobody knows which are as they were written"
            self._add(why, kind=GapKind.UNRELIABLE)
        self.rows.extend(self._open.values())
        if self._unordered and self._ours:  # a file has one writer, whose clock never goes back
            self._add("its lines are not in the order in which they were written", between_lines(self._evidence()))
        if self._without_level:
            whose = ", ".join(map(str, sorted(self._without_level)))
            self._add(f"the line that begins process {whose} is damaged, so its isolation level is not known; it is left out")

    def _began(self, which: str, line: Any) -> None:
        """A header, or the line of a process."""
        self._settle()
        self._earliest = line.time or self._earliest
        if which == PROCESS:
            known = self._begun.get(line.process)
            begun = {**self._header, **_copied(PROCESS, line)}
            if known is not None and not self._ours and known["isolation"] is not None:
                if line.isolation not in (None, known["isolation"]):
                    self._contradicted(f"process {line.process} begins once more, and at another isolation level")
                begun["isolation"] = line.isolation or known["isolation"]
            self._begun[line.process] = self._begun[None] = begun
            return
        if line.version != HISTORY_VERSION:
            raise HistoryError(f"{self._file.name}: history version {line.version}; this fencepost reads {HISTORY_VERSION}")
        if not self._ours and self._run not in (None, line.run):
            self._contradicted("a header of another run: lines of two runs are in one file")
        self._run = line.run
        self._header = {**BLANK, **_copied(HEADER, line)}
        self.clock = line.wall - line.time if line.wall and line.time else None

    def _invoked(self, line: Any) -> None:
        if line.process in self._without_level or self._again(line):
            return
        before = self._open.pop(line.process, None)
        if before is not None:
            self.rows.append(before)
            if self._damaged:  # the first damaged line was its completion
                number, why = self._damaged.pop(0)
                self._add(why, self._unsent(), line=number)
            elif self._ours and not self._skipped:
                self._add(f"the completion of operation {before['op']} of process {line.process} is missing", self._unsent())
        self._settle(line)
        row = self._row(line, line.time, line.intent)
        if row is not None:
            self._open[line.process] = self._take(line, row)
        self._last[line.process] = (line.op, line.time)

    def _completed(self, line: Any) -> None:
        if line.process in self._without_level:
            return
        row = self._open.pop(line.process, None)
        if row is not None and row["op"] == line.op:
            self._settle()
            planned = _sent(row)
            self._agree(row, line)
            self.rows.append(self._completion(row, line))
            self._compare(row, planned, _sent(row))
        elif row is not None:
            self.rows.append(row)
            self._alone(line)
        else:
            self._alone(line)
        self._last[line.process] = (max(line.op, self._last.get(line.process, (-1, 0))[0]), line.time)

    def _alone(self, line: Any) -> None:
        """A completion without its invocation: the operation began after the one before had ended, in order to do what it did."""
        if self._again(line):
            return
        number = self._damaged.pop()[0] if self._damaged else self._number
        self._settle(line)
        if line.f is None:
            self._add("its invocation is missing, and it does not say of what it is the completion", line=self._number)
            return
        self._add("an invocation is missing or damaged; its completion says what was done", (), line=number)
        earliest = self._before(line)[1]
        aborted = line.type == Outcome.OK.value and line.decided is None
        row = self._row(line, earliest, ("abort" if aborted else "commit") if line.f == "txn" else None)
        if row is not None:
            self.rows.append(self._take(line, self._completion(row, line)))

    def _completion(self, row: Row, line: Any) -> Row:
        """The operation with its completion; in a history of others also that it does not say what its polls returned."""
        completed = _with_completion(row, line)
        if not self._ours and row["f"] in ("poll", "txn") and _unheard(row["f"], line.value):
            detail = msgspec.json.decode(row["detail"]) if row["detail"] else {}
            row["detail"] = msgspec.json.encode({**detail, "unheard": True}).decode()
        return completed

    def _before(self, line: Any) -> tuple[int, int]:
        """The number of the last known operation before this one (-1: none), and a time at which this one had not begun."""
        number, time = self._last.get(line.process, (-1, self._earliest))
        return number, min(time, line.time)

    # -- what is missing -------------------------------------------------------------------------
    def _again(self, line: Any) -> bool:
        """Return whether the operation was over before: its line is there twice."""
        operation = (line.process, line.op)
        again = line.op <= self._last.get(line.process, (-1, 0))[0] if self._ours else operation in self._taken
        if again:
            self._repeated = True
            which = f"operation {line.op} of process {line.process}"
            if self._ours or _is_the_same(self._taken[operation], line):
                self._add(f"{which} is there twice", line=self._number)
            elif line.type != "invoke" and self._taken[operation].get("end") is None:
                self._contradicted(f"{which} ends after another of the process has begun")
            else:
                self._contradicted(f"{which} is there twice, and not the same")
        elif not self._ours:
            self._taken[operation] = {}
        return again

    def _take(self, line: Any, row: Row) -> Row:
        """The row of an operation, remembered where it may come again."""
        if not self._ours:
            self._taken[line.process, line.op] = row
        return row

    def _compare(self, row: Row, planned: Mapping[int, str], sent: Mapping[int, str]) -> None:
        """A completion that does not name all sends of its invocation, or not where they went: in a history of others their fate
        is not known."""
        if self._ours or planned == sent:
            return
        which = f"the completion of operation {row['op']} of process {row['process']}"
        if lacking := len(planned.keys() - sent.keys()):
            why = f"{which} does not name {lacking} of the sends of its invocation"
            self._add(why, (Evidence.SENDS, Evidence.OUTCOMES), kind=GapKind.MISSING, line=self._number)
        if any(sent.get(v, partition) != partition for v, partition in planned.items()):
            self._contradicted(f"{which} names other partitions of its sends than its invocation")

    def _agree(self, row: Row, line: Any) -> None:
        """A completion that says something else of what was to be done than its invocation, in a history of others."""
        for name, said in (("f", line.f), ("intent", line.intent)):
            if not self._ours and said is not None and row[name] not in (None, said):
                self._contradicted(f"the completion of operation {row['op']} of process {row['process']} has another `{name}`")

    def _contradicted(self, why: str) -> None:
        """Two lines say different things: nobody knows which is true."""
        self._add(why, WRITES, kind=GapKind.UNRELIABLE, line=self._number)

    def _settle(self, line: Any = None) -> None:
        """Give the damaged lines since the last good one, and what lacks between the operations of a process."""
        for number, why in self._damaged:
            self._add(why, line=number)
        if line is None:
            return
        number, time = self._before(line)
        lacking = line.op - number - 1
        if lacking > 0 and (self._damaged or self._skipped or self._ours):
            if not self._damaged and not self._skipped:
                self._add(f"operations of process {line.process} before its operation {line.op} are missing ({lacking})")
            known = {"process": line.process, "op": line.op - 1, "time": time, "f": UNREADABLE, "type": Outcome.INFO.value}
            self.rows.append({**self._begun.get(None, self._header), **known})

    def _add(
        self,
        why: str,
        evidence: tuple[Evidence, ...] | None = None,
        *,
        kind: GapKind = GapKind.UNREADABLE,
        line: int = 0,
    ) -> None:
        """A gap; evidence: all that the file's worker wrote unless something else is said.

        What comes behind an unreadable line goes on from where nobody knows; nothing comes behind what was cut off.
        """
        held = self._evidence() if evidence is None else evidence
        held = between_lines(held) if kind is GapKind.UNREADABLE else held
        slot = None if self._header["slot"] == -1 else self._header["slot"]
        gap = Gap(file=self._file.name, why=why, kind=kind, line=line, slot=slot, slots=self._slots, evidence=held)
        self.gaps.append(replace(gap, role=self._header["role"] or ""))

    def _evidence(self) -> tuple[Evidence, ...]:
        isolation = self._begun.get(None, {}).get("isolation") or self._file.isolation
        return evidence_of(self._header["role"], isolation)

    def _unsent(self) -> tuple[Evidence, ...]:
        """The evidence that a missing completion held: its invocation says what was to be sent."""
        return tuple(kind for kind in self._evidence() if kind is not Evidence.SENDS)

    # -- rows ------------------------------------------------------------------------------------
    def _row(self, line: Any, time: int, intent: str | None) -> Row | None:
        """An operation that nobody has completed yet; None where its process's isolation level is not known."""
        begun = self._begun.get(line.process) or (self._begun.get(None) if self._ours else None)
        if begun is None and self._ours:
            if self._file.isolation is None and self._header["role"] != "harness":
                self._without_level.add(line.process)
                return None
            begun = {**self._header, "isolation": self._file.isolation, "final": self._header["role"] == "final"}
        known = {**_copied(INVOCATION, line), "time": time, "intent": intent, "type": Outcome.INFO.value}
        if line.transactional_id is not None:  # a further producer's of the process
            known["transactional_id"] = line.transactional_id
        return {**(begun or self._header), **known, **micro_operations(line.value)}


def _blank_header(file: HistoryFile) -> Row:
    """The columns of a file's header, as far as they are known without it."""
    return {**BLANK, "slot": -1 if file.slot is None else file.slot, "node": file.node, "role": file.role}


def _sent(row: Row) -> dict[int, str]:
    """The identities of the records that an operation sends, each with its partition."""
    return {mop[2]: mop[1] for mop in row["mops"] if mop[0] == 0}


def _is_the_same(row: Row, line: Any) -> bool:
    """True if a further line of an operation says what the first of its kind did."""
    if not row:
        return False
    if line.type == "invoke":
        return bool(row["f"] == line.f) and _sent(row) == _sent(micro_operations(line.value))
    return bool(row["type"] == line.type and row["end"] == line.time and row["mops"] == mops_of(line.value))


def _unheard(f: str, value: Any) -> bool:
    """True if a completion does not say what a poll returned."""
    polls = [mop for mop in value if isinstance(mop, Poll)] if isinstance(value, list) else []
    return any(poll.got is None for poll in polls) or (f == "poll" and not polls)


def _with_completion(row: Row, line: Any) -> Row:
    row.update(_copied(COMPLETION, line), type=line.type, end=line.time)
    if isinstance(line.value, list):
        row.update(micro_operations(line.value))
        row["strange"] = [msgspec.to_builtins(odd) for mop in line.value if isinstance(mop, Poll | Output) for odd in mop.strange]
    told = {"rebalances": line.rebalances} if line.rebalances and line.f != "final-read" else {}  # its keys are partitions
    if told or isinstance(line.value, dict):
        own = line.value if isinstance(line.value, dict) else {}
        row["detail"] = msgspec.json.encode({**own, **told}).decode()
    if row["errors"]:
        row["errors"] = msgspec.to_builtins(row["errors"])
    return row


def _copied(which: str, line: Any) -> Row:
    """The columns that are copied from a line of this kind."""
    values = {name: getattr(line, name) for name in _NAMES[which]}
    return {name: BLANK[name] if value is None else value for name, value in values.items()}
