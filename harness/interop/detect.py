"""Detection of a history's format, by its content; names and extensions are never believed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.files import demand_ending, regular
from fencepost.harness.api.run import RunFile
from fencepost.harness.history.lines import GZIP, opened
from fencepost.harness.history.merge import OPS_SCHEMA
from fencepost.harness.interop.blocks import elements, unmarked
from fencepost.harness.interop.chaos.log_lines import FIRST
from fencepost.harness.interop.jepsen import edn
from fencepost.harness.interop.jepsen.text_lines import TEXT_LINE

UNDERSTOOD = (
    "fencepost's JSON lines or Parquet (docs/history.md), or a Jepsen Kafka history as EDN or JSON, one operation per line or "
    "one vector of all, or as history.txt, or workload.log of Redpanda's chaos tests, or the record of `fencepost proxy`, its "
    "directory or a wire.parquet (docs/foreign-histories.md)"
)
FILES = ("history.edn", "history.json", "history.txt", "workload.log")  # of a directory of others, the fullest first
NEEDED = ("process", "op", "f", "type", "time", "end", "mops")
_BESIDE = frozenset(  # tables of a run that are no history
    (
        *(RunFile.RECEIPTS, RunFile.VALUES, RunFile.STORED, RunFile.WIRE),
        *(RunFile.PRESENT, RunFile.OPERATIONS, RunFile.ANOMALIES),
    )
)
RECORD = "wire-record"
PARTS = ("fencepost-jsonl", RECORD)  # formats of files that make a history together
EMPTY, UNREADABLE, UNKNOWN = "empty", "cannot be read", "not understood"
_LOOKED_AT = 64 << 10
_TRIED = 50
_LONG_RECORD_LINE = re.compile(r'\{("line":\d+,)?("sum":\d+,)?"at":"request","n":')
_LEADING = re.compile(rb"\A(?:[ \t\r\n,]|;[^\n]*\n)+")  # white space and EDN's comments before the first value


@dataclass(frozen=True)
class Format:
    """A format of histories.

    name: `fencepost-jsonl`, `fencepost-parquet`, `jepsen-edn`, `jepsen-json`, `jepsen-txt`, `chaos-log`, `wire-record`.
    array: one vector of all operations.
    """

    name: str
    array: bool = False

    @property
    def language(self) -> str:
        return self.name.rpartition("-")[2]


def located(path: Path) -> Path:
    """The history in a directory of others: the fullest of `FILES`, or the only file of lines, where these are another's; any
    other path as it is.

    Raises HistoryError.
    """
    try:
        if not path.is_dir():
            return path
        if named := next((path / name for name in FILES if (path / name).is_file()), None):
            return named
    except OSError as error:
        raise HistoryError(f"{path}: cannot be read: {error.strerror}") from error
    return path if _has_tables(path) else _only_file(path) or path


def _only_file(folder: Path) -> Path | None:
    """The file of lines that is a whole history by itself, as Jepsen's are; None where the lines are ours, or a proxy's.

    Raises HistoryError: there is another file beside it, which may be a part of a history too.
    """
    formats = {file: name for file in _histories(folder) if (name := _name_of(file)) != EMPTY}
    known = {file: name for file, name in formats.items() if name not in (UNREADABLE, UNKNOWN)}
    if not known:
        return None
    whole = next((file for file, name in known.items() if name not in PARTS), None)
    first = whole or next(iter(known))
    fitting = () if whole else (known[first], UNREADABLE, UNKNOWN)
    if other := next((file for file in formats if file != first and formats[file] not in fitting), None):
        one, two = (f"{file.relative_to(folder)} ({formats[file]})" for file in (first, other))
        raise HistoryError(f"{folder}: {one} and {two} are no parts of one history; give the file of one of them")
    return whole


def _name_of(file: Path) -> str:
    """The name of a file's format, by its content, or why it has none."""
    try:
        with opened(file) as lines:
            start = _LEADING.sub(b"", unmarked(lines).read(_LOOKED_AT))
    except (OSError, EOFError):
        return UNREADABLE
    found = _of_start(start)
    return found.name if found else UNKNOWN if start else EMPTY


def detect(path: Path) -> Format:
    """The format of a file, or of a directory of Parquet files, of JSON lines, or of Jepsen's.

    Raises HistoryError: none that is understood.
    """
    path = located(path)
    if not path.exists():
        raise HistoryError(f"{path}: there is no such file")
    if path.is_dir():
        return _directory(path)
    try:
        with opened(path) as file:
            start = unmarked(file).read(_LOOKED_AT)
    except (OSError, EOFError) as error:
        raise HistoryError(f"{path}: cannot be read: {error}") from error
    if start[:4] == b"PAR1":
        return _parquet(path)
    start = _LEADING.sub(b"", start)
    if not start:
        raise HistoryError(f"{path}: is empty; understood are {UNDERSTOOD}")
    found = _of_start(start)
    if found is None:
        raise HistoryError(f"{path}: is no history that fencepost understands: {UNDERSTOOD}; it begins with {start[:60]!r}")
    if found.name == RECORD:
        _demand_unpacked([path])
    return found


def _of_start(start: bytes) -> Format | None:
    """The format of a file that begins so, if it is one."""
    if FIRST.match(start):
        return Format("chaos-log")
    array = start[:1] in (b"[", b"(")
    lines = [start[begin:end].replace(b"\n", b" ") for begin, end, _ in elements(start)] if array else _lines(start)
    name = _of_lines(lines)
    return None if name is None else Format(name, array)


def _lines(start: bytes) -> list[bytes]:
    """The lines of a text; of one without a line feed those that end as on an old Macintosh."""
    return start.split(b"\n" if b"\n" in start else b"\r")


def _directory(path: Path) -> Format:
    if _has_tables(path):
        _demand_tables_alone(path)
        return _parquet(path)
    files = _histories(path)
    names = {_name_of(file) for file in files} - {EMPTY}
    if names == {RECORD}:
        _demand_unpacked(files)
        return Format(RECORD)
    if not names - {UNKNOWN} and line_files(path):
        raise HistoryError(f"{path}: none of its *.jsonl is a history that fencepost understands: {UNDERSTOOD}")
    if names:
        return Format("fencepost-jsonl")
    raise HistoryError(f"{path}: a directory without history.edn, *.parquet or *.jsonl; give the history's file: {UNDERSTOOD}")


def _demand_tables_alone(folder: Path) -> None:
    """Raises HistoryError where lines lie beside tables that are parts of a history; a whole one may be made of its lines."""
    if os.path.lexists(folder / RunFile.HISTORY):
        return
    for file in _histories(folder):
        if (name := _name_of(file)) not in (EMPTY, UNREADABLE, UNKNOWN):
            why = f"{file.relative_to(folder)} ({name}) and tables are no parts of one history"
            raise HistoryError(f"{folder}: {why}; give the file, or a directory of the tables alone")


def _demand_unpacked(files: Sequence[Path]) -> None:
    """Raises HistoryError for a packed file of a proxy's record."""
    for file in files:
        with file.open("rb") as content:
            if content.read(len(GZIP)) == GZIP:
                raise HistoryError(f"{file}: is the record of a proxy, packed by gzip; unpack it (gunzip), and check that")


def _has_tables(folder: Path) -> bool:
    """True where a table is in a folder; where there are lines too, one that is not only beside a history."""
    tables = list(folder.glob("*.parquet"))
    return any(file.name not in _BESIDE for file in tables) or (bool(tables) and not line_files(folder))


def _histories(folder: Path) -> list[Path]:
    """The files of lines in a folder, without the receipts of faults."""
    return [file for file in line_files(folder) if file.name.removesuffix(".gz") != RunFile.FAULT_LINES]


def line_files(path: Path) -> list[Path]:
    """The files of our JSON lines in a directory, and in a folder `history` of it."""
    return sorted(file for folder in ("", "history/") for packed in ("", ".gz") for file in path.glob(f"{folder}*.jsonl{packed}"))


def _parquet(path: Path) -> Format:
    try:
        if path.is_dir() and not os.path.lexists(path / RunFile.HISTORY):  # else this file alone is read
            demand_ending(path)
    except OSError as error:
        raise HistoryError(f"{path}: looks like Parquet, but cannot be read: {error}") from error
    schemas = {file: _columns(file, path) for file in parquet_files(path)}
    if all({"api", "arrived_ns", "answer_partitions"} <= set(names) and "mops" not in names for names in schemas.values()):
        return Format(RECORD)
    for file, names in schemas.items():
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise HistoryError(f"{file}: Parquet with two columns {twice}; docs/history.md has all of {OPS_SCHEMA.names}")
        if lacking := [name for name in NEEDED if name not in names]:
            raise HistoryError(
                f"{file}: Parquet without the columns {', '.join(lacking)}; docs/history.md has all of {OPS_SCHEMA.names}"
            )
    return Format("fencepost-parquet")


def parquet_files(path: Path) -> list[Path]:
    """The files of a history in Parquet: a file itself; of a directory `history.parquet`, or else all in it, and below it.

    Other tables of a run (`faults.parquet`) are left out, unless there are none but these.
    """
    if not path.is_dir():
        return [path]
    whole = path / RunFile.HISTORY
    if os.path.lexists(whole):
        return [whole]
    return [file for file in sorted(path.rglob("*.parquet")) if _is_part(path, file)] or sorted(path.glob("*.parquet"))


def _is_part(folder: Path, file: Path) -> bool:
    """True for a table of a history, and not one that lies beside it, or is hidden from those who read a directory."""
    inside = file.relative_to(folder).parts
    hidden = any(part[0] in "._" for part in inside)
    return not hidden and not (len(inside) == 1 and file.name in _BESIDE) and not (file.is_dir() and not file.is_symlink())


def _columns(file: Path, path: Path) -> list[str]:
    """The names of a table's columns. Raises HistoryError: what a part holds that cannot be read would be missed by nobody."""
    try:
        return list(pq.read_schema(regular(file)).names)
    except (OSError, ValueError, pa.ArrowException) as error:
        others = "" if file == path or file.name == RunFile.HISTORY else "; the others can be judged without it"
        raise HistoryError(f"{file}: looks like Parquet, but cannot be read: {error}{others}") from error


def _of_lines(lines: list[bytes]) -> str | None:
    """The format by the first lines that are understood at all: broken lines may come first."""
    for raw in lines[:_TRIED]:
        line = raw.decode("utf-8", errors="replace").strip(" \t\r,")
        name = (_of_line(line) or _of_beginning(line)) if line else None
        if name:
            return name
    return None


def _of_line(line: str) -> str | None:
    if TEXT_LINE.match(line):
        return "jepsen-txt"
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return RECORD if _LONG_RECORD_LINE.match(line) else _of_edn(line)
    if not isinstance(document, dict):
        return None
    if isinstance(document.get("at"), str) and "type" not in document:
        return RECORD
    if (
        document.get("format") == "fencepost-history"
        or document.get("type") == "process"
        or {"process", "op", "type"} <= document.keys()
    ):
        return "fencepost-jsonl"
    return "jepsen-json" if {"process", "type", "f"} <= document.keys() else None


def _of_edn(line: str) -> str | None:
    try:
        element = edn.read(line)
    except (ValueError, RecursionError):
        return None
    return "jepsen-edn" if isinstance(element, dict) and {"process", "type", "f"} <= element.keys() else None


def _of_beginning(line: str) -> str | None:
    """A line that is broken, or longer than what is looked at: its first keys tell."""
    if line.startswith(("{:", "#jepsen.history.Op{:")):
        return "jepsen-edn"
    return "jepsen-json" if line.startswith("{") and any(f'"{key}"' in line[:200] for key in ("process", "type", "f")) else None
