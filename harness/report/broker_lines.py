"""Brokers' own words: the WARN and ERROR entries of their logs around a moment, and who led and coordinated what.

A log is a file of a run that may come from anywhere. It is opened beneath the run's directory, where no link is followed and only
regular files are opened. At most `MOST_BYTES` of it are read; of a longer one `AROUND_BYTES` for each stretch of time, by
bisection.

Brokers write UTC: those of ours are started with `user.timezone=UTC`. Two forms are known, that of slf4j's simple logger
(`2026-11-25T14:32:08.114Z [thread] [ERROR] logger - message`) and that of log4j in Kafka's images
(`[2026-11-25 14:32:08,114] ERROR message (logger)`). What follows an entry without a date belongs to it: its exception and the
stack trace.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

from fencepost.harness.api.beneath import names, reading
from fencepost.harness.api.broker_log import BROKER_LOG, DATED, ELECTED, INITIALISED, date_ms
from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.secrets import mask

LOG = BROKER_LOG
MOST_BYTES, AROUND_BYTES = 32 << 20, 4 << 20  # of a log that is read whole; of a longer one around a moment
_BLOCK, _MOST_BLOCKS = 1 << 16, 16  # in which a dated line must be, where a long log is searched
_MOST_BROKERS, _MOST_STRETCHES, _MOST_FOLDERS = 64, 24, 1_000
_OTHERS = ("external", "foreign")  # kinds of clusters whose brokers are not ours
_TEXT, _MESSAGE = 4_096, 600  # of a line that is looked at, and that is shown
_LEVELS = frozenset(("WARN", "ERROR", "FATAL"))
_SKIPPED = "Couldn't find leader endpoint"  # INFO: a coordinator writes no marker to a partition (deleted, or KAFKA-20734)
_SIMPLE = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})Z \[(?:[^\]]|\](?! \[))*\] \[([A-Z]+)\] (\S+) - (.*)$", re.DOTALL)
_LOG4J = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] ([A-Z]+) (.*?)(?: \(([\w.$]+)\))?$", re.DOTALL)
_EXCEPTION = re.compile(r"^(?:Caused by: )?(?:[\w$]+\.)+[\w$]*(?:Exception|Error|Throwable)\b")
_LEADER = re.compile(r"Leader (\S+) with topic id \S+ starts at leader epoch (\d+)")
_TRUNCATED = re.compile(r"Log partition=([^,\s]+)[^\]]*\] Truncating to offset (\d+)")
_CONTROLLER = re.compile(r"\[RaftManager id=\d+\] Completed transition to Leader\w*\(.*?epoch=(\d+)")
_TELLING = (
    "Completed transition to Leader",
    "Truncating to offset",
    "starts at leader epoch",
    "Initialized transactionalId",
    "Elected as the txn coordinator",
    _SKIPPED,
)


@dataclass(frozen=True, kw_only=True)
class BrokerLine:
    """An entry of a broker's log.

    ms: its date, milliseconds since 1970 by the broker's clock.
    level: WARN, ERROR or FATAL; INFO where a coordinator skips a marker.
    exception: the first line that follows and names an exception; empty: none.
    more: how many other lines follow (of a stack trace).
    ahead_ms: how far a fault had set the broker's clock ahead (behind: negative).
    """

    node: str
    ms: int
    level: str
    logger: str
    message: str
    exception: str = ""
    more: int = 0
    ahead_ms: int = 0

    @property
    def skips_marker(self) -> bool:
        """A coordinator writes no marker to a partition that it takes for deleted."""
        return _SKIPPED in self.message

    @property
    def text(self) -> str:
        """Message and exception."""
        return f"{self.message} {self.exception}" if self.exception else self.message


@dataclass(frozen=True, kw_only=True, order=True)
class Placement:
    """A broker that became the leader of a partition or the coordinator of a transactional id, or that truncated a partition, by
    its own log.

    what: `leader`, `coordinator` (of a transactional id), `elected` (coordinator of a partition of `__transaction_state`), or
        `truncated`.
    name: the partition or the transactional id.
    epoch: of the leader, or of the producer that was initialised.
    producer_id: of the producer that was initialised.
    where: the partition of `__transaction_state` that holds the transactional id.
    offset: where the log of a truncated partition ends now.
    """

    ms: int
    what: str
    name: str
    node: str
    epoch: int = -1
    producer_id: int = -1
    where: str = ""
    offset: int = -1


@dataclass(frozen=True, kw_only=True)
class NodeLog:
    """What was read of a broker's log. problem: why there is nothing, or not all; empty: nothing is wrong.

    first_ms, last_ms: the dates between which it was read; None: there is no dated line.
    whole: it was read from its beginning to its end.
    """

    node: str
    lines: tuple[BrokerLine, ...] = ()
    placements: tuple[Placement, ...] = ()
    problem: str = ""
    first_ms: int | None = None
    last_ms: int | None = None
    whole: bool = True


@dataclass(frozen=True)
class BrokerLogs:
    """The logs of a run's brokers, around some moments."""

    logs: tuple[NodeLog, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(log.node for log in self.logs)

    def between(self, start_ms: int, stop_ms: int, nodes: Iterable[str] | None = None) -> list[BrokerLine]:
        """The WARN and ERROR entries of this time, in order; of these nodes alone."""
        wanted = None if nodes is None else set(nodes)
        chosen: list[BrokerLine] = []
        for log in self.logs:
            if wanted is None or log.node in wanted:
                dates = [line.ms for line in log.lines]
                chosen += log.lines[bisect_left(dates, start_ms) : bisect_right(dates, stop_ms)]
        return sorted(chosen, key=lambda line: (line.ms, line.node))

    def gaps(self, start_ms: int, stop_ms: int) -> list[str]:
        """Sentences about the logs that cannot tell what happened in this time."""
        return [sentence for log in self.logs if (sentence := _gap(log, start_ms, stop_ms))]

    def leader(self, partition: str, ms: int) -> Placement | None:
        """The last broker that said it led a partition, before a moment."""
        return self._last("leader", partition, ms)

    def coordinator(self, transactional_id: str, ms: int) -> Placement | None:
        """The coordinator of a transactional id at a moment: who initialised it last, or was elected for its partition since."""
        last = self._last("coordinator", transactional_id, ms)
        elected = self._last("elected", last.where, ms) if last else None
        return replace(last, node=elected.node) if last and elected and elected.ms > last.ms else last

    def _last(self, what: str, name: str, ms: int) -> Placement | None:
        placements = [
            place for log in self.logs for place in log.placements if (place.what, place.name) == (what, name) and place.ms <= ms
        ]
        return max(placements, default=None, key=lambda place: (place.ms, place.epoch))


def broker_logs(run: Run, stretches: Sequence[tuple[int, int]], known: Iterable[str] = ()) -> BrokerLogs:
    """The logs of a run's brokers, read in these stretches of time (ms since 1970) at least.

    known: brokers of the run, as far as they are known from elsewhere.
    """
    nodes = list(dict.fromkeys([*brokers(run), *known]))[:_MOST_BROKERS]
    return BrokerLogs(tuple(_node_log(run, node, merged(stretches)) for node in nodes))


def brokers(run: Run) -> list[str]:
    """The brokers that a run had: those of its plan, and those that left a log."""
    try:
        folders = names(run.directory, RunFile.LOGS)[:_MOST_FOLDERS]
    except OSError:
        folders = []
    return list(dict.fromkeys([*_planned(run), *(name for name in folders if _has_log(run, name))]))[:_MOST_BROKERS]


def _has_log(run: Run, folder: str) -> bool:
    try:
        return LOG in names(run.directory, f"{RunFile.LOGS}/{folder}")
    except OSError:  # a log of the harness, or a link
        return False


def _planned(run: Run) -> list[str]:
    """Brokers of a cluster of ours, as far as the test says how many."""
    cluster = run.plan.get("cluster") or {}
    count: Any = (cluster.get("options") or {}).get("brokers")
    ours = cluster.get("kind") not in _OTHERS and isinstance(count, int) and not isinstance(count, bool)
    return [f"n{number}" for number in range(1, min(count, _MOST_BROKERS) + 1)] if ours else []


def merged(stretches: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches of time in order, those that touch as one."""
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(stretches):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return joined


# --------------------------------------------------------------------------------------------------
# Reading
# --------------------------------------------------------------------------------------------------
def _node_log(run: Run, node: str, stretches: Sequence[tuple[int, int]]) -> NodeLog:
    try:
        with reading(run.directory, f"{RunFile.LOGS}/{node}/{LOG}") as file:
            size = os.fstat(file.fileno()).st_size
            if size <= MOST_BYTES:
                return _parsed(node, [file.read(MOST_BYTES)])
            return _searched(node, file, size, stretches)
    except FileNotFoundError:
        return NodeLog(node=node, problem=f"there is no {RunFile.LOGS}/{node}/{LOG}")
    except OSError as error:
        return NodeLog(node=node, problem=f"{RunFile.LOGS}/{node}/{LOG} cannot be read: {error.strerror or error}")


def _parsed(node: str, parts: Iterable[bytes]) -> NodeLog:
    reader = _Reader(node)
    for part in parts:
        reader.take(part)
    return reader.finished()


def _searched(node: str, file: BinaryIO, size: int, stretches: Sequence[tuple[int, int]]) -> NodeLog:
    """A long log: its beginning, where leaders are first elected, and each stretch of time."""
    parts, problem = [_lines_at(file, 0, AROUND_BYTES)], ""
    for start, _ in stretches[:_MOST_STRETCHES]:
        place = _place_of(file, size, start)
        if place is None:
            problem = f"{RunFile.LOGS}/{node}/{LOG} has {size:,} bytes, and no dated lines were met where they were looked for"
            continue
        parts.append(_lines_at(file, place, AROUND_BYTES))
    if len(stretches) > _MOST_STRETCHES:
        problem = f"{RunFile.LOGS}/{node}/{LOG} has {size:,} bytes, and was read around the first {_MOST_STRETCHES} moments only"
    log = _parsed(node, parts)
    return replace(log, lines=tuple(sorted(set(log.lines), key=lambda line: line.ms)), problem=problem, whole=False)


def _lines_at(file: BinaryIO, place: int, most: int) -> bytes:
    """Whole lines from a place on."""
    file.seek(place)
    part = file.read(most)
    return part[: part.rfind(b"\n") + 1]


def _place_of(file: BinaryIO, size: int, ms: int) -> int | None:
    """A place before the first line that is not older than `ms`, near to it; None: dated lines are too far apart."""
    low, high = 0, size
    while high - low > AROUND_BYTES // 4:
        middle = (low + high) // 2
        met = _dated_after(file, middle, high)
        if met is None:
            return None
        if met < ms:
            low = middle
        else:
            high = middle
    return low


def _dated_after(file: BinaryIO, place: int, end: int) -> int | None:
    """The date of the first dated line after a place; None: there is none near."""
    file.seek(place)
    block = b""
    for _ in range(_MOST_BLOCKS):
        more = file.read(_BLOCK)
        block = block[-64:] + more
        match = DATED.search(block, block.find(b"\n") + 1 if place else 0)
        if match:
            return date_ms(match[1].decode("ascii"))
        if not more or file.tell() >= end:
            break
    return None


class _Reader:
    """Takes lines of a log, and keeps the entries that matter."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._lines: list[BrokerLine] = []
        self._placements: list[Placement] = []
        self._open: BrokerLine | None = None
        self._dates: list[int] = []

    def take(self, part: bytes) -> None:
        """Some whole lines."""
        for raw in part.split(b"\n"):
            if raw:
                self._line(raw[:_TEXT])
        self._close()

    def finished(self) -> NodeLog:
        """What was taken."""
        return NodeLog(
            node=self._node,
            lines=tuple(sorted(self._lines, key=lambda line: line.ms)),
            placements=tuple(self._placements),
            first_ms=min(self._dates, default=None),
            last_ms=max(self._dates, default=None),
        )

    def _line(self, raw: bytes) -> None:
        dated = DATED.match(raw)
        if dated is None:
            self._continue(raw)
            return
        self._close()
        ms = date_ms(dated[1].decode("ascii"))
        if ms is None:
            return
        self._dates = [min(ms, *self._dates[:1]), max(ms, *self._dates[-1:])] if self._dates else [ms, ms]
        if b"WARN" in raw or b"ERROR" in raw or b"FATAL" in raw or any(word.encode() in raw for word in _TELLING):
            self._entry(raw.decode("utf-8", errors="replace").rstrip("\r"), ms)

    def _entry(self, text: str, ms: int) -> None:
        level, logger, message = _level_logger_message(text)
        if level in _LEVELS or (level and _SKIPPED in message):
            self._open = BrokerLine(node=self._node, ms=ms, level=level, logger=logger, message=mask(message)[:_MESSAGE])
        self._placements += _placements(message, self._node, ms)

    def _continue(self, raw: bytes) -> None:
        """A line without a date: of the entry before it."""
        if self._open is None:
            return
        text = raw.decode("utf-8", errors="replace").rstrip("\r")
        if not self._open.exception and _EXCEPTION.match(text):
            self._open = replace(self._open, exception=mask(text)[:_MESSAGE])
        else:
            self._open = replace(self._open, more=self._open.more + 1)

    def _close(self) -> None:
        if self._open is not None:
            self._lines.append(self._open)
            self._open = None


def _level_logger_message(text: str) -> tuple[str, str, str]:
    if match := _SIMPLE.match(text):
        return match[2], match[3], match[4]
    if match := _LOG4J.match(text):
        return match[2], match[4] or "", match[3]
    return "", "", text


def _placements(message: str, node: str, ms: int) -> Iterator[Placement]:
    if match := _LEADER.search(message):
        yield Placement(ms=ms, what="leader", name=match[1], node=node, epoch=_number(match[2]))
    elif match := INITIALISED.search(message):
        yield Placement(
            ms=ms,
            what="coordinator",
            name=match[1],
            node=node,
            epoch=_number(match[3]),
            producer_id=_number(match[2]),
            where=match[4],
        )
    elif match := _CONTROLLER.search(message):
        yield Placement(ms=ms, what="controller", name="", node=node, epoch=_number(match[1]))
    elif match := ELECTED.search(message):
        yield Placement(ms=ms, what="elected", name=f"__transaction_state-{match[1]}", node=node, epoch=_number(match[2]))
    elif match := _TRUNCATED.search(message):
        yield Placement(ms=ms, what="truncated", name=match[1], node=node, offset=_number(match[2]))


def _number(digits: str) -> int:
    return int(digits[:18])


def _gap(log: NodeLog, start_ms: int, stop_ms: int) -> str:
    """Why a log cannot tell what happened in this time; empty: it can."""
    if log.problem:
        return log.problem
    if log.first_ms is None or log.last_ms is None:
        return f"{RunFile.LOGS}/{log.node}/{LOG} has no dated line"
    if log.last_ms < start_ms:
        return f"{RunFile.LOGS}/{log.node}/{LOG} ends before that"
    return f"{RunFile.LOGS}/{log.node}/{LOG} begins after that" if log.first_ms > stop_ms else ""
