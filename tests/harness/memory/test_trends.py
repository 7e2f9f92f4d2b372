"""Trends over rounds: what is flagged, how often for nothing, and how often what has changed is."""

from __future__ import annotations

from collections.abc import Callable
from math import exp
from random import Random
from typing import Any

import pytest

from fencepost.harness.memory.rows import RunRow
from fencepost.harness.memory.trends import BOUNDS, LEAST_ROUNDS, METRICS, MOST_ROUNDS, changes, compared, trends

RATE, STALL, RECOVERY = METRICS
TRIALS = 3_000


def normal(share: float) -> Callable[[Random], float]:
    return lambda rng: max(rng.gauss(1, share), 0.01)


def lognormal(sigma: float) -> Callable[[Random], float]:
    return lambda rng: exp(rng.gauss(0, sigma))


def heavy_tailed(sigma: float) -> Callable[[Random], float]:
    """Student's t with three degrees of freedom, on a logarithmic scale: now and then a night is far off."""

    def drawn(rng: Random) -> float:
        chi = sum(rng.gauss(0, 1) ** 2 for _ in range(3)) / 3
        return exp(min(sigma * rng.gauss(0, 1) / chi**0.5, 50.0))

    return drawn


def flagged(
    metric: Any, noise: Callable[[Random], float], rounds: int, usual: float, factor: float = 1.0, seed: int = 5
) -> float:
    """The share of trials in which the last value is flagged. factor: of its change."""
    rng = Random(seed)
    hits = 0
    for _ in range(TRIALS):
        values = [usual * noise(rng) for _ in range(rounds + 1)]
        hits += compared(metric, [*values[:-1], values[-1] * factor])[0]
    return hits / TRIALS


# --------------------------------------------------------------------------------------------------
# False alarms, and changes that are seen
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("rounds", [6, 12, 20])
@pytest.mark.parametrize(
    ("noise", "most"),
    [
        (normal(0.05), 0.0005),
        (normal(0.15), 0.002),
        (normal(0.3), 0.012),  # skewed, on a logarithmic scale
        (lognormal(0.3), 0.002),
        (lognormal(0.6), 0.002),
        (heavy_tailed(0.2), 0.025),
    ],
    ids=["5 %", "15 %", "30 %", "lognormal 0.3", "lognormal 0.6", "heavy-tailed"],
)
def test_what_has_not_changed_is_seldom_flagged(noise, most, rounds):
    share = flagged(RATE, noise, rounds, 20.0)
    assert share <= most


@pytest.mark.parametrize(
    ("metric", "usual", "factor", "noise", "rounds", "least"),
    [
        (RATE, 20.0, 0.5, normal(0.05), 8, 0.75),
        (RATE, 20.0, 0.5, normal(0.05), 20, 0.99),
        (RATE, 20.0, 0.7, normal(0.05), 20, 0.85),
        (STALL, 5.0, 2.0, lognormal(0.1), 20, 0.8),
        (RECOVERY, 0.05, 200.0, lognormal(0.6), 12, 0.99),
    ],
)
def test_what_has_changed_is_flagged(metric, usual, factor, noise, rounds, least):
    assert flagged(metric, noise, rounds, usual, factor) >= least


def test_a_recovery_of_milliseconds_that_takes_ten_times_as_long_is_none():
    assert flagged(RECOVERY, lognormal(0.5), 20, 0.004, 10.0) == 0


def test_a_fifth_is_the_least_that_counts_however_quiet_it_is():
    quiet = [20.0 + 0.01 * number for number in range(12)]
    assert not compared(RATE, [*quiet, 23.5])[0]
    assert compared(RATE, [*quiet, 25.0])[0]
    assert compared(RATE, [20.0] * 12 + [16.0])[0]


def test_a_rate_of_nothing_has_changed():
    assert compared(RATE, [20.0] * 12 + [0.0])[0]
    assert not compared(RATE, [0.0] * 12 + [0.0])[0]


def test_there_is_a_bound_for_each_number_of_rounds():
    assert len(BOUNDS) == MOST_ROUNDS - LEAST_ROUNDS + 1
    assert compared(RATE, [1.0] * LEAST_ROUNDS) == (False, None, None)
    assert compared(RATE, [1.0] * (LEAST_ROUNDS + 1))[2] == BOUNDS[0]
    assert compared(RATE, [1.0] * 100)[2] == BOUNDS[-1]


# --------------------------------------------------------------------------------------------------
# Runs
# --------------------------------------------------------------------------------------------------
def run(night: int, rate: float | None, **fields: Any) -> RunRow:
    values: dict[str, Any] = {
        "test": "steady",
        "verdict": "valid",
        "gap_s": 1.0,
        "recovery_s": 0.01,
        "lasted_s": 60.1,
        "time_s": 60.0,
    }
    values |= {"kafka": "4.3.0", "client": "librdkafka 2.16.1", "machine": "2 processors, 24 GiB", "campaign": "nightly"}
    place = f"nightly/202611{night:02}T010000Z-{fields.pop('number', 0)}"
    values |= {
        "place": place,
        "run": place,
        "round": f"202611{night:02}",
        "created": f"2026-11-{night:02}T01:00:00Z",
        "rate": rate,
    }
    return RunRow(**{**values, **fields})


NIGHTS = [run(night, 20.0 + night % 3) for night in range(1, 13)]


def test_a_change_is_named_with_what_was_usual_and_the_releases():
    [change] = changes([*NIGHTS, run(13, 9.0, kafka="4.4.0")])
    assert str(change) == (
        "steady: rate 9.0/s, 57 % below the median 21.0/s of 12 earlier rounds (20.0 to 22.0/s); Kafka 4.3.0, librdkafka 2.16.1 "
        "before, Kafka 4.4.0, librdkafka 2.16.1 now"
    )
    assert changes([*NIGHTS, run(13, 21.0)]) == []


def test_every_metric_has_a_trend_whether_it_has_changed_or_not():
    assert [(trend.metric.name, trend.changed, len(trend.points)) for trend in trends(NIGHTS)] == [
        ("rate", False, 12),
        ("longest stall", False, 12),
        ("recovery", False, 12),
    ]
    assert str(trends([run(1, 20.0)])[0]) == "steady: rate 20.0/s"


def test_the_value_of_a_round_is_the_median_of_its_runs():
    rows = [run(1, rate, number=number) for number, rate in enumerate((1.0, 20.0, 30.0))]
    assert [point.value for point in trends(rows)[0].points] == [20.0]


@pytest.mark.parametrize(
    "fields",
    [
        {"machine": "64 processors, 256 GiB"},
        {"time_s": 120.0, "lasted_s": 120.0},
        {"workload": "pipeline"},
        {"cluster": "docker"},
        {"client": "java 4.4.0"},
    ],
)
def test_other_conditions_are_no_measure(fields):
    assert changes([*NIGHTS, run(13, 9.0, **fields)]) == []


@pytest.mark.parametrize("fields", [{"lasted_s": 20.0}, {"verdict": ""}, {"rate": None}])
def test_a_run_that_was_cut_short_or_not_judged_is_no_measure(fields):
    last = run(13, **{"rate": 9.0, **fields})
    assert [trend.latest.round for trend in trends([*NIGHTS, last]) if trend.metric is RATE] == ["20261112"]


def test_tests_and_campaigns_are_apart():
    rows = [*NIGHTS, *(run(night, 5.0, campaign="other") for night in range(1, 14))]
    assert changes(rows) == []
    assert {trend.campaign for trend in trends(rows)} == {"nightly", "other"}
