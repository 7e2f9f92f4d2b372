"""A block of lines -> its operations, spilled as Arrow: a worker's work, with nothing shared.

Invocations and completions are joined here. What crosses the border of a block (`Draft.early`, `Draft.opened`) is joined by
`joining`. Records keep their key and value as written; `identities` gives them their numbers later.
"""

from __future__ import annotations

import gc
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from harness.foreign.blocks import Block
from harness.foreign.lines import EdnLines, Event, JsonLines, Reader
from harness.foreign.quick import INVOKE, Operations, Plain, plain
from harness.foreign.rows import Rows, in_order, write
from harness.history import Damage

KNOWN = frozenset(("txn", "send", "poll", "assign", "subscribe", "crash"))
IGNORED = frozenset(("debug-topic-partitions",))
NOT_UNDERSTOOD = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


_F = rb"""(?::f |"f": ?")"""
_ONLY = re.compile(_F + rb":?(send|poll)[\s,\"}]")
_NEITHER = re.compile(_F + rb":?(?:assign|subscribe|crash|debug-topic-partitions)[\s,\"}]|nemesis")


class Seen(NamedTuple):
    """An event, its value understood: where it stands in the history (from 0) and in the file (from 1)."""

    at: int
    line: int
    event: Event
    value: Any


@dataclass
class Draft:
    """What is left of a block: where its operations were spilled, and what the other blocks must know of it.

    early: completions whose invocation came before the block. opened: invocations without completion in it, by process.
    touched: processes that did anything. strangers: operations of no known f, and the first line of each. indexes: the first
    and the last index that Jepsen gave, (-1, -1) when some have none or they do not rise. together: as in `Rows`. hides: what
    lines that could not be read may hold, `sends` or `polls`.
    """

    spill: Path
    damage: list[Damage] = field(default_factory=list)
    early: list[Seen] = field(default_factory=list)
    opened: dict[int, Seen] = field(default_factory=dict)
    touched: set[int] = field(default_factory=set)
    nemesis: list[Seen] = field(default_factory=list)
    senders: set[int] = field(default_factory=set)
    functions: Counter[str] = field(default_factory=Counter)
    strangers: dict[str, int] = field(default_factory=dict)
    indexes: tuple[int, int] | None = None
    together: bool = False
    hides: set[str] = field(default_factory=set)

    @property
    def ops(self) -> Path:
        return self.spill.with_suffix(".ops")

    @property
    def mops(self) -> Path:
        return self.spill.with_suffix(".mops")


def draft(block: Block, language: str, file: str, spill: Path) -> Draft:
    """Parse a block (lines of `edn` or `json`) of the file named `file`; spill to `spill`.ops and `spill`.mops."""
    lines = block.text.split(b"\n")
    reader, known = (EdnLines(), plain(block.text, lines)) if language == "edn" else (JsonLines(), None)
    if known:
        reader.event(lines[known.rows.index(0)])  # so that it knows their shape
    drafting = _Drafting(reader, block, file, Draft(spill), known)
    with _no_collector():
        for position, line in enumerate(lines):
            if not drafting.take_plain(position, line):
                _take(drafting, position, line, block.last and position == len(lines) - 1)
        return drafting.finished()


def _take(drafting: _Drafting, position: int, line: bytes, last: bool) -> None:
    if line and not line.isspace() and not line.startswith(b";"):  # an EDN comment
        try:
            drafting.take(position, line.strip())
        except NOT_UNDERSTOOD as error:
            drafting.hidden(line)
            drafting.damaged(position, f"{'cut off in the middle' if last else 'not understood'} ({error})")


@contextmanager
def _no_collector() -> Iterator[None]:
    """Millions of small values without a cycle among them: looking for cycles would take a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Drafting:
    """The loop's state: rows done, pairs of plain lines, and per process the invocation that is open (None: a plain line)."""

    def __init__(self, reader: Reader, block: Block, file: str, draft: Draft, known: Plain | None) -> None:
        self._reader, self._block, self._file, self._draft, self._known = reader, block, file, draft, known
        self._rows = Rows()
        self._pairs: list[tuple[int, int]] = []
        self._open: dict[int, tuple[int, Event | None, bytes]] = {}
        self._indexes: list[int] = []
        self._whose = _whose(known) if known else []

    def damaged(self, position: int, why: str) -> None:
        self._draft.damage.append(Damage(self._file, self._block.line(position), why))

    def hidden(self, line: bytes) -> None:
        """A line that cannot be read may have sent or polled anything, unless what is left of it names what it was."""
        if not _NEITHER.search(line):
            said = _ONLY.search(line)
            self._draft.hides |= {b"send": {"sends"}, b"poll": {"polls"}}.get(said[1] if said else b"", {"sends", "polls"})

    def take_plain(self, position: int, line: bytes) -> bool:
        """Take in a plain line without reading it: an invocation, or the completion of one. False: it has to be read."""
        row = self._known.rows[position] if self._known else -1
        if row < 0:
            return False
        process, index = self._whose[row]
        if index >= 0:
            self._invoked(process, position, None, line, index)
            return True
        begun = self._open.get(process)
        if begun is None or begun[1] is not None:
            return False
        self._pairs.append((begun[0], position))
        del self._open[process]
        return True

    def take(self, position: int, line: bytes) -> None:
        """Take in one line. A completion that raises leaves its operation open: nobody knows how it ended."""
        event = self._reader.event(line)
        if event.process.__class__ is not int:
            self._draft.nemesis.append(self._seen(position, event, line))
        elif event.f in KNOWN:
            self._client(int(event.process), position, event, line)
        elif event.f not in IGNORED:
            self._draft.strangers.setdefault(event.f, self._block.line(position))

    def _client(self, process: int, position: int, event: Event, line: bytes) -> None:
        if event.type == "invoke":
            self._invoked(process, position, event, line, event.index)
        elif event.type not in ("ok", "fail", "info"):
            raise ValueError(f"unknown type {event.type!r}")
        elif process in self._open:
            self._completed(position, event, line)
            del self._open[process]
        elif process in self._draft.touched:
            raise ValueError(f"process {process} completes an operation that it did not invoke")
        else:
            self._draft.early.append(self._seen(position, event, line))
        self._draft.touched.add(process)

    def _invoked(self, process: int, position: int, event: Event | None, line: bytes, index: int) -> None:
        self._unfinished(self._open.pop(process, None))
        self._open[process] = (position, event, line)
        self._indexes.append(index)
        self._draft.touched.add(process)

    def _completed(self, position: int, event: Event, line: bytes) -> None:
        begun, read, planned = self._open[int(event.process)]
        invoked = read or self._reader.event(planned)
        value = self._reader.value(event, line)
        if value is None:
            value = self._reader.value(invoked, planned)
        self._rows.add(self._block.first + begun, invoked, event, value, self._block.first + position)

    def _unfinished(self, opened: tuple[int, Event | None, bytes] | None) -> None:
        """An invocation that never got a completion. Trouble with it belongs to its own line."""
        if opened is None:
            return
        position, read, line = opened
        try:
            invoked = read or self._reader.event(line)
            self._rows.add(self._block.first + position, invoked, None, self._reader.value(invoked, line))
        except NOT_UNDERSTOOD as error:
            self.damaged(position, f"not understood ({error})")

    def _seen(self, position: int, event: Event, line: bytes) -> Seen:
        value, event.value = self._reader.value(event, line), None
        return Seen(self._block.first + position, self._block.line(position), event, value)

    def finished(self) -> Draft:
        """The draft, its rows spilled."""
        draft = self._draft
        for process, (position, event, line) in self._open.items():
            try:
                draft.opened[process] = self._seen(position, event or self._reader.event(line), line)
            except NOT_UNDERSTOOD as error:
                self.damaged(position, f"not understood ({error})")
        numbers = self._indexes
        if numbers:
            rising = numbers[0] >= 0 and all(a < b for a, b in itertools.pairwise(numbers))
            draft.indexes = (numbers[0], numbers[-1]) if rising else (-1, -1)
        for table, path in zip(self._tables(), (draft.ops, draft.mops), strict=True):
            write(table, path)
        return draft

    def _tables(self) -> tuple[pa.Table, pa.Table]:
        """Operations and their micro-operations, those of plain lines among the others; what they say goes into the draft."""
        draft, rows = self._draft, self._rows
        draft.senders, draft.functions, draft.together = rows.senders, rows.functions, rows.together
        if self._known is None or not self._pairs:
            return rows.tables()
        where, (begun, ended) = np.array(self._known.rows), np.array(self._pairs).T
        operations = Operations(self._known, where[begun], where[ended], self._block.first + begun)
        draft.senders |= operations.senders
        draft.functions += operations.functions
        draft.together |= operations.together
        ops, mops = (pa.concat_tables(both) for both in zip(rows.tables(), operations.tables(), strict=True))
        return in_order(ops, mops.unify_dictionaries())


def _whose(known: Plain) -> list[tuple[int, int]]:
    """Of each plain line its process, and its index if it is an invocation (else -1)."""
    index = np.where(known.type == INVOKE, known.number("index"), -1)
    return list(zip(known.number("process").tolist(), index.tolist(), strict=True))
