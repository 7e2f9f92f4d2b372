"""Trends of a test over rounds: its rate, its longest stall, and its recovery after the last fault.

The value of a round is the median of its runs. The latest value is compared with those of up to `MOST_ROUNDS` earlier rounds of
the same test, planned for the same time, on a machine of the same size; releases may differ, and are named. It has *changed* when

* there are at least `LEAST_ROUNDS` earlier rounds,
* it differs from their median by a fifth, and a stall or a recovery by a second too, and
* its distance from their median, on a logarithmic scale and in units of 1.4826 times their median absolute deviation, is beyond
  the bound for that many rounds: the 99.9th percentile of that distance for noise that is normal on that scale. A fixed bound
  would not do: beside 5 rounds one value in ten is more than 4 such units away where nothing has changed, beside 20 one in 200.

Stalls and recoveries are compared as seconds and one more, so that nobody is told of a recovery of 40 ms that took 4 ms before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median

from fencepost.harness.memory.rows import RunRow

LEAST_ROUNDS, MOST_ROUNDS = 6, 20
LEAST_RATIO = 1.2
LEAST_S = 1.0  # by which a stall or a recovery differs
BOUNDS = (18.8, 18.1, 11.5, 11.5, 8.8, 8.6, 7.4, 7.4, 6.5, 6.5, 6.0, 5.9, 5.6, 5.5, 5.2)  # for 6, 7, ... 20 earlier rounds
_LEAST_DEVIATION = 0.01  # on the logarithmic scale: rounds that happen to agree are no measure of noise
_TO_SIGMA = 1.4826  # from a median absolute deviation to a standard deviation, of normal noise
_SHORT = 0.9  # of the planned time: a run that was stopped before is no measure


@dataclass(frozen=True)
class Metric:
    """A figure of a run.

    column: its field of `RunRow`. beneath: what is added before the logarithm. least: the difference that counts.
    """

    name: str
    column: str
    unit: str
    beneath: float
    least: float = 0.0


METRICS = (
    Metric("rate", "rate", "/s", 0.001),
    Metric("longest stall", "gap_s", " s", 1.0, LEAST_S),
    Metric("recovery", "recovery_s", " s", 1.0, LEAST_S),
)


@dataclass(frozen=True)
class Point:
    """The value of a metric in a round: the median of its runs. releases: of brokers and clients."""

    round: str
    created: str
    value: float
    releases: str


@dataclass(frozen=True)
class Trend:
    """The latest value of a metric of a test beside its earlier ones.

    points: by round, the oldest first, the latest included.
    changed: it is beyond their noise. distance: from their median, in units of their deviation; bound: for that many of them.
    """

    campaign: str
    test: str
    metric: Metric
    points: tuple[Point, ...]
    changed: bool = False
    distance: float | None = None
    bound: float | None = None

    @property
    def latest(self) -> Point:
        return self.points[-1]

    @property
    def usual(self) -> float | None:
        """The median of the earlier rounds; None: there are none."""
        earlier = _earlier(self.points)
        return median(point.value for point in earlier) if earlier else None

    def __str__(self) -> str:
        unit, usual, before = self.metric.unit, self.usual, _earlier(self.points)
        text = f"{self.test}: {self.metric.name} {_number(self.latest.value)}{unit}"
        if usual is None:
            return text
        low, high = min(point.value for point in before), max(point.value for point in before)
        over = f"{len(before)} earlier rounds ({_number(low)} to {_number(high)}{unit})"
        text += f", {_difference(self.latest.value, usual)} the median {_number(usual)}{unit} of {over}"
        return text + (f"; {before[-1].releases} before, {self.latest.releases} now" * self._other_release)

    @property
    def _other_release(self) -> bool:
        earlier = _earlier(self.points)
        return bool(earlier) and earlier[-1].releases != self.latest.releases


def trends(rows: Iterable[RunRow]) -> list[Trend]:
    """Every metric of every test in these runs, the tests in the order of their first runs."""
    of_test: dict[tuple[str, str], list[RunRow]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row.created, row.place)):
        if row.verdict and not _was_short(row):
            of_test[row.campaign, row.test].append(row)
    return [
        trend
        for (campaign, test), some in of_test.items()
        for metric in METRICS
        if (trend := _trend(campaign, test, metric, _alike(some)))
    ]


def changes(rows: Iterable[RunRow]) -> list[Trend]:
    """The metrics that have changed in the latest rounds."""
    return [trend for trend in trends(rows) if trend.changed]


def compared(metric: Metric, values: Sequence[float]) -> tuple[bool, float | None, float | None]:
    """The comparison of the last of these values with the others: whether it has changed, its distance from them, the bound."""
    earlier, latest = values[:-1][-MOST_ROUNDS:], values[-1]
    if len(earlier) < LEAST_ROUNDS:
        return False, None, None
    scaled = [log(value + metric.beneath) for value in earlier]
    middle = median(scaled)
    deviation = max(_TO_SIGMA * median(abs(value - middle) for value in scaled), _LEAST_DEVIATION)
    difference = abs(log(latest + metric.beneath) - middle)
    distance, bound = difference / deviation, BOUNDS[len(earlier) - LEAST_ROUNDS]
    large = exp(difference) >= LEAST_RATIO and abs(latest - median(earlier)) >= metric.least
    return large and distance > bound, distance, bound


def _trend(campaign: str, test: str, metric: Metric, rows: Sequence[RunRow]) -> Trend | None:
    points = _points(rows, metric)
    if not points:
        return None
    changed, distance, bound = compared(metric, [point.value for point in points])
    return Trend(campaign, test, metric, tuple(points[-MOST_ROUNDS - 1 :]), changed, distance, bound)


def _points(rows: Sequence[RunRow], metric: Metric) -> list[Point]:
    """The values of a metric by round, the oldest first."""
    of_round: dict[str, list[RunRow]] = defaultdict(list)
    for row in rows:
        if getattr(row, metric.column) is not None:
            of_round[row.round].append(row)
    return [
        Point(name, some[0].created, median(getattr(row, metric.column) for row in some), _releases(some[-1]))
        for name, some in of_round.items()
    ]


def _alike(rows: Sequence[RunRow]) -> list[RunRow]:
    """The runs that are like the last: planned for the same time, the same workload and cluster, a machine of the same size."""
    last = rows[-1]
    return [row for row in rows if _conditions(row) == _conditions(last)]


def _conditions(row: RunRow) -> tuple[object, ...]:
    return row.time_s, row.workload, row.cluster, row.machine, row.client.partition(" ")[0]


def _was_short(row: RunRow) -> bool:
    return row.lasted_s is not None and row.time_s is not None and row.lasted_s < _SHORT * row.time_s


def _earlier(points: Sequence[Point]) -> Sequence[Point]:
    return points[:-1]


def _releases(row: RunRow) -> str:
    return ", ".join(filter(None, [f"Kafka {row.kafka}" * bool(row.kafka), row.client]))


def _difference(value: float, usual: float) -> str:
    if not usual:
        return "above" if value > 0 else "as"
    share = round(abs(value / usual - 1) * 100)
    return f"{share} % {'above' if value >= usual else 'below'}"


def _number(value: float) -> str:
    return f"{value:.1f}" if value >= 1 else f"{value:.3f}"
