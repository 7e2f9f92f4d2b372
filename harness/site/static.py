"""The site as files in a directory: pages, and copies of the runs' reports. It needs no server, and can be moved anywhere.

Everything is written by `harness.api.beneath`: nothing outside of the directory, and over no link in it. What has not changed is
left as it is.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from fencepost.harness.api import CampaignError
from fencepost.harness.api.beneath import json_text, limited, make_folder, names, reading, remove, replacing, write_text
from fencepost.harness.api.run import RunFile
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.memory.known import NOTHING_KNOWN, Known
from fencepost.harness.report.beside import files_beside
from fencepost.harness.site import addresses, pages
from fencepost.harness.site.entries import Entry, gravest_first
from fencepost.harness.site.pages import Site
from fencepost.harness.site.settings import settings_of
from fencepost.harness.site.sources import lack_of_file, source

MARK = "site.json"
FORMAT = 1
COPIED = (RunFile.REPORT, RunFile.SUMMARY, RunFile.PLAN)  # of each run; of a red one also what its report links to
MOST_OF_FILE = 64 << 20  # bytes of a file that is copied
MOST_MIB = 2_048  # of all copies
_MOST_MARK = 256 << 20
_UNCOPIED = "Its report was not copied: the site is as large as it may be (--most-mib)."
State = tuple[int, int]  # size and time of the last change of what was copied


@dataclass(frozen=True, kw_only=True)
class WrittenSite:
    """What was done. entries: the runs of the site. copied, unchanged: files of runs. left: runs whose report was not copied.
    files_left: files that the reports of red runs link to, and that were not copied.
    """

    directory: Path
    entries: tuple[Entry, ...]
    pages: int
    copied: int
    unchanged: int
    left: int
    files_left: int
    notes: tuple[str, ...] = ()


def write_site(root: Path, directory: Path, most_mib: int = MOST_MIB, known: Known = NOTHING_KNOWN) -> WrittenSite:
    """Write the site of all runs below `root` to a directory, or write it there again.

    Raises CampaignError: the directory holds something else, or cannot be written.
    """
    former = _begin(directory)
    found = source(root, lack_of_file, known)
    copies = _Copies(root, directory, former, most_mib << 20)
    entries = tuple(copies.take(entry) for entry in gravest_first(found.entries))
    for entry in entries:
        copies.take_beside(entry)
    moment = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    site = Site(
        entries=sorted(entries, key=lambda entry: (entry.row.created, entry.row.place)),
        written=f"written {moment}",
        notes=found.notes,
        memory=found.memory,
        trends=found.trends,
    )
    written = sum(_write_if_other(directory, name, text) for name, text in site_pages(root, site))
    _end(directory, copies.states, former)
    _remove_pages(directory, pages.tests_of(site))
    return WrittenSite(
        directory=directory,
        entries=tuple(site.entries),
        pages=written,
        copied=copies.copied,
        unchanged=copies.unchanged,
        left=copies.left,
        files_left=copies.files_left,
        notes=found.notes,
    )


def site_pages(root: Path, site: Site) -> Iterator[tuple[str, str]]:
    """The pages of a site, each with its address."""
    runs = pages.by_test(site)
    for name, test in pages.tests_of(site).items():
        yield name, pages.history_page(site, test, runs[test])
    settings = {entry.row.place: settings_of(root / entry.row.place) for entry in site.entries}
    yield addresses.COMPARE, pages.compare_page(site, settings)
    yield addresses.GRID, pages.grid_page(site)
    yield addresses.FINDINGS, pages.findings_page(site)
    yield addresses.INDEX, pages.index_page(site)


# --------------------------------------------------------------------------------------------------
# The directory
# --------------------------------------------------------------------------------------------------
def _begin(directory: Path) -> dict[str, State]:
    """Make the directory a site's, and return what was copied to it before. Raises CampaignError: it is something else's."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        empty = not any(os.scandir(directory))
    except OSError as error:
        raise CampaignError([f"--site {directory}: cannot be used: {error.strerror}; name another directory"]) from error
    if not empty:
        return _copied_before(directory)
    write_text(directory, MARK, json_text({"format": FORMAT, "copied": {}}))
    return {}


def _copied_before(directory: Path) -> dict[str, State]:
    try:
        mark = json.loads(limited(directory, MARK, _MOST_MARK))
        if not isinstance(mark, dict) or mark.get("format") != FORMAT:
            raise ValueError("another format")
        return {str(file): (int(size), int(changed)) for file, (size, changed) in dict(mark["copied"]).items()}
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        text = f"--site {directory}: it is not empty, and no site of fencepost's ({MARK}); name an empty directory, or a new one"
        raise CampaignError([text]) from None


def _end(directory: Path, states: Mapping[str, State], former: Mapping[str, State]) -> None:
    """Remove the copies of runs that are gone, and note what is there."""
    for file in former.keys() - states.keys():
        if _is_ours(file):
            remove(directory, file)
    write_text(directory, MARK, json_text({"format": FORMAT, "copied": dict(sorted(states.items()))}))


def _remove_pages(directory: Path, kept: Collection[str]) -> None:
    """Remove the pages of tests that are gone."""
    for name in names(directory, addresses.TESTS):
        if f"{addresses.TESTS}/{name}" not in kept and name.endswith(".html"):
            remove(directory, f"{addresses.TESTS}/{name}")


def _is_ours(file: str) -> bool:
    """Return whether a name from the mark, which anybody may have written, is that of a copy of ours."""
    parts = file.split("/")
    return len(parts) > 3 and parts[0] == addresses.RUNS and not {"", ".", ".."} & set(parts)


def _write_if_other(directory: Path, name: str, text: str) -> bool:
    """Write a page unless it is there as it is; return whether it was written."""
    content = text.encode("utf-8", errors="backslashreplace")
    try:
        if limited(directory, name, len(content)) == content:
            return False
    except OSError:  # it is not there, is longer, or no file: it is replaced
        pass
    if "/" in name:
        make_folder(directory, name.rpartition("/")[0])
    with replacing(directory, name) as file:
        file.write(content)
    return True


# --------------------------------------------------------------------------------------------------
# The copies
# --------------------------------------------------------------------------------------------------
class _Copies:
    """The files of runs that the site holds, up to a bound."""

    def __init__(self, root: Path, directory: Path, former: Mapping[str, State], most: int) -> None:
        self._root, self._directory, self._former, self._room = root, directory, former, most
        self.states: dict[str, State] = {}
        self.copied = self.unchanged = self.left = self.files_left = 0

    def take(self, entry: Entry) -> Entry:
        """Copy what the site holds of a run; returns its entry, without the report where that was not copied."""
        if not entry.report:
            return entry
        try:
            for file in COPIED:
                self._copy(entry.row.place, file)
        except _NoRoom as error:
            self.left += 1
            return replace(entry, report="", lack=str(error))
        return entry

    def take_beside(self, entry: Entry) -> None:
        """Copy what the report of a red run links to, as far as there is room once each run has its report: logs, tables."""
        if not (entry.red and entry.report):
            return
        beside = files_beside(open_run(self._root / entry.row.place))
        for file in (*beside.logs, *beside.documents):
            try:
                self._copy(entry.row.place, file.place)
            except _NoRoom:
                self.files_left += 1

    def _copy(self, place: str, file: str) -> None:
        """Copy a file of a run unless it is there as it is; nothing where the run has none. Raises _NoRoom."""
        target = f"{addresses.RUNS}/{place}/{file}"
        try:
            opened = reading(self._root / place, file)
        except OSError as error:
            if file != RunFile.REPORT:
                return
            raise _NoRoom(f"Its report cannot be copied: {error.strerror or error}.") from error
        with opened:
            status = os.fstat(opened.fileno())
            if status.st_size > MOST_OF_FILE:
                raise _NoRoom(f"Its {file} was not copied: it has more than {MOST_OF_FILE >> 20} MiB.")
            if status.st_size > self._room:
                raise _NoRoom(_UNCOPIED)
            state = (status.st_size, status.st_mtime_ns)
            if target in self.states:
                return
            self._room -= status.st_size
            self.states[target] = state
            if self._former.get(target) == state and self._is_there(target, status.st_size):
                self.unchanged += 1
                return
            make_folder(self._directory, target.rpartition("/")[0])
            with replacing(self._directory, target) as copy:
                shutil.copyfileobj(opened, copy, 1 << 20)
            self.copied += 1

    def _is_there(self, target: str, size: int) -> bool:
        try:
            with reading(self._directory, target) as there:
                return stat.S_ISREG(os.fstat(there.fileno()).st_mode) and os.fstat(there.fileno()).st_size == size
        except OSError:
            return False


class _NoRoom(Exception):
    """A file of a run is not copied; the text says why."""


def summary(written: WrittenSite) -> dict[str, Any]:
    """What was written, as `--json` shows it."""
    return {
        "site": str(written.directory / addresses.INDEX),
        "runs": len(written.entries),
        "red": sum(entry.red for entry in written.entries),
        "pages_written": written.pages,
        "files_copied": written.copied,
        "files_unchanged": written.unchanged,
        "reports_left_out": written.left,
        "files_left_out": written.files_left,
        "notes": list(written.notes),
    }
