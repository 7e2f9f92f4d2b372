"""A round on the screen: performed, with its last lines; and its results for machines."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from fencepost.harness.api import CampaignError
from fencepost.harness.api.errors import UnwritableFile
from fencepost.harness.api.words import plural
from fencepost.harness.cli.console import Texts, demand_no_folder, err, out, print_json, print_line
from fencepost.harness.secrets import mask

if TYPE_CHECKING:
    from fencepost.harness.memory.known import Known
    from fencepost.harness.rounds.beginning import BegunRound
    from fencepost.harness.rounds.folders import RoundRecord
    from fencepost.harness.rounds.record import Round


def _in_a_folder(file: Path | None) -> Path | None:
    """A file as it was given. Raises CampaignError when its folder is not there, before anything is performed for it."""
    if file is not None and not file.parent.is_dir():
        raise CampaignError([f"--junit {file}: there is no folder {file.parent}"])
    demand_no_folder("--junit", file)
    return file


ON_RED = "A command for the shell, run when the exit code is not 0, with the summary on standard input."
OnRed = Annotated[str | None, typer.Option("--on-red", metavar="COMMAND", help=ON_RED, show_default=False)]
Junit = Annotated[
    Path | None,
    typer.Option(
        "--junit",
        metavar="FILE",
        help="Write the round's junit.xml there too, where a CI system looks for it.",
        callback=_in_a_folder,
        show_default=False,
    ),
]
MOST_REASONS = 5  # why runs were left out, that are named
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"  # the file of a step of GitHub Actions


def perform_round(
    begun: BegunRound,
    results: Path | None,
    master: str,
    spark_conf: Texts,
    as_json: bool,
    on_red: str,
    junit: Path | None,
    known: Known,
) -> None:
    """Perform what is left of a round, print its outcome, and leave with its exit code. known: findings that are acknowledged."""
    from fencepost.harness.cli.planned_runs import performing
    from fencepost.harness.rounds.performance import RoundPerformance

    record = begun.record
    (err() if as_json else out()).print(f"{estimate_of(begun)}  seed {record.round.seed}", soft_wrap=True)
    if warning := over_budget(record.round, sum(run.expected_s for run in begun.left)):
        err().print(warning, soft_wrap=True)
    for directory in record.round.cut_off:
        err().print(f"cut off, and performed again: {record.folder / directory}", soft_wrap=True)
    plan = [begun.planned[run.number] for run in begun.left]
    with (
        performing(plan, results, master, spark_conf, to_stderr=as_json, known=known) as made,
        begun.reserved() as reserved,
        reserved.record.alone(),
    ):
        record, remember = reserved.record, partial(_remembered, made.root, known)
        performance = RoundPerformance(record, made.sequence, reserved.planned, made.show, made.show_result, remember=remember)
        performance.perform(begun.unfinished)
    leave(record, as_json, on_red, junit)


def _remembered(results: Path, known: Known, round: Round) -> list[str]:
    """What is new, gone or changed since other rounds of the campaign."""
    from fencepost.harness.memory.round_notes import round_notes

    try:
        return round_notes(results, round.campaign, round.round, known)
    except CampaignError as error:
        return [str(error)]


def estimate_of(begun: BegunRound) -> str:
    """`night: 23 runs, about 41 min (from 3 earlier rounds)`; of one that goes on: `night: 2 of 23 runs are left, ...`."""
    from fencepost.harness.rounds.estimates import estimate

    round = begun.record.round
    return f"{round.campaign}: {estimate(begun.left, len(round.own), round.earlier)}"


def over_budget(round: Round, expected_s: float) -> str:
    """A sentence on a round that will not fit into its budget; empty when it does."""
    from fencepost.harness.rounds.estimates import in_words

    hours = round.choices.hours
    left_s = (hours or 0.0) * 3600.0 - round.spent_s
    if hours is None or expected_s <= left_s:
        return ""
    return f"note: {in_words(max(left_s, 0.0))} of the round's {hours:g} h are left, so that tests will be left out"


def leave(record: RoundRecord, as_json: bool, on_red: str, junit: Path | None) -> NoReturn:
    """Print the outcome of a round, tell CI and the user's command of it, and leave with its exit code."""
    from fencepost.harness.rounds.on_red import run_on_red
    from fencepost.harness.rounds.outcome import round_exit

    for note in record.round.notes:
        err().print(note, soft_wrap=True)
    print_missing(record.round)
    if as_json:
        print_json(round_document(record))
    else:
        print_round(record)
    if junit is not None:
        _write_junit(record, junit)
    _notify_github(record)
    code = int(round_exit(record.round))
    if code and on_red and record.round.ended and (failure := run_on_red(on_red, record)):
        err().print(failure, soft_wrap=True)
    raise typer.Exit(code)


def _write_junit(record: RoundRecord, file: Path) -> None:
    """Write the round's `junit.xml` to a file as well."""
    from fencepost.harness.api.beneath import write_text
    from fencepost.harness.rounds.junit import junit

    try:
        write_text(file.parent, file.name, mask(junit(record.round, record.folder)))
    except UnwritableFile as error:
        err().print(f"--junit: {error}", soft_wrap=True)


def _notify_github(record: RoundRecord) -> None:
    """In a job of GitHub Actions: annotations, and the summary on the page of the job."""
    from fencepost.harness.rounds.annotations import round_annotations
    from fencepost.harness.rounds.summary import summary

    if os.environ.get("GITHUB_ACTIONS") == "true":
        workspace = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
        for line in round_annotations(record.round, record.folder, workspace):
            err().print(line, soft_wrap=True)
    if file := os.environ.get(STEP_SUMMARY):
        try:
            with open(file, "a", encoding="utf-8", errors="backslashreplace") as page:
                page.write(mask(summary(record.round, record.folder)) + "\n")
        except OSError as error:
            err().print(f"{STEP_SUMMARY}: {file} cannot be written: {error.strerror}", soft_wrap=True)


def print_round(record: RoundRecord) -> None:
    """Whether the harness can be trusted, what was not performed, the table, the reports, the round's documents, the seed."""
    from fencepost.harness.cli import results_table
    from fencepost.harness.rounds.folders import JUNIT, SUMMARY
    from fencepost.harness.rounds.outcome import outcomes, untrusted
    from fencepost.harness.rounds.record import results_of

    round = record.round
    results = results_of(round, record.folder)
    print_line()
    if broken := untrusted(round):
        print_line(broken)
        print_line()
    out().print(results_table.results_table(results, {run.test for run in round.missing}))
    for line in results_table.report_lines(results):
        print_line(line)
    for sentence in round.remembered:
        print_line(sentence)
    for sentence in dict.fromkeys(text for test in outcomes(round, record.folder) for text in test.acknowledged):
        print_line(f"known findings: {sentence}")
    if len(round.own) == 1:
        print_line(f"repeat: {round.own[0].command}")
    print_line(f"round {round.round}: {record.directory / SUMMARY}, {record.directory / JUNIT}")
    print_line(f"seed {round.seed}")


def print_missing(round: Round) -> None:
    """A line for each reason why runs were not performed, on standard error, that of most runs first."""
    from collections import Counter

    of = plural(len(round.own), "run")
    reasons = Counter(run.left_out for run in round.missing).most_common()
    for reason, count in reasons[:MOST_REASONS]:
        text = f"left out: {count} of {of}: {reason}" if reason else f"stopped: {count} of {of} not performed"
        err().print(text, soft_wrap=True)
    if rest := sum(count for _, count in reasons[MOST_REASONS:]):
        err().print(f"left out: {rest} more of {of}, each for a reason of its own", soft_wrap=True)


def round_document(record: RoundRecord) -> dict[str, Any]:
    """The results of a round for machines. left_out: how many planned runs were not performed."""
    from fencepost.harness.cli.results_table import as_json
    from fencepost.harness.rounds.outcome import round_exit, untrusted
    from fencepost.harness.rounds.record import results_of

    round = record.round
    return {
        "campaign": round.campaign,
        "seed": round.seed,
        "round": round.round,
        "directory": str(record.directory),
        "exit": int(round_exit(round)),
        "untrusted": untrusted(round),
        "left_out": len(round.missing),
        "runs": [as_json(result) for result in results_of(round, record.folder)],
    }
