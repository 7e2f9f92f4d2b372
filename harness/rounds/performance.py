"""The performance of a round: one planned run after another, each recorded as soon as it has ended. Prints nothing.

A run without a verdict, because something broke, may be performed again (`retries`); a violation never is. Where a control fails
nothing after it can be trusted, so that the rest is left out, unless that was asked for. A run that does not fit into the round's
budget is left out, and shorter ones behind it are performed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fencepost.harness.api.errors import UnwritableFile
from fencepost.harness.api.events import RunEvent, note_event
from fencepost.harness.campaign.campaign import PlannedRun
from fencepost.harness.rounds.documents import write_documents
from fencepost.harness.rounds.estimates import in_words
from fencepost.harness.rounds.folders import RoundRecord, iso, now
from fencepost.harness.rounds.outcome import round_exit, untrusted
from fencepost.harness.rounds.record import Round, RoundRun, attempt_of
from fencepost.harness.runs.sequence import RunResult, RunSequence

HOUR_S = 3600.0


class RoundPerformance:
    """Performs what is left of a round.

    planned: the runs by their numbers.
    each: takes the result of each attempt.
    remember: of a round that has ended, what is new, gone or changed since other rounds, a sentence each.
    """

    def __init__(
        self,
        record: RoundRecord,
        sequence: RunSequence,
        planned: Mapping[int, PlannedRun],
        emit: Callable[[RunEvent], None],
        each: Callable[[RunResult], None],
        clock: Callable[[], float] = time.monotonic,
        remember: Callable[[Round], Sequence[str]] = lambda _: (),
    ) -> None:
        self._record, self._sequence, self._planned = record, sequence, planned
        self._emit, self._each, self._clock, self._remember = emit, each, clock, remember

    def perform(self, unfinished: Mapping[int, Path] | None = None) -> Round:
        """Every run that is not done; after Ctrl-C none that had not begun.

        unfinished: directories of runs whose histories are concluded, by number: they are only judged.
        """
        self._write(self._record.round)
        own = self._record.round.own
        with self._sequence.interruptible():
            for position, run in enumerate(own, start=1):
                if self._sequence.stopping:
                    break
                if not run.done:
                    self._perform(run, position, len(own), (unfinished or {}).get(run.number))
        stopped = self._sequence.stopping
        ended = self._record.round if stopped else replace(self._record.round, ended=iso(now()))
        remembered = () if stopped else tuple(self._remember(ended))
        self._write(replace(ended, exit=int(round_exit(ended)), remembered=remembered))
        return self._record.round

    def _perform(self, run: RoundRun, position: int, of: int, run_dir: Path | None) -> None:
        if reason := self._reason_to_leave_out(run):
            self._leave_out(run, reason)
            return
        choices = self._record.round.choices
        for remaining in range(choices.retries, -1, -1):
            began = iso(now())
            result = self._sequence.run(self._planned[run.number], position, of, run_dir)
            if result is None:
                return
            run = replace(run, left_out="", attempts=(*run.attempts, attempt_of(result, began)))
            self._keep(run)
            self._each(result)
            if not result.error or not remaining or self._sequence.stopping:
                return
            run_dir = None
            self._emit(note_event(f"{run.test}: it is performed again, since something broke ({remaining} left)"))

    def _leave_out(self, run: RoundRun, reason: str) -> None:
        """Record why a run is not performed; a harness that cannot be trusted is named once, for all that it costs."""
        if not any(other.left_out == reason for other in self._record.round.own):
            self._emit(note_event(reason if untrusted(self._record.round) else f"{run.test} is left out: {reason}"))
        self._keep(replace(run, left_out=reason))

    def _reason_to_leave_out(self, run: RoundRun) -> str:
        """The reason why a run is not performed; empty: it is."""
        round, test = self._record.round, self._record.round.test(run.test)
        if test.is_control:
            return ""
        if not round.choices.go_on and (sentence := untrusted(round)):
            return sentence
        if round.choices.hours is None:
            return ""
        left_s = round.choices.hours * HOUR_S - round.spent_s
        if run.expected_s <= left_s:
            return ""
        left = f"{in_words(max(left_s, 0.0))} of the round's {round.choices.hours:g} h are left"
        return f"it takes about {in_words(run.expected_s)}, and {left}"

    def _keep(self, run: RoundRun) -> None:
        self._write(self._record.round.with_run(run))

    def _write(self, changed: Round) -> None:
        """Record what was performed. Where that cannot be written the round goes on: each run's directory has its verdict."""
        try:
            self._record.change(changed)
            write_documents(self._record)
        except UnwritableFile as error:
            self._emit(note_event(f"the round is not recorded: {error}"))
