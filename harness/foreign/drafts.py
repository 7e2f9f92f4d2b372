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

from harness.foreign.blocks import Block
from harness.foreign.lines import EdnLines, Event, JsonLines, Reader
from harness.foreign.rows import Rows, write
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
    drafting = _Drafting(EdnLines() if language == "edn" else JsonLines(), block, file, Draft(spill))
    with _no_collector():
        _take_all(drafting, block)
        return drafting.finished()


def _take_all(drafting: _Drafting, block: Block) -> None:
    lines = block.text.split(b"\n")
    for position, line in enumerate(lines):
        if line and not line.isspace() and not line.startswith(b";"):  # an EDN comment
            try:
                drafting.take(position, line.strip())
            except NOT_UNDERSTOOD as error:
                cut = block.last and position == len(lines) - 1
                drafting.hidden(line)
                drafting.damaged(position, f"{'cut off in the middle' if cut else 'not understood'} ({error})")


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
    """The loop's state: rows done, and per process the invocation that is open."""

    def __init__(self, reader: Reader, block: Block, file: str, draft: Draft) -> None:
        self._reader, self._block, self._file, self._draft = reader, block, file, draft
        self._rows = Rows()
        self._open: dict[int, tuple[int, Event, bytes]] = {}
        self._indexes: list[int] = []

    def damaged(self, position: int, why: str) -> None:
        self._draft.damage.append(Damage(self._file, self._block.line(position), why))

    def hidden(self, line: bytes) -> None:
        """A line that cannot be read may have sent or polled anything, unless what is left of it names what it was."""
        if not _NEITHER.search(line):
            said = _ONLY.search(line)
            self._draft.hides |= {b"send": {"sends"}, b"poll": {"polls"}}.get(said[1] if said else b"", {"sends", "polls"})

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
            self._unfinished(self._open.pop(process, None))
            self._open[process] = (position, event, line)
            self._indexes.append(event.index)
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

    def _completed(self, position: int, event: Event, line: bytes) -> None:
        begun, invoked, planned = self._open[int(event.process)]
        value = self._reader.value(event, line)
        if value is None:
            value = self._reader.value(invoked, planned)
        self._rows.add(self._block.first + begun, invoked, event, value, self._block.first + position)

    def _unfinished(self, opened: tuple[int, Event, bytes] | None) -> None:
        """An invocation that never got a completion. Trouble with it belongs to its own line."""
        if opened is None:
            return
        position, invoked, line = opened
        try:
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
                draft.opened[process] = self._seen(position, event, line)
            except NOT_UNDERSTOOD as error:
                self.damaged(position, f"not understood ({error})")
        draft.senders, draft.functions, draft.together = self._rows.senders, self._rows.functions, self._rows.together
        numbers = self._indexes
        if numbers:
            rising = numbers[0] >= 0 and all(a < b for a, b in itertools.pairwise(numbers))
            draft.indexes = (numbers[0], numbers[-1]) if rising else (-1, -1)
        for table, path in zip(self._rows.tables(), (draft.ops, draft.mops), strict=True):
            write(table, path)
        return draft
