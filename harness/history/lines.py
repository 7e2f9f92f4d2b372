"""The lines of a history file as typed values (docs/history.md), and the bytes of a file as they are, also of one cut short.

A line that is not what the format says is damaged as a whole: nothing of it is believed. The types are made from the declared
columns (`harness.api.history`), so that what is read fits into the tables.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, BinaryIO, NamedTuple

import msgspec

from fencepost.harness.api import history
from fencepost.harness.api.beneath import reading
from fencepost.harness.api.evidence import HistoryFile
from fencepost.harness.api.files import regular

GZIP = b"\x1f\x8b"
MARK = b"\xef\xbb\xbf"  # a byte order mark, as some editors put before UTF-8
FORMAT = "fencepost-history"
LONGEST_HEADER = 1 << 16
SPACE = 0x20  # no white space comes after it
MOST_UNPACKED, LEAST_UNPACKED = 100, 16 << 20  # a file unpacks to so many times its size, and always to so many bytes
TOO_MUCH = f"it unpacks to more than {MOST_UNPACKED} times its size, as no history does"
_PACKING = 1 << 16  # bytes that gzip may add
_BREAK = re.compile(rb"\r\n|\r|\n")
_LINES = re.compile(rb"\s+|[^\r\n]+(?:\r\n|\r|\n)?")
CUT_OFF = "cut off while it was written (the worker was killed)"
HEADER, PROCESS, INVOCATION, COMPLETION = history.HEADER, history.PROCESS, history.INVOCATION, history.COMPLETION


# --------------------------------------------------------------------------------------------------
# Bytes
# --------------------------------------------------------------------------------------------------
def opened(path: Path) -> BinaryIO:
    """The content of a file from anywhere, decompressed when it is gzip (its content decides). Raises OSError, EOFError.

    Reading it raises OSError when it unpacks to more than `unpacked_most`.
    """
    return _unpacked(open(regular(path), "rb"))


def unpacked_most(packed: int) -> int:
    """The most bytes that a gzip file of so many bytes is unpacked to: a history of ours has four to twenty times as many."""
    return max(LEAST_UNPACKED, MOST_UNPACKED * packed)


def _unpacked(file: BinaryIO) -> BinaryIO:
    packed = file.read(len(GZIP)) == GZIP
    file.seek(0)
    return _Unpacked(file) if packed else file  # type: ignore[return-value]


class _Unpacked(gzip.GzipFile):
    """The content of a gzip file, as far as `unpacked_most` allows."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(fileobj=file, mode="rb")
        self._file, self._most = file, unpacked_most(os.fstat(file.fileno()).st_size)

    def read(self, size: int | None = -1) -> bytes:
        return self._bounded(super().read(self._most + 1 if size is None or size < 0 else size))

    def readline(self, size: int | None = -1) -> bytes:
        return self._bounded(super().readline(self._most + 1 if size is None or size < 0 else size))

    def _bounded(self, content: bytes) -> bytes:
        if self.tell() > self._most:
            raise OSError(TOO_MUCH)
        return content

    def close(self) -> None:
        super().close()
        self._file.close()


def content_of(directory: Path, name: str, most: int) -> tuple[bytes, str]:
    """The content of a file beneath a run's directory, decompressed when it is gzip, as far as it goes but at most so many bytes;
    and why it goes no further.

    Raises OSError.
    """
    with reading(directory, name) as file:
        content = file.read(most)
        if content[: len(GZIP)] != GZIP:
            return content, ""
        allowed = unpacked_most(os.fstat(file.fileno()).st_size)
        content += file.read(most + _PACKING)  # what is packed may be a little larger than before
    unpacked, broken = _members(content, min(most, allowed + 1))
    return (unpacked[:allowed], TOO_MUCH) if len(unpacked) > allowed else (unpacked, broken)


def _members(content: bytes, most: int) -> tuple[bytes, str]:
    """At most so many bytes of the members of a gzip file, and why there are no more."""
    parts: list[bytes] = []
    while content[: len(GZIP)] == GZIP and most:
        unpacker = zlib.decompressobj(wbits=31)
        try:
            parts.append(unpacker.decompress(content, most))
        except zlib.error as error:
            return b"".join(parts), f"its compressed content is damaged ({error})"
        most -= len(parts[-1])
        if not unpacker.eof and most:
            return b"".join(parts), "its compressed content is cut short"
        content = unpacker.unused_data
    return b"".join(parts), ""


class Span(NamedTuple):
    """Whole lines of a content that follow one another.

    before: how many lines come before them.
    start: the place of the first byte.
    stop: the place behind the last.
    """

    before: int
    start: int
    stop: int


def numbered(content: bytes, span: Span | None = None) -> Iterator[tuple[int, bytes]]:
    """The lines of a content, or of a span of it, each made when it is wanted: number from 1, and the line with its break.

    Blank lines that follow one another are one entry, with the number of the last: there may be a thousand million.
    """
    number, start, stop = span or Span(0, len(MARK) if content.startswith(MARK) else 0, len(content))
    for match in _LINES.finditer(content, start, stop):
        raw = match[0]
        if count := 1 if raw[0] > SPACE else line_count(raw):
            number += count
            yield number, raw


def line_count(raw: bytes) -> int:
    """The number of lines in an entry of `numbered`: 1, or how many blank lines it is."""
    return 1 if raw.strip() else breaks(raw, 0, len(raw))


def breaks(content: bytes, start: int, stop: int) -> int:
    """The number of line breaks between two places."""
    return content.count(b"\n", start, stop) + content.count(b"\r", start, stop) - content.count(b"\r\n", start, stop)


def whole_lines(content: bytes, start: int, stop: int) -> tuple[int, int]:
    """The begin and end of the lines that lie wholly between two places; equal where there is none."""
    if start and not _is_line_start(content, start):
        ending = _BREAK.search(content, start, stop)
        start = ending.end() if ending else stop
    if stop < len(content) and not _is_line_start(content, stop):
        last = stop - 1 if content[stop - 1 : stop + 1] == b"\r\n" else stop
        stop = max(start, 1 + max(content.rfind(b"\n", start, last), content.rfind(b"\r", start, last)))
    return min(start, stop), stop


def _is_line_start(content: bytes, place: int) -> bool:
    before, after = content[place - 1 : place], content[place : place + 1]
    return before == b"\n" or (before == b"\r" and after != b"\n")


# --------------------------------------------------------------------------------------------------
# Types
# --------------------------------------------------------------------------------------------------
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_TYPES: dict[str, Any] = {"int32": Int32, "int64": Int64, "string": str, "bool": bool}


def column_type(name: str) -> Any:
    """The type of the values of a column, by Arrow's name of it."""
    if name.startswith("list of "):
        return list[column_type(name.removeprefix("list of "))]  # type: ignore[misc]
    return _TYPES.get(name) or _struct(name)


def _struct(name: str) -> Any:
    fields = [(column.name, column_type(column.type) | None, None) for column in history.STRUCTS[name]]
    _TYPES[name] = msgspec.defstruct(name, fields)
    return _TYPES[name]


class Send(msgspec.Struct, array_like=True, tag="send"):
    """A record that is to be sent, or was."""

    partition: str
    v: Int64
    offset: Int64 | None = None
    began: Int64 | None = None
    ended: Int64 | None = None


class Poll(msgspec.Struct, array_like=True, tag="poll"):
    """The records of a poll: (offset, v) by partition (None: not yet, or not known), when, and which records were strange."""

    got: dict[str, list[tuple[Int64, Int64]]] | None = None
    returned: Int64 | None = None
    strange: list[column_type("strange")] = []  # type: ignore[valid-type]


class Input(msgspec.Struct, array_like=True, tag="input"):
    """A record that the operation processes; the sends up to the next input are what it makes of it."""

    partition: str
    offset: Int64
    v: Int64


class Output(msgspec.Struct, array_like=True, tag="output"):
    """Records of a program of somebody's own that a poll returned: (offset, v of the input that it names) by partition."""

    got: dict[str, list[tuple[Int64, Int64]]]
    returned: Int64
    strange: list[column_type("strange")] = []  # type: ignore[valid-type]


class Count(msgspec.Struct, array_like=True, tag="count"):
    """The program's state by such records: (offset, inputs counted) by partition."""

    got: dict[str, list[tuple[Int64, Int64]]]


class Entries(msgspec.Struct, array_like=True, tag="entries"):
    """Records of a connector, or of Connect's own topics, in one partition.

    rows: offset, timestamp (ms), producer id, producer epoch, transactional, kind, name, number.
    """

    partition: str
    rows: list[tuple[Int64, Int64 | None, Int64 | None, Int32 | None, bool | None, str, str, Int64]]


class Offset(msgspec.Struct, array_like=True, tag="offset"):
    """A group offset that the operation commits: the next record to be read."""

    partition: str
    offset: Int64


_REBALANCES = list[tuple[str, list[str]]]
Line: Any = msgspec.defstruct(
    "Line",
    [
        *(
            (column.name, column_type(column.type) | None, None)
            for column in history.OPERATIONS
            if column.line and column.name != "op"
        ),
        ("op", Int32 | None, None),  # as the checks hold it
        ("type", str | None, None),
        ("value", list[Send | Poll | Input | Offset | Output | Count | Entries] | dict[str, Any] | None, None),
        ("rebalances", _REBALANCES | None, None),
        ("format", str | None, None),
        ("version", int | None, None),
        ("run", str | None, None),
        ("wall", Int64 | None, None),
    ],
)
_FINAL_READ = dict[str, tuple[Int64 | None, Int64 | None, Int64 | None]]
_OFFSETS = dict[str, tuple[Int64 | None, Int64 | None]]
_SETTLED: Any = msgspec.defstruct("Settled", [("partitions", _OFFSETS), ("bound_s", float, 0.0)])
_GROUP: Any = msgspec.defstruct("Group", [("offsets", dict[str, Int64 | None])])
_DRAIN: Any = msgspec.defstruct(
    "Drain",
    [
        ("group", str | None),
        ("outputs", tuple[Int64, Int64]),
        ("output_partitions", list[str]),
        ("ordered", bool),
        ("drained", bool),
    ],
)
_DEMANDED = {HEADER: ("version",), INVOCATION: ("process", "op", "f", "time"), COMPLETION: ("process", "op", "time")}
_COMPLETED = frozenset(("ok", "fail", "info"))
_decode = msgspec.json.Decoder(Line).decode


def decoded_as(decode: Callable[[bytes], Any], raw: bytes) -> Any:
    """One line by a decoder. Raises ValueError with the reason why it is not what the decoder expects.

    The decoder skips names that it does not know; a known name with a damaged byte in it would be one of those.
    """
    try:
        raw.decode()
        return decode(raw)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8: {error.reason}") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def decoded(raw: bytes) -> tuple[str, Any]:
    """One line: what it is (`HEADER`, `PROCESS`, `INVOCATION`, `COMPLETION`), and its content.

    Raises ValueError with the reason why it is not what the format says.
    """
    line = decoded_as(_decode, raw)
    which = _which(line)
    if which == COMPLETION and isinstance(line.value, dict):
        _demand_content(line.f, line.type, line.value)
    if lacking := [name for name in _DEMANDED.get(which, ()) if getattr(line, name) is None]:
        raise ValueError(f"it lacks {', '.join(lacking)}")
    return which, line


def demand_names_once(raw: bytes, nested: bool = True) -> None:
    """Raises ValueError for an object of JSON with a name twice: a decoder keeps the last value, and nobody knows which is meant.

    nested: look at the objects within, too.
    """
    parts = raw.split(b'"')
    names = [text for text, behind in zip(parts[1::2], parts[2::2], strict=False) if b":" in behind]  # where nothing is escaped
    if len(set(names)) == len(names) and b"\\" not in raw:
        return
    try:
        outermost = json.loads(raw, object_pairs_hook=_pairs_once if nested else list, parse_int=str, parse_float=str)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not nested:
        _pairs_once(outermost)


def _pairs_once(pairs: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    names = [name for name, _ in pairs]
    if twice := next((name for name, count in Counter(names).items() if count > 1), None):
        raise ValueError(f"it has the name {twice[:40]!r} twice")
    return pairs


def is_documented(f: str | None, outcome: str | None, detail: str) -> bool:
    """Return whether the `detail` of a row is what docs/history.md says of its function."""
    try:
        value = msgspec.json.decode(detail, type=dict[str, Any])
        if "rebalances" in value:
            msgspec.convert(value["rebalances"], _REBALANCES)
        elif value:
            _demand_content(f, outcome, value)
    except (ValueError, RecursionError):
        return False
    return True


def _demand_content(f: str | None, outcome: str | None, value: dict[str, Any]) -> None:
    """Raises ValueError when what a final read, settling, a group or a program said is not as documented."""
    if f == "final-read":
        msgspec.convert(value, _FINAL_READ)
    elif f == "settle":
        msgspec.convert(value, _SETTLED if "partitions" in value else _OFFSETS)
    elif f in ("committed", "group-offsets") and outcome == "ok":
        msgspec.convert(value, _GROUP)
    elif f == "drain" and "outputs" in value:
        msgspec.convert(value, _DRAIN)


def _which(line: Any) -> str:
    """Raises ValueError for a line of no kind."""
    if line.format == FORMAT:
        return HEADER
    if line.type in ("process", "invoke"):
        return PROCESS if line.type == "process" else INVOCATION
    if line.type in _COMPLETED:
        return COMPLETION
    raise ValueError(f"unknown type {line.type!r}")


# --------------------------------------------------------------------------------------------------
# Whose file it is
# --------------------------------------------------------------------------------------------------
def history_file(directory: Path, place: str) -> HistoryFile:
    """A file beneath a run's directory by its header, and its first process line. What cannot be read is not known."""
    history = HistoryFile(PurePosixPath(place).name)
    try:
        with _unpacked(reading(directory, place)) as file:
            for _ in range(2):
                raw = file.readline(LONGEST_HEADER).removeprefix(MARK)
                which, line = decoded(raw)
                if which == HEADER:
                    history = replace(history, run=line.run, slot=line.slot, node=line.node, role=line.role)
                elif which == PROCESS:
                    history = replace(history, isolation=line.isolation)
    except (OSError, EOFError, zlib.error, ValueError):
        return history
    return history
