"""The runs in a results folder as entries: rows from the index, and what only the directories say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fencepost.harness.api.beneath import regular
from fencepost.harness.api.run import RunFile
from fencepost.harness.history.results_folder import unreadable
from fencepost.harness.memory.index import indexed
from fencepost.harness.memory.known import NOTHING_KNOWN, Known
from fencepost.harness.memory.remembered import today
from fencepost.harness.memory.rows import RunRow
from fencepost.harness.memory.standing import histories
from fencepost.harness.memory.trends import Trend, changes
from fencepost.harness.site.entries import Entry, entry_of, report_place
from fencepost.harness.site.phases import phase
from fencepost.harness.site.round_memory import RoundMemory

Lack = Callable[[Path, RunRow], str]


@dataclass(frozen=True, kw_only=True)
class Source:
    """The runs of a results folder. entries: the oldest first. notes: sentences on what could not be read.
    trends: of the measures that have changed in the newest rounds.
    """

    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()
    memory: RoundMemory = field(default_factory=RoundMemory)
    trends: tuple[Trend, ...] = ()


def source(root: Path, lack: Lack, known: Known = NOTHING_KNOWN) -> Source:
    """Everything below `root`. lack: the reason why a run's report cannot be opened; empty when it can."""
    index = indexed(root)
    memory = RoundMemory(histories=histories(index.rows), known=known, today=today())
    entries = tuple(_entry(root, row, lack, memory) for row in index.rows)
    notes = tuple(filter(None, [index.note, *unreadable(root)]))
    return Source(entries=entries, notes=notes, memory=memory, trends=tuple(changes(index.rows)))


def _entry(root: Path, row: RunRow, lack: Lack, memory: RoundMemory) -> Entry:
    why = lack(root, row)
    return entry_of(
        row,
        memory,
        report="" if why else report_place(row),
        lack=why,
        phase="" if row.verdict or row.damaged else phase(root / row.place),
    )


def lack_of_file(root: Path, row: RunRow) -> str:
    """The reason why a run's report cannot be copied: the way to the run's directory may lead over links, as for all commands."""
    return _lack(root / row.place, RunFile.REPORT)


def lack_beneath(root: Path, row: RunRow) -> str:
    """The reason why a run's report cannot be served: no link is followed beneath the results."""
    return _lack(root, f"{row.place}/{RunFile.REPORT}")


def _lack(directory: Path, file: str) -> str:
    try:
        regular(directory, file)
    except FileNotFoundError:
        return "It has no report."
    except PermissionError:
        return "Its report may not be read."
    except OSError:
        return "Its report is behind a link, which is not followed, or is no file."
    return ""
