"""The beginning of a round: a new one, or one that ended early and goes on. Nothing is written, and nothing is performed.

A round goes on with the file, the tests and the seeds that it began with; a campaign file that says something else by now is
refused. What is done is not done again. Of a run that a crash cut off its directory tells how far it came: with a verdict it is
done; with a history that is concluded it is only judged; else its test is performed again, and the directory stays as it is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fencepost.harness.api import CampaignError
from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.api.words import enumeration
from fencepost.harness.campaign.campaign import Campaign, PlannedRun, name_of, read
from fencepost.harness.history import results_folder
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.rounds.estimates import MOST_ROUNDS, experience
from fencepost.harness.rounds.folders import ROUNDS, RoundRecord, earlier_rounds, find_round, iso, new_round, now, read_round
from fencepost.harness.rounds.outcome import red_tests, untrusted
from fencepost.harness.rounds.planning import RoundPlan, plan_round
from fencepost.harness.rounds.record import Attempt, Choices, Round, RoundRun, RoundTest, excerpt
from fencepost.harness.runs import store
from fencepost.harness.system import liveness

ENDING_S = 40.0  # for the sandbox of a harness that was killed


@dataclass(frozen=True)
class BegunRound:
    """A round that is to be performed.

    campaign: the campaign.
    record: the round; nothing of it is written yet.
    planned: its runs by their numbers.
    unfinished: directories of runs that only have to be judged, by number.
    on_red: the campaign file's command for a round that is not as expected; empty: there is none, or single tests were chosen.
    """

    campaign: Campaign
    record: RoundRecord
    planned: Mapping[int, PlannedRun]
    unfinished: Mapping[int, Path] = field(default_factory=dict)
    on_red: str = ""

    @property
    def left(self) -> list[RoundRun]:
        """The runs that are left to be performed or judged."""
        return [run for run in self.record.round.own if not run.done]

    @contextmanager
    def reserved(self, suffix: str = "") -> Iterator[BegunRound]:
        """The round with its folder: a new one that is no part of another has a time of start that no other process takes.

        suffix: as for `RoundRecord.reserved`. Raises UnwritableFile.
        """
        if self.record.round.shards > 1 or len(self.record.round.sittings) > 1:
            self.record.make()
            yield self
            return
        with self.record.reserved(suffix) as record:
            planned = {number: replace(run, round=record.round.round) for number, run in self.planned.items()}
            yield replace(self, record=record, planned=planned)


def begin(
    root: Path, campaign: Campaign, choices: Choices, options: Sequence[str], shard: tuple[int, int] = (1, 1), stamp: str = ""
) -> BegunRound:
    """A new round of a campaign. stamp: the time of start that its parts have in common; empty: now.

    Raises CampaignError: a test that is not there, or parts that would draw different seeds.
    """
    if (
        shard[1] > 1
        and campaign.file.seed is None
        and not choices.seed_given
        and any(test.seed is None for test in campaign.tests)
    ):
        raise CampaignError(
            ["--shard: every machine would draw another seed; give all the same one (--seed, or seed in the file)"]
        )
    known = experience(earlier_rounds(store.campaign_folder(root, campaign.name), MOST_ROUNDS))
    plan = plan_round(campaign, choices, options, known, shard[1])
    record = new_round(
        root,
        campaign,
        stamp,
        choices=choices,
        tests=plan.tests,
        runs=plan.runs,
        shard=shard[0],
        shards=shard[1],
        earlier=known.rounds,
    )
    return BegunRound(campaign, record, _of_round(plan, record.round), on_red=_on_red(campaign, choices))


def _of_round(plan: RoundPlan, round: Round) -> dict[int, PlannedRun]:
    return {number: replace(run, round=round.round) for number, run in plan.planned.items()}


# --------------------------------------------------------------------------------------------------
# Only what was red
# --------------------------------------------------------------------------------------------------
def red_of(root: Path, campaign: Campaign, text: str) -> tuple[str, list[str], Round]:
    """The name of a round, its red tests, and the round. Raises CampaignError: no such round, or tests that are there no more."""
    folder = store.campaign_folder(root, campaign.name)
    name = find_round(folder, text)
    round = read_round(folder / ROUNDS / name)
    red = red_tests(round)
    there = {test.name for test in campaign.tests}
    if gone := [
        f'--only-red: "{test}" was red in round {name}, and is not in {campaign.path}' for test in red if test not in there
    ]:
        raise CampaignError(gone)
    return name, red, round


# --------------------------------------------------------------------------------------------------
# A round that goes on
# --------------------------------------------------------------------------------------------------
def resume(root: Path, file: Path, text: str, options: Sequence[str], changed: Mapping[str, Any]) -> BegunRound:
    """A round that goes on. changed: choices that the command line replaces.

    Raises CampaignError: no such round, a campaign that is another by now, a harness that cannot be trusted, or a run that is
    still performed.
    """
    folder = store.campaign_folder(root, name_of(file))
    name = find_round(folder, text)
    round = read_round(folder / ROUNDS / name)
    if not round.shard:
        raise CampaignError([f"round {name}: is merged of others; resume those of its shards"])
    choices = replace(round.choices, **changed)
    if not choices.go_on and (sentence := untrusted(round)):
        raise CampaignError([f"round {name}: {sentence}; begin another one, or go on all the same (--go-on)"])
    campaign = replace(read(file, round.seed if round.choices.seed_given else None, round.choices.cluster), seed=round.seed)
    plan = plan_round(campaign, round.choices, options, experience(()), round.shards)
    if differences := changes(round, plan):
        begun = f"{campaign.path}: is not what round {name} began with, so that it cannot go on"
        raise CampaignError([f"{begun}: {difference}" for difference in differences])
    left = tuple(replace(run, left_out="") for run in round.runs)
    going_on = replace(round, choices=choices, runs=left, sittings=(*round.sittings, iso(now())), ended="", exit=None)
    recovered, unfinished = _recovered(folder, going_on)
    return BegunRound(
        campaign, RoundRecord(folder, name, recovered), _of_round(plan, round), unfinished, _on_red(campaign, choices)
    )


def _on_red(campaign: Campaign, choices: Choices) -> str:
    return "" if choices.only else campaign.file.on_red


def changes(round: Round, plan: RoundPlan) -> list[str]:
    """The differences between what a round began with and a plan of now, a sentence each."""
    before, after = ({test.name: test for test in tests} for tests in (round.tests, plan.tests))
    sentences = [f'the test "{name}" is there no more' for name in before if name not in after]
    sentences += [f'the test "{name}" is new' for name in after if name not in before]
    for name in before.keys() & after.keys():
        if keys := _changed_keys(before[name], after[name]):
            sentences.append(f'of the test "{name}" {enumeration(keys)} changed')
    runs = [sorted((run.number, run.test, run.seed, run.shard) for run in some) for some in (round.runs, plan.runs)]
    if not sentences and runs[0] != runs[1]:
        sentences.append("the seeds of its runs, their number or their order changed")
    return sorted(sentences)


def _changed_keys(before: RoundTest, after: RoundTest) -> list[str]:
    keys = [*before.content, *(key for key in after.content if key not in before.content)]
    return [f"`{key}`" for key in keys if before.content.get(key) != after.content.get(key)]


def _recovered(folder: Path, round: Round) -> tuple[Round, dict[int, Path]]:
    """The round with what runs that it does not record came to, and the directories of runs that only have to be judged."""
    unfinished: dict[int, Path] = {}
    for run in sorted(_unrecorded(folder, round), key=lambda run: run.directory.name):
        planned = next(
            (own for own in round.own if (own.test, own.seed) == (run.test, run.plan.get("seed")) and not own.done), None
        )
        if planned is None:
            continue
        _await_end(run.directory)
        run = open_run(run.directory)
        if run.verdict.get("verdict") and os.path.lexists(run.path(RunFile.REPORT)):
            verdict = {"run": run.id, **excerpt(run.verdict)}
            attempt = Attempt(directory=run.directory.name, began=run.created, verdict=verdict)
            round = round.with_run(replace(planned, attempts=(*planned.attempts, attempt)))
        elif run.manifest and run.manifest.complete:
            unfinished[planned.number] = run.directory
        else:
            round = replace(round, cut_off=(*round.cut_off, run.directory.name))
    return round, unfinished


def _unrecorded(folder: Path, round: Round) -> Iterator[Run]:
    """The runs of a round of which its record says nothing."""
    recorded = {attempt.directory for run in round.runs for attempt in run.attempts} | set(round.cut_off)
    for run in results_folder.runs_in(folder):
        if run.plan.get("round") == round.round and run.directory.name not in recorded:
            yield run


def _await_end(directory: Path) -> None:
    """Wait until nobody uses a run. Raises CampaignError when somebody still does."""
    deadline = time.monotonic() + ENDING_S
    while liveness.lock_reference(directory):
        if time.monotonic() > deadline:
            raise CampaignError([f"{directory}: is still being performed or judged: wait for its end"])
        time.sleep(0.2)
