"""`fencepost campaign`: every test of a campaign file."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

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
    pairs,
    print_json,
    print_line,
    print_text,
)
from fencepost.harness.cli.round_output import ON_RED, Junit, estimate_of, perform_round
from fencepost.harness.system.package_files import campaigns

if TYPE_CHECKING:
    from fencepost.harness.rounds.beginning import BegunRound

ORDERS = ("auto", "file")
EXAMPLES = """\b
Examples:
  fencepost campaign smoke
  fencepost campaign nightly --dry-run
  fencepost campaign my_nightly.toml --only steady --seed 7
  fencepost campaign my_nightly.toml --resume
  fencepost campaign my_nightly.toml --shard 2/5 --seed 20261125
  fencepost campaign first --cluster docker
  fencepost campaign external --show > external.toml"""


OF_ROUNDS = (  # parameters that the command which repeats a single run does not have
    "only", "seed", "repeat", "cluster", "cluster_set", "dry_run", "show", "order", "hours", "canary", "go_on", "retries",
    "resume", "only_red", "round_", "shard", "on_red", "junit", "jobs",
)  # fmt: skip
OF_JOBS = (  # that a part of a round gets in another form, or not
    "only", "seed", "repeat", "dry_run", "show", "canary", "only_red", "round_", "shard", "on_red", "junit", "jobs", "json_",
    "spark_conf",
)  # fmt: skip
REPLACED = ("dry_run", "show", "hours", "go_on", "retries", "resume", "round_", "on_red", "junit")  # that go with --resume
MOST_SHARDS = 1_000


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
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with the latest round (or --round) after a stop or a crash: what is done is not done again.",
        ),
    ] = False,
    only_red: Annotated[
        bool,
        typer.Option(
            "--only-red",
            help="Only the tests that were not as expected in the latest round (or --round), with its seed.",
        ),
    ] = False,
    round_: Annotated[
        str | None,
        typer.Option(
            "--round",
            metavar="ROUND",
            help="The round of --resume or --only-red: its time of start, or the beginning of it. Default: the latest."
            " With --shard: the time of start (20261125T190000Z) that all parts have in common. Default: now.",
            show_default=False,
            autocompletion=completions.rounds_of_campaign,
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            "--shard",
            metavar="K/N",
            help="Only the K-th of N parts of the runs, so that N machines share them; `fencepost merge` brings them together.",
            show_default=False,
        ),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            min=1,
            max=16,
            help="So many tests at once, where cores and memory allow it: each part of the runs in a process of its own.",
        ),
    ] = 1,
    on_red: Annotated[
        str | None,
        typer.Option("--on-red", metavar="COMMAND", help=f"{ON_RED} Default: the file's.", show_default=False),
    ] = None,
    junit: Junit = None,
    results: Results = None,
    json_: Json = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the runs that would be performed.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Only print the file, as a beginning of your own.")] = False,
    master: Master = "local[*]",
    spark_conf: Conf = None,
    known: KnownFile = None,
) -> None:
    from fencepost.harness.campaign.bundled import campaign_file
    from fencepost.harness.campaign.toml import read_toml
    from fencepost.harness.memory.known import known_of

    if show:
        print_text(read_toml(campaign_file(file))[1])
        return
    begun = _resumed(context, file) if resume else _new(context, file)
    if begun is None:
        text = "nothing was red: nothing is left to be performed"
        print_json({"exit": 0, "left_out": 0, "runs": [], "note": text}) if json_ else print_line(text)
        return
    if dry_run:
        from fencepost.harness.cli.planned_runs import print_plan

        print_plan([begun.planned[run.number] for run in begun.left], json_, estimate_of(begun))
        return
    acknowledged = known_of(known, campaign_file(file))
    if jobs > 1:
        _perform_jobs(context, file, begun)
    perform_round(begun, results, master, spark_conf, json_, *_after(context, begun), acknowledged)


def _new(context: typer.Context, file: Path) -> BegunRound | None:
    """A new round by the options of the command line; None: of what was red, and nothing was."""
    from fencepost.harness.campaign.campaign import read
    from fencepost.harness.cli.option_texts import cluster_of
    from fencepost.harness.rounds.beginning import begin, red_of
    from fencepost.harness.rounds.record import Choices
    from fencepost.harness.runs.store import results_root

    given = context.params
    if given["round_"] and not given["only_red"] and not given["shard"]:
        raise CampaignError(["--round: names the round of --resume, --only-red or --shard; give one of them"])
    seed, only, root = given["seed"], given["only"] or (), results_root(given["results"])
    cluster = cluster_of(given["cluster"], given["cluster_set"] or ())
    loaded = read(file, seed, cluster)
    choices = Choices(
        only=tuple(only),
        repeat=given["repeat"],
        cluster=cluster,
        seed_given=seed is not None,
        canary=loaded.file.canary and not only if given["canary"] is None else given["canary"],
        order=given["order"],
        hours=loaded.file.hours if given["hours"] is None else given["hours"],
        go_on=given["go_on"],
        retries=loaded.file.retries if given["retries"] is None else given["retries"],
    )
    options = given_options(context, leave_out=OF_ROUNDS)
    if not given["only_red"]:
        return begin(root, loaded, choices, options, _shard_of(given["shard"]), given["round_"] or "")
    if only:
        raise CampaignError(["--only-red: names tests by itself; leave --only out"])
    name, red, before = red_of(root, loaded, given["round_"] or "latest")
    if not red:
        return None
    if seed is None:
        loaded = replace(read(file, before.seed if before.choices.seed_given else None, cluster), seed=before.seed)
        choices = replace(choices, seed_given=before.choices.seed_given)
    choices = replace(choices, only=tuple(red), repeat=given["repeat"] or before.choices.repeat)
    err().print(f"what was red in round {name}: {', '.join(red)}", soft_wrap=True)
    return begin(root, loaded, choices, options, _shard_of(given["shard"]))


def _resumed(context: typer.Context, file: Path) -> BegunRound:
    """A round that goes on: with its own choices, but for those that the command line may replace."""
    from fencepost.harness.rounds.beginning import resume
    from fencepost.harness.runs.store import results_root

    given = context.params
    if own := [name for name in OF_ROUNDS if name not in REPLACED and _was_given(context, name)]:
        names = ", ".join(f"--{name.rstrip('_').replace('_', '-')}" for name in own)
        raise CampaignError([f"--resume: a round goes on as it was begun; leave {names} out"])
    changed = {name: given[name] for name in ("hours", "retries", "go_on") if _was_given(context, name)}
    options = given_options(context, leave_out=OF_ROUNDS)
    return resume(results_root(given["results"]), file, given["round_"] or "latest", options, changed)


def _perform_jobs(context: typer.Context, file: Path, begun: BegunRound) -> NoReturn:
    """Perform the runs of a new round in parts at once, and leave."""
    from fencepost.harness.cli.jobs import common_seed, demand_room, perform_jobs
    from fencepost.harness.rounds.folders import MERGED
    from fencepost.harness.runs.store import writable_root

    given, choices = context.params, begun.record.round.choices
    if given["shard"]:
        raise CampaignError(["--jobs: makes shards of its own; leave --shard out"])
    demand_room(given["jobs"])
    words = ["campaign", str(file), *given_options(context, leave_out=OF_JOBS), *common_seed(begun.record.round, begun.campaign)]
    words += [word for name in choices.only for word in ("--only", name)]
    words += [word for text in given["spark_conf"] or () for word in ("--spark-conf", text)]
    words += ["--repeat", str(choices.repeat)] if choices.repeat else []
    words += ["--canary" if choices.canary else "--no-canary"]
    root = writable_root(given["results"])
    with begun.reserved(MERGED) as reserved:
        words += ["--round", reserved.record.round.round]
        perform_jobs(words, given["jobs"], root, given["json_"], *_after(context, begun))


def _after(context: typer.Context, begun: BegunRound) -> tuple[str, Path | None]:
    """What is done when a round has ended: the command for a red one, and the place of a `junit.xml`."""
    on_red = context.params["on_red"]
    return begun.on_red if on_red is None else on_red, context.params["junit"]


def _was_given(context: typer.Context, name: str) -> bool:
    """True if the command line has this parameter."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _shard_of(text: str | None) -> tuple[int, int]:
    """`2/5` as a shard and the number of all; the whole where none is given. Raises CampaignError for anything else."""
    parts = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", text or "1/1")
    shard, shards = map(int, parts.groups()) if parts else (0, 0)
    if not 1 <= shard <= shards <= MOST_SHARDS:
        raise CampaignError([f"--shard {text}: must be K/N, the shard and the number of all: 2/5 (at most {MOST_SHARDS})"])
    return shard, shards
