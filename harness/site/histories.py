"""The history of a test over its runs: verdicts, rates, stalls and recoveries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor, log10

from fencepost.harness.api.words import plural
from fencepost.harness.memory.trends import METRICS, Metric, Trend
from fencepost.harness.site.entries import Entry

MOST_RUNS = 200  # that the page shows, the newest
WIDTH, HEIGHT, LEFT, TOP = 420, 110, 44, 10  # of a chart, in its own units


@dataclass(frozen=True, kw_only=True)
class Point:
    """A run in a chart: its place there, its tone, and what it says."""

    x: float
    y: float
    tone: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A measure over runs, the oldest on the left. most: the value of the upper line. trend: what is said of the newest."""

    title: str
    unit: str
    most: float
    points: tuple[Point, ...]
    newest: str
    trend: str = ""

    @property
    def line(self) -> str:
        """The points of the line, as SVG takes them."""
        return " ".join(f"{point.x},{point.y}" for point in self.points)


@dataclass(frozen=True, kw_only=True)
class TestHistory:
    """The page of a test. entries: the newest first, those that are shown."""

    campaign: str
    test: str
    entries: tuple[Entry, ...]
    older: int
    sentence: str
    charts: tuple[Chart, ...]


_UNITS = {  # of a metric, in words, by its column
    "rate": "operations per second",
    "gap_s": "seconds without a success",
    "recovery_s": "seconds from the last heal to a success",
}


def history_of(campaign: str, test: str, entries: Iterable[Entry], trends: Iterable[Trend] = ()) -> TestHistory:
    """The history of a test from its runs, in any order. trends: of its measures that have changed."""
    newest = sorted(entries, key=lambda entry: (entry.row.created, entry.row.place), reverse=True)
    shown = newest[:MOST_RUNS]
    changed = {trend.metric.column: str(trend) for trend in trends}
    charts = [_chart(metric, shown[::-1], changed.get(metric.column, "")) for metric in METRICS]
    return TestHistory(
        campaign=campaign,
        test=test,
        entries=tuple(shown),
        older=len(newest) - len(shown),
        sentence=_sentence(newest),
        charts=tuple(chart for chart in charts if chart.points),
    )


def _sentence(newest: Sequence[Entry]) -> str:
    ended = [entry for entry in newest if not entry.phase]
    met = sum(entry.met for entry in ended)
    rounds = len({entry.row.round for entry in newest})
    red = next((entry for entry in ended if entry.red), None)
    last = f" The last that was not: run {red.row.run}, {red.row.created[:16].replace('T', ' ')}." if red else ""
    return f"As expected in {met} of {plural(len(ended), 'run')}, in {plural(rounds, 'round')}.{last}"


def _chart(metric: Metric, oldest: Sequence[Entry], trend: str) -> Chart:
    known = [(entry, float(value)) for entry in oldest if (value := getattr(entry.row, metric.column)) is not None]
    most = _ceiling(max((value for _, value in known), default=0.0))
    step = (WIDTH - LEFT - 8) / max(1, len(known) - 1)
    points = tuple(
        Point(
            x=round(LEFT + 2 + step * at, 1) if len(known) > 1 else round((LEFT + WIDTH) / 2, 1),
            y=round(TOP + (HEIGHT - 2 * TOP) * (1 - value / most), 1),
            tone=entry.tone,
            text=f"run {entry.row.run}, {entry.row.created[:16].replace('T', ' ')}: {shown_number(value)} ({entry.outcome})",
        )
        for at, (entry, value) in enumerate(known)
    )
    return Chart(
        title=metric.name.capitalize(),
        unit=_UNITS[metric.column],
        most=most,
        points=points,
        newest=shown_number(known[-1][1]) if known else "",
        trend=trend,
    )


def _ceiling(value: float) -> float:
    """The next plain number that is not below a value, so that a chart's scale can be read."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next(factor * power for factor in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if factor * power >= value)


def shown_number(value: float) -> str:
    """A measured number with as many digits as it deserves."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.3g}"
