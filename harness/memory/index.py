"""An index over the runs in the results folder: a `RunRow` each in one SQLite file, so that a list of ten thousand opens no run.

The index is a cache. The directories say which runs there are, and a run is read again when one of its documents is another file
than it was (size, times, inode); so the index may be removed at any time, and may be old, foreign or damaged. It is read where it
lies, as a file that nobody changes, and written beside its place, which it takes by a rename (`harness.api.beneath`): readers and
writers need no locks, a crash leaves the former file, and no link is followed. None of it becomes a path: rows are looked up by
the places of the directories that are there. SQLite, because it is one file that Python's standard library and many a tool read:
`sqlite3 results/.index.sqlite 'select test, count(*) from runs group by test'`.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from urllib.parse import quote

import msgspec

from fencepost.harness.api.beneath import names, regular, remove, replacing
from fencepost.harness.api.errors import UnwritableFile
from fencepost.harness.api.run import RunFile
from fencepost.harness.history.results_folder import run_directories
from fencepost.harness.history.run_directory import described, open_run
from fencepost.harness.memory.rows import FindingRow, RunRow, row_of
from fencepost.harness.system import liveness

NAME = ".index.sqlite"
CONTENT = 4  # to be raised when a row says something else of the same run: rows of before are read again
MOST_BYTES = 512 << 20  # of the file: ten thousand runs take a few percent
MANY = 500  # runs that take seconds to be read
MOST_ROW = 256 << 10  # bytes of a row that is kept
_APPLICATION = 0x66656E63
_TABLES = (
    "CREATE TABLE runs (place TEXT PRIMARY KEY, created TEXT, campaign TEXT, test TEXT, round TEXT, verdict TEXT, met INTEGER,"
    " state TEXT, row TEXT)",
    "CREATE TABLE findings (place TEXT, fingerprint TEXT, anomaly TEXT, sentence TEXT)",
)
_DOCUMENTS = (
    RunFile.PLAN,
    RunFile.VERDICT,
    RunFile.MANIFEST,
    RunFile.DAMAGE,
    RunFile.LEFT_BEHIND,
    RunFile.LINES,
    RunFile.JUDGEMENTS,
    RunFile.STORED,
    RunFile.WIRE,
)
_PART = re.compile(rf"\.{re.escape(NAME)}\.[0-9a-f]+\.part")  # a file beside it, while it is written
_PART_S = 3600.0  # the age of such a file that nobody writes any more
_DECODER = msgspec.json.Decoder(RunRow)


@dataclass(frozen=True)
class Indexed:
    """The runs in a results folder.

    rows: of every run, the oldest first.
    note: what was wrong with the file of the index, a sentence; empty when nothing was.
    """

    rows: tuple[RunRow, ...]
    note: str = ""


@dataclass(frozen=True)
class _Entry:
    """A run in the file. state: of its documents when it was read. row: JSON of its `RunRow`."""

    state: str
    row: str


def rows(root: Path) -> tuple[RunRow, ...]:
    """A row of every run below `root`, the oldest first, also of those whose plan cannot be read (`RunRow.damaged`)."""
    return indexed(root).rows


def indexed(root: Path, announce: Callable[[str], None] = lambda _: None) -> Indexed:
    """All runs below `root`: those that have not changed from the index, the others from their directories.

    announce: takes a sentence before that takes long.
    Raises CampaignError when the folder cannot be read. That the index cannot be read or written is no error.
    """
    former, wrong = _read(root)
    entries: dict[str, _Entry] = {}
    listed: list[RunRow] = []
    directories = list(run_directories(root))
    unknown = sum(_place(directory) not in former for directory in directories)
    if unknown > MANY:
        announce(f"reading {unknown:,} runs that {root / NAME} does not have: once")
    try:
        for directory in directories:
            row, entry = _row(root, directory, former)
            listed.append(row)
            if entry:
                entries[row.place] = entry
    except BaseException:  # as by Ctrl-C: what was read is not read again
        _write(root, {**former, **entries})
        raise
    unwritten = _write(root, entries) if entries != former or wrong else ""
    return Indexed(tuple(sorted(listed, key=age)), unwritten or wrong)


def age(row: RunRow) -> tuple[str, str]:
    """The key by which rows are sorted, the oldest first: that of their runs (`results_folder.age`)."""
    return row.created, row.place.rpartition("/")[2]


# --------------------------------------------------------------------------------------------------
# A run
# --------------------------------------------------------------------------------------------------
def _row(root: Path, directory: Path, former: Mapping[str, _Entry]) -> tuple[RunRow, _Entry | None]:
    """The row of a run, and its entry; none for a run that is read every time, since something about it cannot be read."""
    state, place = _state(directory), _place(directory)
    entry = former.get(place)
    if entry and entry.state == state and (known := _decoded(entry, place)):
        return known, entry
    row = row_of(open_run(directory), root)
    return row, None if row.problems else _encoded(state, row)


def _place(directory: Path) -> str:
    """The directory of a run, relative to the results folder (`RunRow.place`)."""
    return f"{directory.parent.name}/{directory.name}"


def _state(directory: Path) -> str:
    """The state of a run's documents, by which a change of one is seen. A file that is replaced has another inode."""
    states = []
    for file in _DOCUMENTS:
        try:
            status = os.lstat(f"{directory}/{file}")
            states.append(f"{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}:{status.st_ino}")
        except OSError as error:
            states.append(f"-{error.errno}")
    return " ".join(states)


def _decoded(entry: _Entry, place: str) -> RunRow | None:
    try:
        row = _DECODER.decode(entry.row)
    except msgspec.MsgspecError:
        return None
    return row if row.place == place else None


def _encoded(state: str, row: RunRow) -> _Entry | None:
    """The entry of a row; None for one that is too long, or holds what JSON or UTF-8 does not (a name of other bytes)."""
    try:
        content = msgspec.json.encode(row)
    except (ValueError, TypeError, OverflowError):
        return None
    return _Entry(state, content.decode("utf-8")) if len(content) <= MOST_ROW else None


# --------------------------------------------------------------------------------------------------
# The file
# --------------------------------------------------------------------------------------------------
def _schema() -> int:
    """A number that is another when rows have other fields, or the same fields say something else."""
    names = [f"{field.name}:{field.type}" for of in (RunRow, FindingRow) for field in fields(of)]
    return zlib.crc32("\0".join([str(CONTENT), *names, *_TABLES]).encode()) >> 1


def _read(root: Path) -> tuple[dict[str, _Entry], str]:
    """The entries of the index, and what is wrong with it: none of one that is damaged, foreign or of another schema."""
    try:
        path = regular(root, NAME)
        if path.stat().st_size > MOST_BYTES:
            return {}, _note(root, f"it has more than {MOST_BYTES:,} bytes")
        return _entries_in(path), ""
    except (FileNotFoundError, NotADirectoryError):
        return {}, ""
    except OSError as error:
        return {}, _note(root, error.strerror or str(error))
    except (sqlite3.Error, ValueError) as error:
        return {}, _note(root, described(error))


def _note(root: Path, reason: str) -> str:
    return f"{root / NAME}: is not used ({reason}) and is made anew: it holds nothing that the runs do not"


def _entries_in(path: Path) -> dict[str, _Entry]:
    """The entries in a file. Raises sqlite3.Error and ValueError: it is damaged, or none of ours."""
    entries: dict[str, _Entry] = {}
    address = f"file:{quote(os.fsencode(path.absolute()))}?mode=ro&immutable=1"
    with closing(sqlite3.connect(address, uri=True)) as database:
        database.execute("PRAGMA trusted_schema=OFF")
        if database.execute("PRAGMA application_id").fetchone() != (_APPLICATION,):
            raise ValueError("it is none of fencepost's")
        if database.execute("PRAGMA user_version").fetchone() != (_schema(),):
            return {}
        tables = database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchmany(len(_TABLES) + 1)
        if tables != [(table,) for table in _TABLES]:
            raise ValueError("it has other tables than fencepost makes")
        for place, state, row in database.execute("SELECT place, state, row FROM runs"):
            if place in entries or not all(isinstance(text, str) for text in (place, state, row)):
                raise ValueError("it has a run twice, or in another form")
            entries[place] = _Entry(state, row)
    return entries


def _write(root: Path, entries: Mapping[str, _Entry]) -> str:
    """Write the index; the reason why it could not be written, where nobody would expect that. No index for no run."""
    if not entries and not os.path.lexists(root / NAME):
        return ""
    if not os.access(root, os.W_OK, effective_ids=True):  # as of a disk that is only read: everything is read every time
        return ""
    try:
        with liveness.temporary_directory("index") as folder:
            _fill(folder / NAME, entries)
            with replacing(root, NAME) as file, open(folder / NAME, "rb") as made:
                shutil.copyfileobj(made, file)
        _remove_parts(root)
    except UnwritableFile as error:
        return f"{error}; until then every run is read every time"
    except (OSError, sqlite3.Error) as error:
        return f"{root / NAME}: cannot be made ({described(error)}); until then every run is read every time"
    return ""


def _remove_parts(root: Path) -> None:
    """Remove what processes that were killed while they wrote an index have left beside it."""
    for name in names(root, "."):
        with suppress(OSError):  # another process has removed it
            if _PART.fullmatch(name) and (root / name).lstat().st_mtime < time.time() - _PART_S:
                remove(root, name)


def _fill(path: Path, entries: Mapping[str, _Entry]) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for setting in ("journal_mode=OFF", "synchronous=OFF", f"application_id={_APPLICATION}", f"user_version={_schema()}"):
            database.execute(f"PRAGMA {setting}")
        for table in _TABLES:
            database.execute(table)
        database.execute("BEGIN")
        for place, entry in entries.items():
            _insert(database, place, entry)
        database.execute("COMMIT")


def _insert(database: sqlite3.Connection, place: str, entry: _Entry) -> None:
    row = _decoded(entry, place)
    if row is None:
        return
    columns: Iterable[object] = (row.created, row.campaign, row.test, row.round, row.verdict, row.met)
    database.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (place, *columns, entry.state, entry.row))
    for finding in row.findings:
        columns = (place, finding.fingerprint, finding.anomaly, finding.sentence)
        database.execute("INSERT INTO findings VALUES (?, ?, ?, ?)", columns)
