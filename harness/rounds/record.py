"""A round: one performance of a campaign, as `round.json` records it (docs/run-directory.md#rounds).

The record is written before the first run, and after each, so that a round which ends early can go on
(`harness.rounds.beginning`). It has enough of every verdict for the round's `junit.xml`, `summary.md` and exit code to be made
of it alone: the runs' directories may lie on another machine.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict

from fencepost.harness.api.errors import Exit
from fencepost.harness.api.plans import Test
from fencepost.harness.campaign.campaign import CONTROLS, PlannedRun
from fencepost.harness.runs.sequence import RunResult

SCHEMA = 1
SENTENCES, LONGEST_SENTENCE = 3, 600  # of a run's anomalies, and letters of each
_SCALARS = (str, int, float, bool, type(None))


@dataclass(frozen=True, kw_only=True)
class RoundTest:
    """A test of a round.

    name: its name.
    expect: what it expects.
    time_s: seconds of workload.
    line: the line of the campaign file on which it begins; 0: it stands in no such file.
    is_control: it is the canary or the baseline.
    content: everything that decides it, as JSON has it, so that a changed test is noticed.
    """

    name: str
    expect: tuple[str, ...] = ("valid",)
    time_s: float = 0.0
    line: int = 0
    is_control: bool = False
    content: Mapping[str, Any] = field(default_factory=dict)


class VerdictExcerpt(TypedDict, total=False):
    """The part of a verdict document that a record has, beside the document's plain values (`excerpt`)."""

    verdict: str
    reason: str
    expectation: str
    expectation_met: bool | None
    known: str
    properties: Sequence[PropertyExcerpt]
    unexpected: Sequence[NameExcerpt]
    counts: Mapping[str, int]
    findings: Sequence[FindingExcerpt]


class NameExcerpt(TypedDict):
    name: str


class PropertyExcerpt(TypedDict):
    name: str
    verdict: str
    count: int


class FindingExcerpt(TypedDict):
    anomaly: str
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A run that was performed, or could not be.

    directory: the run's directory, in the folder of the campaign; empty: it left none.
    began: its start, ISO 8601. took_s: seconds from there to its report.
    verdict: the part of the verdict document that outcomes are made of (`excerpt`); empty: there is none.
    error: the reason why there is no verdict. exit: the exit code of such a run.
    stopped: performing was ended by Ctrl-C.
    """

    directory: str = ""
    began: str = ""
    took_s: float = 0.0
    verdict: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    exit: int = int(Exit.HARNESS_BROKE)
    stopped: bool = False


@dataclass(frozen=True, kw_only=True)
class RoundRun:
    """A planned run of a round.

    number: its number in the campaign, from 0, on every machine alike; controls have numbers below 0.
    test: the name of its test. seed: its seed. command: the command that repeats it alone.
    shard: the shard that performs it; 0: each shard does.
    expected_s: seconds that it was expected to take.
    left_out: the reason why it was not performed, where it was decided not to.
    attempts: how it was performed, the last of which counts.
    """

    number: int
    test: str
    seed: int
    command: str = ""
    shard: int = 1
    expected_s: float = 0.0
    left_out: str = ""
    attempts: tuple[Attempt, ...] = ()

    @property
    def last(self) -> Attempt | None:
        """The attempt that counts."""
        return self.attempts[-1] if self.attempts else None

    @property
    def done(self) -> bool:
        """True if it was performed to its end, and judged."""
        return self.last is not None and not self.last.error and not self.last.stopped


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The options of the command line that decide what a round performs.

    only: names of tests. repeat: how often each is run. cluster: words that name the cluster.
    seed_given: the seed comes before those of the file.
    canary: whether the controls are performed. order: of the runs. hours: the round's budget.
    go_on: runs are performed although the harness cannot be trusted. retries: of a run without a verdict.
    """

    only: tuple[str, ...] = ()
    repeat: int | None = None
    cluster: Mapping[str, Any] = field(default_factory=dict)
    seed_given: bool = False
    canary: bool = False
    order: str = "auto"
    hours: float | None = None
    go_on: bool = False
    retries: int = 0


@dataclass(frozen=True, kw_only=True)
class Round:
    """A round.

    round: its time of start (UTC), which the plans of its runs name too.
    campaign: the campaign's name. file: the campaign as the command line named it. path: the path of its file.
    seed: the seed of tests without one.
    shard, shards: this machine's part of the planned runs, of how many; 0: all, merged.
    choices: what the command line asked for.
    tests: in the order of the file, controls first. runs: in the order in which they are performed, those of other shards too.
    earlier: rounds before it of which the expected times come.
    sittings: the times at which it was begun or resumed. ended: the time at which it ended; empty: it has not.
    cut_off: directories of runs that were cut off, and whose tests were performed again.
    notes: what else was noticed, a sentence each.
    remembered: what is new, gone or changed since other rounds, a sentence each.
    exit: the exit code; None: it has not ended.
    """

    round: str
    campaign: str
    file: str = ""
    path: str = ""
    seed: int = 0
    shard: int = 1
    shards: int = 1
    choices: Choices = Choices()
    tests: tuple[RoundTest, ...] = ()
    runs: tuple[RoundRun, ...] = ()
    earlier: int = 0
    sittings: tuple[str, ...] = ()
    ended: str = ""
    cut_off: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    remembered: tuple[str, ...] = ()
    exit: int | None = None
    fencepost: str = ""
    schema: int = SCHEMA

    @property
    def own(self) -> tuple[RoundRun, ...]:
        """The runs that this round itself performs, in that order."""
        return tuple(run for run in self.runs if not self.shard or run.shard in (0, self.shard))

    @property
    def missing(self) -> tuple[RoundRun, ...]:
        """The runs of this round that were not performed."""
        return tuple(run for run in self.own if not run.attempts)

    @property
    def spent_s(self) -> float:
        """Seconds that its runs took."""
        return sum(attempt.took_s for run in self.own for attempt in run.attempts)

    def test(self, name: str) -> RoundTest:
        """The test of that name; an empty one where there is none."""
        return self._by_name.get(name) or RoundTest(name=name)

    @cached_property
    def _by_name(self) -> Mapping[str, RoundTest]:
        return {test.name: test for test in self.tests}

    def with_run(self, run: RoundRun) -> Round:
        """The round with a run in place of the one that has its number and shard."""
        key = (run.number, run.shard)
        return replace(self, runs=tuple(run if (other.number, other.shard) == key else other for other in self.runs))


# --------------------------------------------------------------------------------------------------
# From plans and results
# --------------------------------------------------------------------------------------------------
def round_test(test: Test, line: int = 0) -> RoundTest:
    """A test as a round records it."""
    content = dataclasses.asdict(test)
    for key in ("name", "campaign"):
        content.pop(key)
    plain = json.loads(json.dumps(content, default=str))
    control = test.name in CONTROLS
    return RoundTest(name=test.name, expect=test.expect, time_s=test.time_s, line=line, is_control=control, content=plain)


def attempt_of(result: RunResult, began: str) -> Attempt:
    """A result as a round records it."""
    return Attempt(
        directory=result.run_dir.name if result.run_dir else "",
        began=began,
        took_s=round(result.took_s, 1),
        verdict=excerpt(result.verdict),
        error=result.error,
        exit=int(result.exit),
        stopped=result.stopped,
    )


def excerpt(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a verdict document of which outcomes are made: its plain values, and the first finding of each anomaly."""
    if not verdict:
        return {}
    first: dict[str, Mapping[str, Any]] = {}
    for finding in verdict.get("findings") or ():
        if finding.get("forbidden", True):
            first.setdefault(str(finding.get("anomaly", "?")), finding)
    return {
        **{key: value for key, value in verdict.items() if isinstance(value, _SCALARS)},
        "properties": [
            {key: row[key] for key in ("name", "verdict", "count")}
            for row in verdict.get("properties") or ()
            if row.get("verdict") == "violated"
        ],
        **({"unexpected": [{"name": row["name"]} for row in verdict["unexpected"]]} if "unexpected" in verdict else {}),
        "counts": {"operations": (verdict.get("counts") or {}).get("operations", 0)},
        "findings": [
            {"anomaly": anomaly, "sentence": str(finding.get("sentence", ""))[:LONGEST_SENTENCE]}
            for anomaly, finding in [*first.items()][:SENTENCES]
        ],
    }


def results_of(round: Round, folder: Path) -> list[RunResult]:
    """The results of a round's runs, as far as they were performed. folder: of the campaign."""
    return [result for run in round.own if (result := result_of(round, run, folder))]


def result_of(round: Round, run: RoundRun, folder: Path) -> RunResult | None:
    """The result of a run by its last attempt; None: it was not performed."""
    attempt, test = run.last, round.test(run.test)
    if attempt is None:
        return None
    planned = PlannedRun(
        Test(name=run.test, expect=test.expect, time_s=test.time_s, campaign=round.campaign), run.seed, run.command
    )
    return RunResult(
        planned=planned,
        run_dir=folder / attempt.directory if attempt.directory else None,
        verdict=attempt.verdict,
        error=attempt.error,
        exit=Exit.UNUSABLE if attempt.exit == Exit.UNUSABLE else Exit.HARNESS_BROKE,
        took_s=attempt.took_s,
        stopped=attempt.stopped,
    )


def results_in_order(runs: Sequence[RoundRun], tests: Sequence[RoundTest]) -> list[tuple[RoundTest, list[RoundRun]]]:
    """The runs of each test together, in the order of the tests."""
    by_name: dict[str, list[RoundRun]] = {}
    for run in runs:
        by_name.setdefault(run.test, []).append(run)
    return [(test, sorted(by_name[test.name], key=lambda run: run.number)) for test in tests if test.name in by_name]
