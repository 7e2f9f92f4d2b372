"""A block of lines -> its operations, spilled as Arrow: a worker's work, with nothing shared.

Invocations and completions are joined here. What crosses the border of a block (`ParsedBlock.early`, `ParsedBlock.opened`) is
joined by `joining`. Records keep their key and value as written; `identities` gives them their numbers later.
"""

from __future__ import annotations

import gc
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fencepost.harness.api.evidence import Evidence, Gap
from fencepost.harness.interop.blocks import Block
from fencepost.harness.interop.jepsen.identities import Ints
from fencepost.harness.interop.jepsen.lines import ContinuedError, EdnLines, Event, JsonLines, Reader
from fencepost.harness.interop.jepsen.operation_rows import OperationRows, in_order, write
from fencepost.harness.interop.jepsen.plain_grammar import NOTATIONS
from fencepost.harness.interop.jepsen.plain_lines import INVOKE, Operations, PlainLines, plain_lines
from fencepost.harness.interop.jepsen.planned_sends import (
    POLLED,
    SENT,
    WORKERS_LINE,
    another,
    compared,
    others,
    unnamed,
    without_invocation,
)
from fencepost.harness.interop.jepsen.text_lines import TextLines

READERS: Mapping[str, Callable[[], Reader]] = {"edn": EdnLines, "json": JsonLines, "txt": TextLines}
KNOWN = frozenset(("txn", "send", "poll", "assign", "subscribe", "crash"))
IGNORED = frozenset(("debug-topic-partitions",))
NOT_UNDERSTOOD = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
_F = rb"""(?::f |"f": ?")"""
_ONLY = re.compile(_F + rb":?(send|poll)[\s,\"}]")
_MOVES = re.compile(_F + rb":?(?:assign|subscribe|crash)[\s,\"}]")
_ANY = re.compile(_F)
_NEMESIS_LINE = re.compile(rb"""(?:^|:process |"process": ?")\s*:?nemesis""")
_DEBUG = re.compile(_F + rb":?debug-topic-partitions[\s,\"}]")

NEMESIS = -(1 << 63)  # in the place of a process's number


def _evidence(line: bytes) -> tuple[Evidence, ...]:
    """The evidence that a line that cannot be read may have held: any, unless what is left of it names what it was."""
    if len(_ANY.findall(line)) > 1:  # a name twice, or two lines in one
        return WORKERS_LINE
    if _MOVES.search(line):
        return (Evidence.POSITIONS,)
    if _NEMESIS_LINE.search(line):
        return (Evidence.RECEIPTS,)
    if _DEBUG.search(line):
        return ()
    named = _ONLY.search(line)
    return {b"send": SENT, b"poll": POLLED}.get(named[1] if named else b"", WORKERS_LINE)


class Moment(NamedTuple):
    """The moment of a line of a process.

    number: its index; -1: not given.
    time: its time (ns); -1: not given.
    line: its number in the file, from 1.
    """

    number: int
    time: int
    line: int

    def is_before(self, other: Moment) -> bool:
        """Return whether index or time is lower, or the index is the same: a process does one thing after the other."""
        return -1 < self.number <= other.number or -1 < self.time < other.time


class PlacedEvent(NamedTuple):
    """An event, its value understood: where it stands in the history (from 0) and in the file (from 1)."""

    at: int
    line: int
    event: Event
    value: Any


@dataclass
class ParsedBlock:
    """A block after parsing: where its operations were spilled, and what the other blocks must know of it.

    spill: the path of its rows, without the endings `.ops` and `.mops`.
    damage: lines that could not be read.
    early: completions whose invocation came before the block.
    opened: invocations without completion in it, by process.
    touched: processes that did anything.
    nemesis: the lines of the nemesis.
    senders: as in `OperationRows`.
    functions: as in `OperationRows`.
    unknown_functions: operations of no known f, and the first line of each.
    unknown_values: those of them that have a value, which may name records.
    indexes: the first and the last index that Jepsen gave, (-1, -1) when some have none or they do not rise; None: no
    operations.
    begins: how many lines of the history are missing before the block's first line, by the index of that.
    lowest: the lowest index of any line, of any process; -1 when none has an index.
    highest: the highest index of any line, of any process; -1 when none has an index.
    numbered: how many different indexes there are.
    unnumbered: how many lines that could be read have no index.
    repeated: how many lines have the index of another.
    unreadable: how many lines could not be read, so that their indexes are unknown.
    first: the moment of each process's first line.
    last: the moment of each process's last line.
    backward: lines that happened, as they say, before the line above of their process.
    together: as in `OperationRows`.
    """

    spill: Path
    damage: list[Gap] = field(default_factory=list)
    early: list[PlacedEvent] = field(default_factory=list)
    opened: dict[int, PlacedEvent] = field(default_factory=dict)
    touched: set[int] = field(default_factory=set)
    nemesis: list[PlacedEvent] = field(default_factory=list)
    senders: set[int] = field(default_factory=set)
    functions: Counter[str] = field(default_factory=Counter)
    unknown_functions: dict[str, int] = field(default_factory=dict)
    unknown_values: set[str] = field(default_factory=set)
    indexes: tuple[int, int] | None = None
    begins: int = 0
    lowest: int = -1
    highest: int = -1
    numbered: int = 0
    unnumbered: int = 0
    repeated: int = 0
    unreadable: int = 0
    first: dict[int, Moment] = field(default_factory=dict)
    last: dict[int, Moment] = field(default_factory=dict)
    backward: list[int] = field(default_factory=list)
    together: bool = False

    @property
    def ops(self) -> Path:
        return self.spill.with_suffix(".ops")

    @property
    def mops(self) -> Path:
        return self.spill.with_suffix(".mops")


def parse_block(block: Block, language: str, file: str, spill: Path) -> ParsedBlock:
    """Parse a block (lines of `edn` or `json`) of the file named `file`; spill to `spill`.ops and `spill`.mops."""
    lines = block.text.split(b"\n")
    reader = READERS[language]()
    known = plain_lines(block.text, lines, language) if language in NOTATIONS else None
    parser = _BlockParser(
        reader, block, file, ParsedBlock(spill, begins=0 if block.first else _missing_before(reader, lines)), known
    )
    with _no_collector():
        read = {at: _read(reader, lines[at]) for at in np.flatnonzero(known.rows < 0).tolist()} if known else {}
        for position in parser.take_pairs(known, read) if known else range(len(lines)):
            line = lines[position]
            if not parser.take_plain(position, line):
                event = read.get(position) or _read(reader, line)
                parser.saw(position, event)
                _take(parser, position, line, event, block.last and position == len(lines) - 1)
        return parser.finished()


def _read(reader: Reader, line: bytes) -> Event | Exception | None:
    """The event of a line, or the error when it is not understood; None when it is empty, a comment or more of an error."""
    if not line or line.isspace() or line.startswith(b";"):  # an EDN comment
        return None
    try:
        return reader.event(line.strip())
    except ContinuedError:
        return None
    except NOT_UNDERSTOOD as error:
        return error


def _missing_before(reader: Reader, lines: Sequence[bytes]) -> int:
    """The number of lines before the first of these, of any process, by its index; 0 without an index."""
    unreadable = 0
    for line in lines:
        event = _read(reader, line)
        if isinstance(event, Event):
            return max(event.index - unreadable, 0)
        unreadable += event is not None
    return 0


def _take(parser: _BlockParser, position: int, line: bytes, event: Event | Exception | None, last: bool) -> None:
    if event is not None:
        try:
            parser.take(position, event, line.strip())
        except NOT_UNDERSTOOD as error:
            cut_off = last and error is event  # not where its value alone is not understood
            parser.damaged(position, f"{'cut off in the middle' if cut_off else 'not understood'} ({error})", line)


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


class _BlockParser:
    """The loop's state: rows done, pairs of plain lines, and per process the invocation that is open (None: a plain line)."""

    def __init__(self, reader: Reader, block: Block, file: str, parsed: ParsedBlock, known: PlainLines | None) -> None:
        self._reader, self._block, self._file, self._parsed, self._known = reader, block, file, parsed, known
        self._rows = OperationRows()
        self._pairs: list[tuple[int, int]] = []
        self._open: dict[int, tuple[int, Event | None, bytes]] = {}
        self._indexes: list[tuple[int, int]] = []  # position of an invocation, and its index
        self._others: list[tuple[int, int, int, int]] = []  # position, process, index and time of lines that are not plain
        self._process, self._index, self._time = (
            known.number(name) if known else np.empty(0, dtype=np.int64) for name in ("process", "index", "time")
        )
        self._timed = len(self._time) > 0
        self._together = np.empty((2, 0), dtype=np.int64)  # the pairs that were taken at once

    def damaged(self, position: int, why: str, line: bytes) -> None:
        """A line that cannot be read."""
        gap = Gap(file=self._file, line=self._block.line(position), why=why, evidence=_evidence(line))
        self._parsed.damage.append(gap)

    def take_pairs(self, known: PlainLines, read: Mapping[int, Event | Exception | None]) -> list[int]:
        """Take in at once what is an invocation and next its completion, both plain. Returns the lines that are left.

        Only right behind another such pair of the process, for then nothing of it is open. read: the lines that are not plain.
        """
        lines, processes = np.flatnonzero(known.rows >= 0), set(np.unique(self._process).tolist())
        others = [(at, event.process) for at, event in read.items() if isinstance(event, Event) and event.process in processes]
        at, process = np.hstack([[lines, self._process], np.array(others, dtype=np.int64).reshape(-1, 2).T])
        order = np.lexsort((at, process))
        type_ = np.append(known.type, np.full(len(others), -1))[order]
        same = np.diff(process[order]) == 0
        pair = same & (type_[:-1] == INVOKE) & (type_[1:] > INVOKE)
        begun = 2 + np.flatnonzero(pair[2:] & pair[:-2] & same[1:-1])
        self._together = np.stack([at[order][begun], at[order][begun + 1]])
        left = np.ones(len(known.rows), dtype=np.bool_)
        left[self._together] = False
        return np.flatnonzero(left).tolist()  # type: ignore[no-any-return]

    def saw(self, position: int, event: Event | Exception | None) -> None:
        """Take the event of some line, or the error of it; None for no line at all."""
        if self._known is not None and self._known.rows[position] >= 0:
            return  # its index is known
        if isinstance(event, Event):
            process = event.process if isinstance(event.process, int) else NEMESIS
            self._others.append((position, process, event.index, event.time))
        else:
            self._parsed.unreadable += event is not None

    def take_plain(self, position: int, line: bytes) -> bool:
        """Take in a plain line without reading it: an invocation, or the completion of one. False: it has to be read."""
        row = self._known.rows[position] if self._known else -1
        if self._known is None or row < 0:
            return False
        process = int(self._process[row])
        if self._known.type[row] == INVOKE:
            self._invoked(process, position, None, line, int(self._index[row]))
            return True
        begun = self._open.get(process)
        if begun is None or begun[1] is not None:
            return False
        self._pairs.append((begun[0], position))
        del self._open[process]
        return True

    def take(self, position: int, event: Event | Exception, line: bytes) -> None:
        """Take in what one line says. A completion that raises leaves its operation open: nobody knows how it ended."""
        if isinstance(event, Exception):
            raise event
        if event.time < 0 and self._timed:
            raise ValueError("it has no time, and the lines before it have")
        self._timed = event.time >= 0
        if event.process.__class__ is not int:
            self._parsed.nemesis.append(self._seen(position, event, line))
        elif event.f in KNOWN:
            self._client(int(event.process), position, event, line)
        elif event.f not in IGNORED:
            self._parsed.unknown_functions.setdefault(event.f, self._block.line(position))
            if event.f not in self._parsed.unknown_values and self._reader.value(event) is not None:
                self._parsed.unknown_values.add(event.f)

    def _client(self, process: int, position: int, event: Event, line: bytes) -> None:
        if event.type == "invoke":
            self._invoked(process, position, event, line, event.index)
        elif event.type not in ("ok", "fail", "info"):
            raise ValueError(f"unknown type {event.type!r}")
        elif process in self._open:
            self._completed(position, event, line)
            del self._open[process]
        elif process in self._parsed.touched:
            self._alone(position, event)
        else:
            self._parsed.early.append(self._seen(position, event, line))
        self._parsed.touched.add(process)

    def _invoked(self, process: int, position: int, event: Event | None, line: bytes, index: int) -> None:
        self._unfinished(self._open.pop(process, None))
        self._open[process] = (position, event, line)
        self._indexes.append((position, index))
        self._parsed.touched.add(process)

    def _completed(self, position: int, event: Event, line: bytes) -> None:
        begun, read, planned = self._open[int(event.process)]
        invoked = read or self._reader.event(planned)
        value, asked_for = self._reader.value(event), self._reader.value(invoked)
        value = asked_for if value is None else value
        self._rows.add(self._block.first + begun, invoked, event, value, self._block.first + position)
        self._parsed.damage += compared((invoked.f, event.f), asked_for, value, self._file, self._block.line(position))

    def _alone(self, position: int, event: Event) -> None:
        """A completion where nothing of its process is open: its invocation is missing, or it is a second one."""
        line, value = self._block.line(position), self._reader.value(event)
        self._rows.add(self._block.first + position, event, event, value)
        self._parsed.damage.append(without_invocation(self._file, line, WORKERS_LINE))

    def _unfinished(self, opened: tuple[int, Event | None, bytes] | None) -> None:
        """An invocation that never got a completion. Trouble with it belongs to its own line."""
        if opened is None:
            return
        position, read, line = opened
        try:
            invoked = read or self._reader.event(line)
            self._rows.add(self._block.first + position, invoked, None, self._reader.value(invoked))
        except NOT_UNDERSTOOD as error:
            self.damaged(position, f"not understood ({error})", line)

    def _seen(self, position: int, event: Event, line: bytes) -> PlacedEvent:
        value, event.value = self._reader.value(event), None
        return PlacedEvent(self._block.first + position, self._block.line(position), event, value)

    def finished(self) -> ParsedBlock:
        """The parsed block, its rows spilled."""
        parsed = self._parsed
        for process, (position, event, line) in self._open.items():
            try:
                parsed.opened[process] = self._seen(position, event or self._reader.event(line), line)
            except NOT_UNDERSTOOD as error:
                self.damaged(position, f"not understood ({error})", line)
        numbers = self._numbers()
        at, process, indexes, time = self._moments()
        self._follow(at, process, indexes, time)
        known = np.unique(indexes[indexes >= 0])
        parsed.numbered, parsed.unnumbered = len(known), int((indexes < 0).sum())
        parsed.repeated = len(indexes) - parsed.unnumbered - parsed.numbered
        if len(known):
            parsed.lowest, parsed.highest = int(known[0]), int(known[-1])
        if len(numbers):
            rising = numbers[0] >= 0 and (numbers[1:] > numbers[:-1]).all()
            parsed.indexes = (int(numbers[0]), int(numbers[-1])) if rising else (-1, -1)
        for table, path in zip(self._tables(), (parsed.ops, parsed.mops), strict=True):
            write(table, path)
        parsed.damage.sort(key=lambda gap: gap.line)
        return parsed

    def _moments(self) -> Any:
        """The position, process, index and time of every line."""
        plain = np.flatnonzero(self._known.rows >= 0) if self._known else np.empty(0, dtype=np.int64)
        seen = np.array(self._others, dtype=np.int64).reshape(-1, 4).T
        return np.hstack([np.stack([plain, self._process, self._index, self._time]), seen])

    def _follow(self, at: Ints, process: Ints, index: Ints, time: Ints) -> None:
        """Go through the lines of each process."""
        order = np.lexsort((at, process))
        order = order[process[order] != NEMESIS]
        at, process, index, time = at[order], process[order], index[order], time[order]
        same = process[1:] == process[:-1]
        back = same & (index[1:] >= 0) & (index[1:] <= index[:-1]) | same & (time[1:] >= 0) & (time[1:] < time[:-1])
        self._parsed.backward = sorted(map(self._block.line, at[1:][back].tolist()))
        who, begins = np.unique(process, return_index=True)
        for ends, places in ((self._parsed.first, begins), (self._parsed.last, np.append(begins[1:], len(at)) - 1)):
            for process_number, place in zip(who.tolist(), places.tolist(), strict=False):
                ends[process_number] = Moment(int(index[place]), int(time[place]), self._block.line(int(at[place])))

    def _numbers(self) -> Ints:
        """The indexes of all invocations, in the order of their lines."""
        at, number = np.array(self._indexes, dtype=np.int64).reshape(-1, 2).T
        if self._known:
            at = np.append(at, self._together[0])
            number = np.append(number, self._index[self._known.rows[self._together[0]]])
        return np.asarray(number[np.argsort(at)])

    def _tables(self) -> tuple[pa.Table, pa.Table]:
        """Operations and their micro-operations, plain lines among the others; the parsed block learns what they hold."""
        parsed, rows = self._parsed, self._rows
        parsed.senders, parsed.functions, parsed.together = rows.senders, rows.functions, rows.together
        begun, ended = np.hstack([self._together, np.array(self._pairs, dtype=np.int64).reshape(-1, 2).T])
        if self._known is None or not len(begun):
            return rows.tables()
        where = self._known.rows
        operations = Operations(self._known, where[begun], where[ended], self._block.first + begun)
        parsed.senders |= operations.senders
        parsed.functions += operations.functions
        parsed.together |= operations.together
        for gap, which in zip((another, unnamed, others), operations.unlike, strict=True):
            parsed.damage += [gap(self._file, line) for line in map(self._block.line, ended[which].tolist())]
        ops, mops = (pa.concat_tables(both) for both in zip(rows.tables(), operations.tables(), strict=True))
        return in_order(ops, mops.unify_dictionaries())
