"""UTC of a run's moments. The times of a history are of CLOCK_MONOTONIC, and those of brokers' logs are dates.

Each file of a history begins with both clocks, read one after the other (docs/history.md); where the files are gone, the
harness's looks at open transactions say when they asked. An adopted history has neither: its times are its own.
"""

from __future__ import annotations

import json
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np

from fencepost.harness.api.beneath import names, reading
from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.report.documents import Ops

MS = 1_000_000
_MOST_FILES, _MOST_LOOKS, _HEADER = 1_000, 200, 4_096
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LATEST_MS = 25_000_000_000_000  # the year 2762
_SURE_NS = MS  # two clocks are never read at once


@dataclass(frozen=True)
class WallClock:
    """How far UTC was ahead of CLOCK_MONOTONIC, as it was measured during a run.

    readings: (monotonic ns, ns ahead), in order of time; at least one.
    source: where they come from, in words.
    """

    readings: tuple[tuple[int, int], ...]
    source: str

    @property
    def error_ns(self) -> int:
        """How far apart the readings are, and not less than a millisecond."""
        ahead = [ahead for _, ahead in self.readings]
        return max(_SURE_NS, max(ahead) - min(ahead))

    @property
    def words(self) -> str:
        """How exact it is, for readers."""
        count = len(self.readings)
        if count == 1:
            return f"UTC by {self.source}: one reading of both clocks"
        return f"UTC by {self.source}: {count:,} readings of both clocks differ by {round(self.error_ns / MS):,} ms at most"

    def ms(self, ns: int) -> int:
        """Milliseconds since 1970 of a moment of the history, by the last reading before it."""
        at = max(0, bisect_right(self.readings, (ns, 1 << 63)) - 1)
        return (ns + self.readings[at][1]) // MS

    def ns(self, ms: int) -> int:
        """The moment of the history that has this date, about."""
        ahead = self.readings[0][1]
        for time, later in self.readings:
            if time + later <= ms * MS:
                ahead = later
        return ms * MS - ahead

    def utc(self, ns: int | None) -> str:
        """`14:32:08.188`; empty for a moment that is not known."""
        return "" if not ns or ns < 0 else date_of(self.ms(ns))[11:]

    def date(self, ns: int) -> str:
        """`2026-11-25 14:32:08.188`."""
        return date_of(self.ms(ns))


def date_of(ms: int) -> str:
    """`2026-11-25 14:32:08.188` of milliseconds since 1970; empty for no date."""
    if not 0 <= ms < _LATEST_MS:
        return ""
    moment = _EPOCH + timedelta(milliseconds=ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{ms % 1000:03d}"


def wall_clock(run: Run, ops: Ops | None) -> WallClock | None:
    """The wall clock of a run; None: nothing says it. Never raises: what cannot be read says nothing."""
    if run.plan.get("source"):
        return None
    if headers := sorted(_headers(run)):
        return WallClock(tuple(headers), "the headers of the history's files")
    if looks := sorted(_looks(ops)):
        return WallClock(tuple(looks), "the harness's looks at open transactions")
    return None


def _headers(run: Run) -> Iterator[tuple[int, int]]:
    try:
        files = names(run.directory, RunFile.LINES)[:_MOST_FILES]
    except OSError:
        return
    for name in files:
        header = _header(run, f"{RunFile.LINES}/{name}")
        yield from _reading(header.get("time"), header.get("wall"))


def _header(run: Run, file: str) -> dict[str, Any]:
    """The first line of a file of the history, without reading more; empty when it is none."""
    try:
        with reading(run.directory, file) as opened:
            beginning = opened.read(_HEADER)
            if beginning[:2] == b"\x1f\x8b":
                beginning = zlib.decompressobj(wbits=31).decompress(beginning, _HEADER)
        document = json.loads(beginning.split(b"\n", 1)[0])
    except (OSError, ValueError, RecursionError, zlib.error):
        return {}
    return document if isinstance(document, dict) else {}


def _looks(ops: Ops | None) -> Iterator[tuple[int, int]]:
    """The looks at open transactions, evenly chosen; each asked for the time within some milliseconds of its beginning."""
    if ops is None:
        return
    positions = np.flatnonzero(ops.f.among("list-transactions"))
    chosen = positions[np.linspace(0, len(positions) - 1, min(len(positions), _MOST_LOOKS), dtype=np.int64)]
    for row in ops.table(chosen, ("time", "detail")).to_pylist() if len(chosen) else ():
        try:
            asked_ms = json.loads(row["detail"] or "{}").get("asked_ms")
        except (ValueError, AttributeError, RecursionError):
            continue
        yield from _reading(row["time"], asked_ms * MS if isinstance(asked_ms, int) else None)


def _reading(time: Any, wall: Any) -> Iterator[tuple[int, int]]:
    if isinstance(time, int) and isinstance(wall, int) and 0 < time < wall < _LATEST_MS * MS:
        yield time, wall - time
