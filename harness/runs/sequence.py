"""One run after another: perform, judge, go on; and what Ctrl-C means. Prints nothing.

Ctrl-C once ends the workload, heals, collects and judges what there is; twice, SIGTERM and SIGHUP leave at once with exit code
130. A run that was stopped has tested less than its test asks, and its verdict says so (`checkers.verdict.shortfalls`).
"""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from fencepost.harness.api import HarnessError
from fencepost.harness.api.errors import Exit, Interrupted, NotBegun, exit_of, lack_of_machine
from fencepost.harness.api.events import RunEvent, note_event
from fencepost.harness.api.expectations import anomaly_and_word
from fencepost.harness.api.plans import Test
from fencepost.harness.api.run import Run
from fencepost.harness.api.values import Verdict
from fencepost.harness.campaign.campaign import PlannedRun
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.runs import store
from fencepost.harness.system import ending_signals, liveness

LEFT_BY_CTRL_C = 130


class Engine(Protocol):
    """Performs and judges runs: `harness.runs.runner.Runner`."""

    def hold(self, run_dir: Path) -> int | None: ...
    def start_spark(self, *, warm: bool = True) -> None: ...
    def prepare(self, test: Test, *, seed: int, command: str, round: str = "") -> Path: ...
    def perform(self, run_dir: Path) -> None: ...
    def fetch(self, url: str, contract: Mapping[str, str]) -> Path: ...
    def judge(
        self,
        run: Run,
        contract: Mapping[str, str] | None = None,
        checkers: Sequence[str] = (),
        last: bool = False,
        here: bool = False,
    ) -> dict[str, Any]: ...
    def request_stop(self, by: str) -> None: ...
    def kill(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The result of a planned run: a verdict document, or the reason why there is none.

    exit: of a run without a verdict: whether fencepost broke, or something that it needs cannot be used.
    stopped: performing was ended by Ctrl-C.
    """

    planned: PlannedRun
    run_dir: Path | None = None
    verdict: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    exit: Exit = Exit.HARNESS_BROKE
    took_s: float = 0.0
    stopped: bool = False

    @property
    def met(self) -> bool:
        return bool(self.verdict.get("expectation_met")) or self.known_alone

    @property
    def known_alone(self) -> bool:
        """Return whether the run is as its test expects, were it not for findings that are acknowledged (`known.toml`)."""
        return self._all_known and self.verdict.get("met_without_unexpected") is True

    @property
    def _all_known(self) -> bool:
        return self.verdict.get("unexpected_known") is True and self.verdict.get("expectation_met") is False

    @property
    def violated(self) -> list[str]:
        """Names of the anomalies that were found against the contract."""
        return [row["name"] for row in self.verdict.get("properties", []) if row["verdict"] == "violated"]

    @property
    def unexpected(self) -> list[str]:
        """Names of the anomalies that were found against the contract and against the test's expectation; none where each finding
        is acknowledged."""
        if self._all_known:
            return []
        expected = {anomaly_and_word(text)[0] for text in self.planned.test.expect}
        named = [row["name"] for row in self.verdict.get("unexpected", [])]
        known = self.met or "unexpected" in self.verdict
        return named if known else [name for name in self.violated if name not in expected]

    @property
    def undecided(self) -> bool:
        """Return whether the run leaves open if it shows what its test expects."""
        unknown = self.verdict.get("verdict") == Verdict.UNKNOWN.value
        unknown |= self._all_known and self.verdict.get("met_without_unexpected", False) is None
        return not self.error and (unknown or self.verdict.get("expectation_met", False) is None)


class RunSequence:
    """Performs planned runs with an engine, one after another."""

    def __init__(
        self,
        engine: Engine,
        emit: Callable[[RunEvent], None],
        leave: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ):
        """`emit` takes events (as the engine's); `leave` tidies the screen before the second Ctrl-C ends the process."""
        self._engine, self._emit, self._leave, self._clock = engine, emit, leave, clock
        self._spark_started = False
        self._presses = 0
        self.stopping = False

    def on_event(self, event: RunEvent) -> None:
        """Takes the engine's events. Spark starts beside the workload, not beside the cluster's own start."""
        if event.get("event") == "phase" and event.get("phase") == "workload":
            self.start_spark()
        self._emit(event)

    def start_spark(self) -> None:
        if not self._spark_started:
            self._spark_started = True
            self._engine.start_spark()

    def run_all(self, plan: Sequence[PlannedRun], each: Callable[[RunResult], None] = lambda _: None) -> list[RunResult]:
        """Every run of the plan; after Ctrl-C none that had not begun. `each` gets every result at once."""
        results = []
        with self.interruptible():
            for number, planned in enumerate(plan, start=1):
                if self.stopping or (result := self.run(planned, number, len(plan))) is None:
                    break
                results.append(result)
                each(result)
        return results

    def run(self, planned: PlannedRun, number: int, of: int, run_dir: Path | None = None) -> RunResult | None:
        """Perform and judge a planned run, within `interruptible`; of one that was performed before only judge `run_dir`.

        None: Ctrl-C came before its workload began. Nothing is left of it but what the cluster could not remove.
        """
        self._emit({"event": "begin", "number": number, "of": of, "test": planned.test, "seed": planned.seed})
        began, stopped, verdict, error, code = self._clock(), False, {}, "", Exit.HARNESS_BROKE
        try:
            if run_dir is None:
                run_dir = self._engine.prepare(planned.test, seed=planned.seed, command=planned.command, round=planned.round)
                self._perform(run_dir)
                stopped = self.stopping
            self.start_spark()
            verdict = self._engine.judge(open_run(run_dir), checkers=planned.test.checkers)
        except NotBegun as cut:
            assert run_dir is not None
            if not open_run(run_dir).left_behind:
                store.discard(run_dir)
            self._emit(note_event(str(cut)))
            self._wait_if_leaving()
            return None
        except Exception as broken:  # noqa: BLE001 - a bug of ours in one run must not cost the other runs of a night
            code = exit_of(broken)
            error = lack_of_machine(broken) or (str(broken) if code is Exit.UNUSABLE else f"{type(broken).__name__}: {broken}")
            if not isinstance(broken, HarnessError) and code is Exit.HARNESS_BROKE:
                self._emit(note_event(traceback.format_exc()))
            run_dir = store.unless_empty(run_dir)
        self._wait_if_leaving()
        took_s = self._clock() - began
        return RunResult(
            planned=planned, run_dir=run_dir, verdict=verdict, error=error, exit=code, took_s=took_s, stopped=stopped
        )

    def _perform(self, run_dir: Path) -> None:
        try:
            self._engine.perform(run_dir)
        except Interrupted as cut:
            self.stopping = True
            if isinstance(cut, NotBegun):
                raise
        self._wait_if_leaving()

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Ctrl-C and the signals that end the process have their meaning here within the block."""
        before = {number: signal.signal(number, self._pressed) for number in (signal.SIGINT, *ending_signals.heeded())}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _pressed(self, number: int, frame: FrameType | None) -> None:
        """A signal handler may not print (it may have interrupted a print), so threads do the work."""
        self._presses += 1 if number == signal.SIGINT else 2
        if self._presses == 1:
            self.stopping = True
            threading.Thread(target=self._stop, daemon=True).start()
        elif self._presses <= 3:
            threading.Thread(target=self._die, daemon=True).start()
        else:
            os._exit(LEFT_BY_CTRL_C)

    def _stop(self) -> None:
        text = "stopping: heal, collect, and judge what there is (Ctrl-C again leaves at once)"
        self._emit(note_event(text))
        self._engine.request_stop("Ctrl-C")

    def _die(self) -> None:
        try:
            self._engine.kill()
            self._leave()
        finally:
            liveness.end_temporary_places()
            os._exit(LEFT_BY_CTRL_C)

    def _wait_if_leaving(self) -> None:
        """The second Ctrl-C ends the process from its own thread; say nothing more meanwhile."""
        if self._presses >= 2:
            threading.Event().wait()


def by_test(results: Sequence[RunResult]) -> list[list[RunResult]]:
    """The results of each test together, in the order in which each test was first performed."""
    tests: dict[str, list[RunResult]] = {}
    for result in results:
        tests.setdefault(result.planned.test.name, []).append(result)
    return list(tests.values())


def expectation_met(runs: Sequence[RunResult]) -> bool:
    """Return whether all runs of a test together did what the test expects.

    A test that expects `valid` must be valid every time. One that expects anomalies must show them at least once when it
    is repeated (live bugs are matters of luck), and never an anomaly that it does not expect.
    """
    if any(run.error for run in runs):
        return False
    if runs[0].planned.test.expect == ("valid",):
        return all(run.met for run in runs)
    return any(run.met for run in runs) and not any(run.unexpected for run in runs)


def exit_code(results: Sequence[RunResult], unperformed: Collection[str] = ()) -> Exit:
    """The gravest of: 255, fencepost broke; 254, something that a run needs cannot be used; 1, against expectation; 2, nobody
    knows whether all is as expected; 0, all as expected. unperformed: names of tests of which runs were not performed.
    """
    if broken := [run.exit for run in results if run.error]:
        return max(broken)
    unmet = [runs for runs in by_test(results) if not expectation_met(runs)]
    if not all(left_open(runs, runs[0].planned.test.name in unperformed) for runs in unmet):
        return Exit.INVALID
    return Exit.UNKNOWN if unmet or unperformed or not results else Exit.VALID


def left_open(runs: Sequence[RunResult], unperformed: bool) -> bool:
    """Return whether nobody knows if the runs of a test, which did not do what it expects, would have done it.

    One run decides that a test is not valid; that it does not show an anomaly, only all of them do.
    unperformed: others of the test were not performed.
    """
    open_ones = [run.undecided for run in runs if not run.met]
    if runs[0].planned.test.expect == ("valid",):
        return bool(open_ones) and all(open_ones)
    return (unperformed or any(open_ones)) and not any(run.unexpected for run in runs)
