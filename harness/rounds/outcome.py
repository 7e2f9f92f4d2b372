"""The outcome of a round, of each test and of all: what `junit.xml`, `summary.md` and the last lines on the screen show."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePosixPath

from fencepost.harness.api.errors import Exit
from fencepost.harness.api.run import RunFile
from fencepost.harness.api.words import plural
from fencepost.harness.rounds.record import Round, RoundRun, RoundTest, result_of, results_in_order, results_of
from fencepost.harness.runs.result_words import in_words, together
from fencepost.harness.runs.sequence import RunResult, exit_code, expectation_met, left_open

UNTRUSTED = "the harness cannot be trusted in this round"


class State(Enum):
    """The outcome of a test in a round."""

    VIOLATED = "against expectation"
    UNKNOWN = "unknown"
    BROKEN = "no verdict"
    LEFT_OUT = "left out"
    MET = "as expected"


@dataclass(frozen=True, kw_only=True)
class TestOutcome:
    """A test and its runs in a round.

    results: of the runs that were performed, by their last attempts.
    """

    __test__ = False  # not a pytest class

    test: RoundTest
    runs: Sequence[RoundRun]
    results: Sequence[RunResult]

    @property
    def state(self) -> State:
        if not self.results:
            return State.LEFT_OUT
        if any(result.error for result in self.results):
            return State.BROKEN
        if expectation_met(self.results):
            return State.MET
        return State.UNKNOWN if left_open(self.results, len(self.results) < len(self.runs)) else State.VIOLATED

    @property
    def words(self) -> str:
        """The outcome in words: `2 of 5 hit: torn-transaction; 1 of 6 runs not performed`."""
        left = len(self.runs) - len(self.results)
        if not self.results:
            return reason_left_out(self.runs)
        return together(self.results) + (f"; {left} of {plural(len(self.runs), 'run')} not performed" if left else "")

    @property
    def red_runs(self) -> list[RoundRun]:
        """The runs that were performed, and not as expected."""
        performed = [run for run in self.runs if run.attempts]
        return [run for run, result in zip(performed, self.results, strict=True) if result.error or not result.met]

    @property
    def acknowledged(self) -> list[str]:
        """Sentences on findings that are known (`known.toml`), each once."""
        texts = [str(run.last.verdict.get("known") or "") for run in self.runs if run.last]
        return list(dict.fromkeys(filter(None, texts)))

    @property
    def performed_again(self) -> list[str]:
        """A sentence on attempts that broke, and were performed again; none where there were none."""
        errors = [attempt.error for run in self.runs for attempt in run.attempts[:-1] if attempt.error]
        return [f"{plural(len(errors), 'attempt')} broke, and the run was performed again: {errors[0]}"] if errors else []


def outcomes(round: Round, folder: Path) -> list[TestOutcome]:
    """The outcome of each test of a round, controls first, then in the order of the file. folder: of the campaign."""
    return [
        TestOutcome(test=test, runs=runs, results=[result for run in runs if (result := result_of(round, run, folder))])
        for test, runs in results_in_order(round.own, round.tests)
    ]


def red_tests(round: Round) -> list[str]:
    """The tests of a round that were performed, and not as expected: violations, unknown verdicts, runs without one."""
    red = (State.VIOLATED, State.UNKNOWN, State.BROKEN)
    return [outcome.test.name for outcome in outcomes(round, Path()) if outcome.state in red and not outcome.test.is_control]


def reason_left_out(runs: Sequence[RoundRun]) -> str:
    """The reason why runs of a test were not performed."""
    return next((run.left_out for run in runs if run.left_out), "not performed: the round ended before")


def untrusted(round: Round) -> str:
    """A sentence on a canary that was not caught, or a baseline that was not valid; empty where there is none."""
    failed = [f"{run.test}: {in_words(result)}" for run, result in _failed_controls(round)]
    return f"{UNTRUSTED}: {'; '.join(failed)}" if failed else ""


def _failed_controls(round: Round) -> list[tuple[RoundRun, RunResult]]:
    """The canaries and baselines that did not do what they must, by their verdicts alone: none of it is a known finding."""
    results = [(run, result_of(round, run, Path())) for run in round.own if round.test(run.test).is_control]
    ended = [(run, result) for run, result in results if result and not result.stopped]
    return [(run, result) for run, result in ended if result.error or result.verdict.get("expectation_met") is not True]


def round_exit(round: Round) -> Exit:
    """The exit code of a round: that of its runs; 255 where a control failed; at best 2 where runs are missing."""
    if any(not result.error for _, result in _failed_controls(round)):
        return Exit.HARNESS_BROKE
    return exit_code(results_of(round, Path()), {run.test for run in round.missing})


def report_of(run: RoundRun, folder: Path) -> Path | None:
    """The report of a run, or its directory where there is none; None: it left no directory."""
    if run.last is None or not run.last.directory:
        return None
    directory = Path(os.path.normpath(folder / PurePosixPath(run.last.directory)))
    return directory / RunFile.REPORT if run.last.verdict else directory


def sentences(runs: Sequence[RoundRun]) -> list[str]:
    """The sentences of the first findings of some runs, each once, with its anomaly."""
    findings = [finding for run in runs if run.last for finding in run.last.verdict.get("findings") or ()]
    return list(dict.fromkeys(f"{finding['anomaly']}: {finding['sentence']}" for finding in findings))
