"""The plan of a round: its runs in the order of performance, each with its number, its shard and its expected time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fencepost.harness.campaign.campaign import Campaign, PlannedRun, controls, planned
from fencepost.harness.rounds.estimates import Experience, ordered, shards_of
from fencepost.harness.rounds.record import Choices, RoundRun, RoundTest, round_test


@dataclass(frozen=True)
class RoundPlan:
    """What a round performs.

    tests, runs: as its record has them.
    planned: the runs of all shards by their numbers, as they are performed.
    """

    tests: tuple[RoundTest, ...]
    runs: tuple[RoundRun, ...]
    planned: Mapping[int, PlannedRun]


def plan_round(campaign: Campaign, choices: Choices, options: Sequence[str], known: Experience, shards: int = 1) -> RoundPlan:
    """The plan of a round of a campaign.

    options: words of the command line that the commands which repeat the runs have too. known: from earlier rounds.
    Raises CampaignError when a test that was chosen is not there.
    """
    own = planned(campaign, choices.only, choices.repeat, options)
    first = controls(campaign, options) if choices.canary else []
    numbers = {id(run): number for number, run in [*enumerate(own), *enumerate(first, start=-len(first))]}
    shares = dict(zip(range(len(own)), shards_of(own, shards), strict=True))
    runs = [
        RoundRun(
            number=numbers[id(run)],
            test=run.test.name,
            seed=run.seed,
            command=run.command,
            shard=shares.get(numbers[id(run)], 0),
            expected_s=known.expected_s(run.test.name, run.test.time_s),
        )
        for run in [*first, *ordered(own, known, choices.order)]
    ]
    tests = {run.test.name: round_test(run.test, campaign.lines.get(run.test.name, 0)) for run in [*first, *own]}
    return RoundPlan(tuple(tests.values()), tuple(runs), {numbers[id(run)]: run for run in [*first, *own]})
