"""The rounds of several shards as one: one `junit.xml`, one `summary.md`, one exit code.

Shards are performed by different machines, or one after another. They belong together when they were begun from the same campaign
with the same seed. What a shard that is missing, or that ended early, should have performed was not tested, and the merged round
says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from fencepost.harness.api import CampaignError
from fencepost.harness.api.words import enumeration, plural
from fencepost.harness.rounds.documents import write_documents
from fencepost.harness.rounds.folders import MERGED, RECORD, RoundRecord, is_plain_name, iso, now, read_round, relative, start_of
from fencepost.harness.rounds.outcome import round_exit
from fencepost.harness.rounds.record import Attempt, Round, RoundRun, RoundTest
from fencepost.harness.runs import store

DEEPEST = 6  # folders of a path in which rounds are looked for
MOST_FOLDERS = 100_000
LONGEST = timedelta(hours=24)  # between the starts of parts of a round


@dataclass(frozen=True)
class ShardRound:
    """The round of a shard, and its folder. named: the command line names this very folder."""

    directory: Path
    round: Round
    named: bool = False

    @property
    def name(self) -> str:
        return f"shard {self.round.shard} of {self.round.shards}"


def merge_rounds(root: Path, paths: Sequence[Path]) -> RoundRecord:
    """The rounds below some paths as one (`merged`), written to the results `root` with its documents."""
    record = merged(root, paths)
    record.make()
    record.change(record.round)
    write_documents(record)
    return record


def merged(root: Path, paths: Sequence[Path]) -> RoundRecord:
    """The rounds below some paths as one, which is to be written to the results `root`.

    paths: folders of rounds, results folders, or folders into which such were copied. Of several rounds of a shard below a path
    the latest counts, unless it began a day before the others. Raises CampaignError: there is none, two rounds of a shard, or
    rounds that do not belong together.
    """
    shards, notes = _shards(_of_a_day([shard for path in paths for shard in _latest(path)]))
    _demand_same(shards)
    first = max((shard.round for shard in shards), key=lambda round: round.round)  # `latest` is the merged one
    folder = store.campaign_folder(root, first.campaign)
    runs = [run for shard in shards for run in _runs_of(shard, folder)]
    there = {shard.round.shard for shard in shards}
    lost = sorted({run.shard for run in first.runs if run.shard not in (0, *there)})
    runs += [replace(run, attempts=(), left_out=_missing(run.shard, first)) for run in first.runs if run.shard in lost]
    notes += [_missing(shard, first) for shard in lost]
    versions = sorted({shard.round.fencepost for shard in shards})
    notes += [f"the shards were performed by different versions of fencepost: {', '.join(versions)}"] if len(versions) > 1 else []
    round = replace(
        first,
        shard=0,
        tests=(*(test for shard in shards for test in _controls(shard)), *(test for test in first.tests if not test.is_control)),
        runs=tuple(sorted(runs, key=lambda run: (run.number, run.shard))),
        notes=tuple(dict.fromkeys([*notes, *(note for shard in shards for note in shard.round.notes)])),
        remembered=tuple(dict.fromkeys(note for shard in shards for note in shard.round.remembered)),
        cut_off=tuple(name for shard in shards for name in shard.round.cut_off),
        sittings=tuple(sorted(time for shard in shards for time in shard.round.sittings)),
        ended=iso(now()),
    )
    return RoundRecord(folder, f"{first.round}{MERGED}", replace(round, exit=int(round_exit(round))))


def _missing(shard: int, round: Round) -> str:
    return f"shard {shard} of {round.shards} is missing"


def _latest(path: Path) -> list[ShardRound]:
    """The latest round of each shard below a path. Raises CampaignError: there is none, or one cannot be read."""
    latest: dict[tuple[str, int, int], ShardRound] = {}
    for directory in _rounds_below(path):
        shard = ShardRound(directory, read_round(directory), named=directory == path)
        if not shard.round.shard:  # a merged one
            continue
        key = (shard.round.campaign, shard.round.shard, shard.round.shards)
        if key not in latest or latest[key].round.round < shard.round.round:
            latest[key] = shard
    if not latest:
        raise CampaignError([f"{path}: there is no round of a campaign ({RECORD})"])
    return list(latest.values())


def _of_a_day(shards: Sequence[ShardRound]) -> list[ShardRound]:
    """The shards without those that began long before the latest, as that of an earlier night does where tonight's is missing.

    A round that the command line names counts whenever it began.
    """
    times = [time for shard in shards if (time := start_of(shard.round.round))]
    oldest = max(times) - LONGEST if times else None
    return [shard for shard in shards if shard.named or not oldest or (start_of(shard.round.round) or oldest) >= oldest]


def _rounds_below(path: Path) -> Iterator[Path]:
    """The folders of rounds at a path, or below it: links are not followed, and the files of runs not looked at."""
    for number, (folder, folders, files) in enumerate(os.walk(path)):
        if RECORD in files:
            yield Path(folder)
        deep = len(Path(folder).relative_to(path).parts) >= DEEPEST
        if RECORD in files or "plan.json" in files or deep or number > MOST_FOLDERS:
            folders.clear()
        folders.sort()


def _shards(given: Sequence[ShardRound]) -> tuple[list[ShardRound], list[str]]:
    """Each shard once, and a sentence for each that was given twice. Raises CampaignError for two rounds of a shard."""
    shards: dict[tuple[str, int], ShardRound] = {}
    notes, mistakes = [], []
    for shard in given:
        key = (shard.round.campaign, shard.round.shard)
        other = shards.setdefault(key, shard)
        if other is shard:
            continue
        if other.round == shard.round:
            notes.append(f"{shard.directory}: is the same round of {shard.name} as {other.directory}, and counts once")
        else:
            mistakes.append(f"{shard.directory}: is another round of {shard.name} than {other.directory}; name one of them")
    if mistakes:
        raise CampaignError(mistakes)
    return sorted(shards.values(), key=lambda shard: shard.round.shard), notes


def _demand_same(shards: Sequence[ShardRound]) -> None:
    """Raises CampaignError with every difference that shows that rounds do not belong together."""
    first, mistakes = shards[0], []
    for shard in shards[1:]:
        if differences := _differences(first.round, shard.round):
            mistakes.append(f"{shard.directory}: does not belong to {first.directory}: {enumeration(differences)}")
    if mistakes:
        raise CampaignError(mistakes)


def _differences(first: Round, other: Round) -> list[str]:
    if first.campaign != other.campaign:
        return [f'its campaign is "{other.campaign}", not "{first.campaign}"']
    if first.shards != other.shards:
        return [f"it is one of {plural(other.shards, 'shard')}, not of {first.shards}"]
    sentences = [f"its seed is {other.seed}, not {first.seed}"] if first.seed != other.seed else []
    tests = [{test.name: test.content for test in round.tests if not test.is_control} for round in (first, other)]
    changed = [name for name in {**tests[0], **tests[1]} if tests[0].get(name) != tests[1].get(name)]
    sentences += [f'the test "{name}" is another' for name in changed[:5]]
    planned = [sorted((run.number, run.test, run.seed, run.shard) for run in round.runs if run.shard) for round in (first, other)]
    return sentences or ([] if planned[0] == planned[1] else ["its runs are others"])


def _controls(shard: ShardRound) -> list[RoundTest]:
    """The canary and the baseline of a shard, as tests of their own: each machine's harness is to be trusted or not."""
    return [replace(test, name=_of_shard(test.name, shard)) for test in shard.round.tests if test.is_control]


def _of_shard(control: str, shard: ShardRound) -> str:
    return f"{control}, {shard.name}"


def _runs_of(shard: ShardRound, folder: Path) -> list[RoundRun]:
    """The runs that a shard performed or was to perform, with their directories as seen from a campaign's folder."""
    own = shard.directory.parent.parent

    def placed(attempt: Attempt) -> Attempt:
        if not is_plain_name(attempt.directory):
            return replace(attempt, directory="")
        there = (own / attempt.directory).is_dir()
        return replace(attempt, directory=relative(own / attempt.directory, folder)) if there else attempt

    return [
        replace(
            run,
            test=_of_shard(run.test, shard) if shard.round.test(run.test).is_control else run.test,
            shard=shard.round.shard,
            attempts=tuple(placed(attempt) for attempt in run.attempts),
            left_out=run.left_out or ("" if run.attempts else f"{shard.name} ended before"),
        )
        for run in shard.round.own
    ]
