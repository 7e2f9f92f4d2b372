"""The site as it is now, for who serves it: read again when somebody asks and a moment has passed, pages made once per change."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from fencepost.harness.api.run import RunFile
from fencepost.harness.memory.known import NOTHING_KNOWN, Known
from fencepost.harness.site import addresses, pages
from fencepost.harness.site.pages import Site
from fencepost.harness.site.settings import Settings, settings_of
from fencepost.harness.site.sources import Source, lack_beneath, source

EVERY_S = 1.5  # between two looks at the results
SHARE = 4  # a look that takes long is taken no oftener than in a fourth of the time


class LiveSite:
    """The pages over a results folder, for several threads. version: changes with everything that a page shows."""

    def __init__(self, root: Path, known: Known = NOTHING_KNOWN, clock: Callable[[], float] = time.monotonic) -> None:
        self._root, self._known, self._clock = root, known, clock
        self._lock = threading.Lock()
        self._begin = f"{time.time_ns():x}"
        self.written = f"live over {root}"
        self._source = Source(entries=())
        self._number, self._next = 0, 0.0
        self._made: dict[str, str] = {}
        self._settings: dict[tuple[str, int], Settings | None] = {}

    def page(self, name: str) -> str | None:
        """A page by its address; None when there is none."""
        with self._lock:
            site = self._look()
            if name not in self._made:
                made = self._make(site, name)
                if made is None:
                    return None
                self._made[name] = made
            return self._made[name]

    @property
    def version(self) -> str:
        """The version of what the pages show now."""
        with self._lock:
            return self._look().live

    def _look(self) -> Site:
        began = self._clock()
        if began >= self._next:
            now = source(self._root, lack_beneath, self._known)
            if now != self._source or not self._number:
                self._source, self._number = now, self._number + 1
                self._made.clear()
            took = self._clock() - began
            self._next = began + max(EVERY_S, SHARE * took)
        return Site(
            entries=self._source.entries,
            written=self.written,
            memory=self._source.memory,
            trends=self._source.trends,
            notes=self._source.notes,
            live=f"{self._begin}-{self._number}",
        )

    def _make(self, site: Site, name: str) -> str | None:
        if name == addresses.INDEX:
            return pages.index_page(site)
        if name == addresses.GRID:
            return pages.grid_page(site)
        if name == addresses.FINDINGS:
            return pages.findings_page(site)
        if name == addresses.COMPARE:
            return pages.compare_page(site, {entry.row.place: self._settings_of(entry.row.place) for entry in site.entries})
        test = pages.tests_of(site).get(name)
        return pages.history_page(site, test, pages.by_test(site)[test]) if test else None

    def _settings_of(self, place: str) -> Settings | None:
        """The settings of a run, read again when its plan is another file."""
        directory = self._root / place
        try:
            key = place, (directory / RunFile.PLAN).lstat().st_mtime_ns
        except OSError:
            return None
        if key not in self._settings:
            self._settings[key] = settings_of(directory)
        return self._settings[key]
