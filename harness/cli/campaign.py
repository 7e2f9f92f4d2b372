"""`fencepost campaign`: every test of a campaign file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.harness.api import CampaignError
from fencepost.harness.api.bounds import MOST_EXACT
from fencepost.harness.api.plans import MOST_REPEATS
from fencepost.harness.cli import completions
from fencepost.harness.cli.console import (
    EXIT_CODES,
    Conf,
    Json,
    KnownFile,
    Master,
    Results,
    Texts,
    err,
    given_options,
    out,
    pairs,
    print_json,
    print_table,
    print_text,
)
from fencepost.harness.system.package_files import campaigns

if TYPE_CHECKING:
    from fencepost.harness.campaign.campaign import PlannedRun

ORDERS = ("auto", "file")
EXAMPLES = """\b
Examples:
  fencepost campaign smoke
  fencepost campaign nightly --dry-run
  fencepost campaign my_nightly.toml --only steady --seed 7
  fencepost campaign first --cluster docker
  fencepost campaign external --show > external.toml"""


OF_ROUNDS = (  # parameters that the command which repeats a single run does not have
    "only", "seed", "repeat", "cluster", "cluster_set", "dry_run", "show", "order", "hours", "canary", "go_on", "retries",
)  # fmt: skip


def _order(text: str) -> str:
    """An order as it was given. Raises CampaignError for any other word."""
    from fencepost.harness.plugins.registry import unknown

    if text not in ORDERS:
        raise CampaignError([f"--order: {unknown('order', text, ORDERS)}"])
    return text


def _completed(incomplete: str) -> list[str]:
    from fencepost.harness.campaign.bundled import completed

    return completed(incomplete)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(
        help="Perform every test of a campaign, one after another. A test that is repeated and expects an anomaly must find"
        " it at least once.\n\nThe campaign is a TOML file, or one that comes with fencepost, by its name:"
        f" {', '.join(campaigns())}. A file in the working directory comes first.\n\n{EXIT_CODES}",
        epilog=EXAMPLES,
    )(campaign)


def campaign(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="CAMPAIGN",
            help="A TOML file, or the name of a campaign that comes with fencepost.",
            autocompletion=_completed,
        ),
    ],
    only: Annotated[
        Texts,
        typer.Option(
            "--only",
            metavar="NAME",
            help="Only this test, or all tests of this matrix.",
            autocompletion=completions.tests_of_campaign,
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, max=MOST_EXACT, help="Comes before every seed in the file.")
    ] = None,
    repeat: Annotated[int | None, typer.Option("--repeat", min=1, max=MOST_REPEATS, help="How often each test is run.")] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", help="Where brokers live, whatever the file says.")] = None,
    cluster_set: Annotated[Texts, pairs("--cluster-set", "An option of the cluster, laid over the file's.")] = None,
    order: Annotated[
        str,
        typer.Option(
            "--order",
            help="Of the tests: `auto` (those that were red in the last round, then the shortest) or `file`.",
            callback=_order,
            autocompletion=completions.words(*ORDERS),
        ),
    ] = "auto",
    hours: Annotated[
        float | None,
        typer.Option(
            "--hours",
            metavar="HOURS",
            min=0,
            help="What no longer fits into this time is left out. Default: the file's.",
            show_default=False,
        ),
    ] = None,
    canary: Annotated[
        bool | None,
        typer.Option(
            "--canary/--no-canary",
            help="Begin with a control that must be caught, and a baseline that must be valid. Default: as the file says, but not"
            " with --only.",
            show_default=False,
        ),
    ] = None,
    go_on: Annotated[
        bool, typer.Option("--go-on", help="Perform the tests although the canary or the baseline has failed.")
    ] = False,
    retries: Annotated[
        int | None,
        typer.Option(
            "--retries",
            min=0,
            max=10,
            help="How often a run is performed again when something broke. Default: the file's.",
            show_default=False,
        ),
    ] = None,
    results: Results = None,
    json_: Json = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the runs that would be performed.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Only print the file, as a beginning of your own.")] = False,
    master: Master = "local[*]",
    spark_conf: Conf = None,
    known: KnownFile = None,
) -> None:
    from fencepost.harness.campaign.bundled import campaign_file
    from fencepost.harness.campaign.campaign import read
    from fencepost.harness.campaign.toml import read_toml
    from fencepost.harness.cli.arguments import cluster_of
    from fencepost.harness.cli.planned_runs import performing
    from fencepost.harness.cli.round_output import print_missing, print_round, round_document
    from fencepost.harness.memory.known import known_of
    from fencepost.harness.planning.plan import unjudged_settings
    from fencepost.harness.rounds.estimates import MOST_ROUNDS, estimate, experience
    from fencepost.harness.rounds.outcome import round_exit
    from fencepost.harness.rounds.performance import RoundPerformance
    from fencepost.harness.rounds.planning import plan_round
    from fencepost.harness.rounds.record import Choices, earlier_rounds, new_round
    from fencepost.harness.runs.store import campaign_folder, results_root

    if show:
        print_text(read_toml(campaign_file(file))[1])
        return
    loaded = read(file, seed, cluster_of(cluster, cluster_set or ()))
    given = given_options(context, leave_out=OF_ROUNDS)
    choices = Choices(
        only=tuple(only or ()),
        repeat=repeat,
        cluster=cluster_of(cluster, cluster_set or ()),
        seed_given=seed is not None,
        canary=loaded.file.canary and not only if canary is None else canary,
        order=order,
        hours=loaded.file.hours if hours is None else hours,
        go_on=go_on,
        retries=loaded.file.retries if retries is None else retries,
    )
    earlier = experience(earlier_rounds(campaign_folder(results_root(results), loaded.name), MOST_ROUNDS))
    plan = plan_round(loaded, choices, given, earlier)
    if dry_run:
        _list_plan([plan.planned[run.number] for run in plan.runs], json_)
        for text in unjudged_settings(loaded.tests):
            err().print(f"note: {text}", soft_wrap=True)
        return
    head = f"{loaded.name}: {estimate(plan.runs, earlier.rounds)}  seed {loaded.seed}"
    (err() if json_ else out()).print(head, soft_wrap=True)
    acknowledged = known_of(known, campaign_file(file))
    with performing(list(plan.planned.values()), results, master, spark_conf, to_stderr=json_, known=acknowledged) as made:
        record = new_round(made.root, loaded, choices=choices, tests=plan.tests, runs=plan.runs)
        record.make()
        runs = {number: replace(run, round=record.round.round) for number, run in plan.planned.items()}
        RoundPerformance(record, made.sequence, runs, made.show, made.show_result).perform()
    print_missing(record.round)
    if json_:
        print_json(round_document(record))
    else:
        print_round(record)
    raise typer.Exit(int(round_exit(record.round)))


def _list_plan(plan: Sequence[PlannedRun], as_json: bool) -> None:
    if as_json:
        tests = [(run.test.name, run.seed, list(run.test.expect), run.command) for run in plan]
        print_json([dict(zip(("test", "seed", "expect", "command"), test, strict=True)) for test in tests])
        return
    rows = []
    for run in plan:
        faults = ", ".join(fault.kind for fault in run.test.nemesis) or "none"
        rows.append((run.test.name, f"{run.test.time_s:g} s", faults, ", ".join(run.test.expect), str(run.seed)))
    print_table(("test", "time", "nemesis", "expect", "seed"), rows)
