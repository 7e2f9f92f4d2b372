"""What the numbers of a record's lines show: whether lines are missing, and up to when the record is whole.

A proxy numbers the lines of a file from 0. The first one names its brokers, the last one says how many lines there are, and each
was written before its message went on. So what a missing line was about had no effect until the line before it was written, and
the record is whole up to then. Older proxies did not number them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from fencepost.harness.api.wire import NodeRecord
from fencepost.harness.api.words import plural

BEGIN, END = "begin", "end"  # `at` of the first and of the last line
NO_END = "it has no last line: the proxy still runs, was killed, or lines at the end are missing"
REPLACED = "its proxy had ended, and another one took its place"


class NumberedLine(Protocol):
    """A line, as far as it matters here."""

    at: str
    line: int | None
    nodes: list[str] | None
    first: int | None
    lines: int | None
    node: str | None

    @property
    def times(self) -> Sequence[int]: ...


L = TypeVar("L", bound=NumberedLine)


@dataclass
class Continuity:
    """What the lines of a file show, as they are taken.

    nodes: the brokers of its proxy.
    began: the time of its first line (ns); None: it has none.
    first: the number before that of the first request; above 0 the proxy took the place of another one.
    latest: the latest time in the lines before a gap (ns).
    why: why it is not whole; empty: no gap was seen.
    """

    nodes: set[str] = field(default_factory=set)
    began: int | None = None
    first: int = 0
    latest: int = 0
    why: str = ""
    _next: int = 0
    _numbered: bool | None = None  # None: there is no line yet
    _ended: bool = False

    @property
    def numbered(self) -> bool:
        """True if its lines have numbers."""
        return self._numbered is True

    @property
    def empty(self) -> bool:
        """True if there is no line."""
        return self._numbered is None

    @property
    def broken(self) -> bool:
        """True if lines before are missing."""
        return bool(self.why)

    def through(self, lines: Iterable[L]) -> Iterator[L]:
        """The lines of a file without its first and last one, as they are taken.

        Raises ValueError: one is there twice, or was moved.
        """
        for line in lines:
            self._take(line)
            if line.at not in (BEGIN, END):
                yield line
        if self.numbered and not self._ended and not self.why:
            self.why = NO_END

    def _take(self, line: NumberedLine) -> None:
        if self._numbered is None:
            self._numbered = line.line is not None
        if self._numbered != (line.line is not None):
            raise ValueError("some lines have a number, and others have none: it was put together of several records")
        if line.line is not None:
            self._number(line.line)
        if line.node is not None:
            self.nodes.add(line.node)
        if line.at == BEGIN:
            self.nodes |= set(line.nodes or ())
            self.first = line.first or 0
        self._time(line.times)
        self._ended = line.at == END
        if self._ended and line.lines != self._next and not self.why:
            self.why = f"its last line says that there are {line.lines} lines, and there are {self._next}"

    def _number(self, number: int) -> None:
        if number < self._next or self._ended:
            raise ValueError(f"line number {number} is there twice, or was moved")
        if number > self._next and not self.why:
            missing = number - self._next
            where = f"behind line number {self._next - 1}" if self._next else "at its beginning"
            self.why = f"{plural(missing, 'line is', 'lines are')} missing {where}"
        self._next = number + 1

    def _time(self, times: Sequence[int]) -> None:
        if times and self.began is None:
            self.began = times[0]
        if times and not self.why:
            self.latest = max(self.latest, *times)

    @property
    def end(self) -> NodeRecord:
        """Up to when it is whole."""
        return NodeRecord(until_ns=self.latest + 1 if self.latest else 0, why=self.why) if self.why else NodeRecord()


def whole_until(files: Sequence[Continuity], replaced: Mapping[str, int]) -> dict[str, NodeRecord]:
    """Up to when the record of each broker is whole, by all files.

    replaced: brokers whose requests have numbers of several proxies, one in the place of another, and when the last request of
    the first one came (ns); -1: there is none of the first one.
    """
    numbered = any(file.numbered for file in files)
    made: dict[str, NodeRecord] = {}
    for node in sorted({node for file in files for node in file.nodes}):
        own = sorted((file for file in files if node in file.nodes), key=lambda file: (file.first, file.began or 0))
        if numbered and own[0].empty:
            made[node] = NodeRecord(until_ns=0, why="its file is empty")
        elif not own[0].empty:
            made[node] = _of_node(own, replaced.get(node))
    return made


def _of_node(own: Sequence[Continuity], replaced: int | None) -> NodeRecord:
    """By a broker's files, that of the first proxy first. What passed between two proxies is not known."""
    first = own[0]
    if first.first or replaced == -1:
        return NodeRecord(until_ns=0, why="the record of the proxy before it is missing")
    if first.why and (len(own) == 1 or first.why != NO_END):
        return first.end
    if len(own) > 1:
        return NodeRecord(until_ns=first.latest + 1, why=REPLACED)
    return NodeRecord() if replaced is None else NodeRecord(until_ns=replaced + 1, why=REPLACED)
