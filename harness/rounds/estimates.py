"""The time that runs are expected to take, and what follows from it: their order, their shards, what fits into a budget.

What earlier rounds took beside the workload's own time is known by test; a test that is new takes what the others did. Shards are
the same on every machine, so that they follow from the campaign alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from fencepost.harness.api.words import plural
from fencepost.harness.campaign.campaign import PlannedRun
from fencepost.harness.rounds.outcome import red_tests
from fencepost.harness.rounds.record import Round, RoundRun

AUTO, FILE = ORDERS = ("auto", "file")
OVERHEAD_S = 20.0  # of a run beside its workload: start, healing, final read, judgement (15 to 35 s on two cores)
MOST_ROUNDS = 10  # that are looked at


@dataclass(frozen=True, kw_only=True)
class Experience:
    """The runs of earlier rounds of a campaign.

    overheads: by test, the median of the seconds that its runs took beside the workload's own time.
    red: tests that were not as expected when they were last performed.
    rounds: how many there are.
    """

    overheads: Mapping[str, float] = field(default_factory=dict)
    red: frozenset[str] = frozenset()
    rounds: int = 0

    @property
    def common_s(self) -> float:
        """The overhead of a test that was never performed."""
        return median(self.overheads.values()) if self.overheads else OVERHEAD_S

    def expected_s(self, test: str, time_s: float) -> float:
        """Seconds that a run of a test is expected to take."""
        return round(time_s + self.overheads.get(test, self.common_s), 1)


def experience(rounds: Iterable[Round]) -> Experience:
    """What earlier rounds show, the newest of which comes first."""
    overheads: dict[str, list[float]] = {}
    red: dict[str, bool] = {}
    looked_at = 0
    for earlier in rounds:
        performed = [run for run in earlier.own if run.attempts]
        looked_at += bool(performed)
        for name in dict.fromkeys(run.test for run in performed):
            red.setdefault(name, name in red_tests(earlier))
        for run in performed:
            time_s = earlier.test(run.test).time_s
            if run.last is not None and run.done and run.last.took_s >= time_s:  # else it was only judged
                overheads.setdefault(run.test, []).append(run.last.took_s - time_s)
    return Experience(
        overheads={name: median(times) for name, times in overheads.items()},
        red=frozenset(name for name, is_red in red.items() if is_red),
        rounds=looked_at,
    )


def ordered(plan: Sequence[PlannedRun], known: Experience, order: str) -> list[PlannedRun]:
    """A plan in the order of performance: tests that were red, then the shortest; the file's order where nothing is known.

    The runs of a test stay together.
    """
    if order == FILE or not known.rounds:
        return list(plan)
    costs: dict[str, float] = {}
    for run in plan:
        costs[run.test.name] = costs.get(run.test.name, 0.0) + known.expected_s(run.test.name, run.test.time_s)
    return sorted(plan, key=lambda run: (run.test.name not in known.red, costs[run.test.name]))


def shards_of(plan: Sequence[PlannedRun], shards: int) -> list[int]:
    """The shard of each run, from 1: the longest first, each to the shard that has the least so far.

    A shard's time is that of its workloads and `OVERHEAD_S` of each run, so that every machine comes to the same answer.
    """
    loads, chosen = [0.0] * shards, [1] * len(plan)
    for number in sorted(range(len(plan)), key=lambda number: -plan[number].test.time_s):
        lightest = min(range(shards), key=lambda shard: (loads[shard], shard))
        loads[lightest] += plan[number].test.time_s + OVERHEAD_S
        chosen[number] = lightest + 1
    return chosen


def estimate(left: Sequence[RoundRun], of: int, rounds: int) -> str:
    """`23 runs, about 41 min (from 3 earlier rounds)`, or `2 of 23 runs left, about 3 min (no earlier round)`.

    left: the runs that are to be performed. of: how many the round has. rounds: earlier ones that times are known of.
    """
    counted = plural(of, "run") if len(left) == of else f"{len(left)} of {plural(of, 'run')} left"
    source = f"from {plural(rounds, 'earlier round')}" if rounds else "no earlier round"
    return f"{counted}, about {in_words(sum(run.expected_s for run in left))} ({source})"


def in_words(seconds: float) -> str:
    """A length of time, roughly: `50 s`, `41 min`, `2 h 10 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
