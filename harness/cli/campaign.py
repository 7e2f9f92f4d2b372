"""`fencepost campaign`: every test of a campaign file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.harness.api.bounds import MOST_EXACT
from fencepost.harness.api.plans import MOST_REPEATS
from fencepost.harness.api.words import plural
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

EXAMPLES = """\b
Examples:
  fencepost campaign smoke
  fencepost campaign nightly --dry-run
  fencepost campaign my_nightly.toml --only steady --seed 7
  fencepost campaign first --cluster docker
  fencepost campaign external --show > external.toml"""


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
    results: Results = None,
    json_: Json = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the runs that would be performed.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Only print the file, as a beginning of your own.")] = False,
    master: Master = "local[*]",
    spark_conf: Conf = None,
    known: KnownFile = None,
) -> None:
    from fencepost.harness.campaign.bundled import campaign_file
    from fencepost.harness.campaign.campaign import planned, read
    from fencepost.harness.campaign.toml import read_toml
    from fencepost.harness.cli.arguments import cluster_of
    from fencepost.harness.cli.planned_runs import perform, print_outcome, summary
    from fencepost.harness.memory.known import known_of
    from fencepost.harness.planning.plan import unjudged_settings

    if show:
        print_text(read_toml(campaign_file(file))[1])
        return
    loaded = read(file, seed, cluster_of(cluster, cluster_set or ()))
    given = given_options(context, leave_out=("only", "seed", "repeat", "cluster", "cluster_set", "dry_run", "show"))
    plan = planned(loaded, only or (), repeat, given)
    if dry_run:
        _list_plan(plan, json_)
        for text in unjudged_settings(loaded.tests):
            err().print(f"note: {text}", soft_wrap=True)
        return
    (err() if json_ else out()).print(f"{loaded.name}: {plural(len(plan), 'run')}  seed {loaded.seed}", soft_wrap=True)
    acknowledged = known_of(known, campaign_file(file))
    performed = perform(plan, results, master, spark_conf, to_stderr=json_, known=acknowledged)
    if json_:
        print_json({"campaign": loaded.name, "seed": loaded.seed, **summary(performed, plan)})
    raise typer.Exit(print_outcome(performed, plan, seed=loaded.seed, quiet=json_))


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
