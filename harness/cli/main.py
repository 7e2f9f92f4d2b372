"""`fencepost ...`: the command line, and the only place that prints (`cli_judge.py` has the commands that judge, `cli_tools.py`
the rest).

Heavy libraries are imported inside the commands, so that `--help` comes at once.
"""

from __future__ import annotations

import shlex
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from harness.api import CampaignError, Exit, HarnessError
from harness.cli import check, clean, console
from harness.cli import nemesis as nemesis_commands
from harness.cli.console import Checkers, Conf, Json, Master, Results, Texts, err, out, pairs, say, say_json, table

if TYPE_CHECKING:
    from harness.campaign.campaign import PlannedRun
    from harness.runs.sequence import Event, Result

EXIT_CODES = """Exit codes: 0 everything as expected (a live bug that a test expects and finds counts as such); 1 against
expectation; 2 unknown: nothing could be concluded; 254 bad campaign or option, nothing was started; 255 the harness broke;
130 left by Ctrl-C twice (once: heal, collect, and judge what there is)."""
START = "\b\nStart with:\n  fencepost doctor\n  fencepost run --time 30\n  fencepost campaign campaigns/smoke.toml"
RUN_EXAMPLES = """\b
Examples:
  fencepost run --time 30
  fencepost run -w idempotent -n kill,target=leader -n pause,every_s=[2,4] --time 120
  fencepost run --set writers=12 -n cut-clients --producer socket.timeout.ms=1000 --expect torn-transaction
  fencepost run -n kill -n isolate -n cut-clients,lane=b --lane 'main,order=in turn' --budget nodes=1
  fencepost run -n none --kafka 3.9.1 --topic min.insync.replicas=1 --contract acks=all"""
CAMPAIGN_EXAMPLES = """\b
Examples:
  fencepost campaign campaigns/smoke.toml
  fencepost campaign nightly.toml --dry-run
  fencepost campaign nightly.toml --only steady --seed 7
  fencepost campaign campaigns/first.toml --cluster docker"""
USAGE_ERROR: Any = typer.BadParameter.__bases__[0]  # click's own, or the one inside newer typers

app = typer.Typer(
    name="fencepost",
    help=f"Runs a real Kafka cluster, hurts it, and lets Spark decide whether exactly-once held.\n\n{START}\n\n{EXIT_CODES}",
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def main(args: Sequence[str] | None = None) -> NoReturn:
    """The entry point of `fencepost`: runs a command, and turns what went wrong into words and an exit code."""
    try:
        code = app(args=args, prog_name="fencepost", standalone_mode=False)
    except CampaignError as error:
        _fail(error.mistakes, Exit.BAD_CAMPAIGN)
    except USAGE_ERROR as error:
        getattr(error, "show")()  # noqa: B009 - its type is known only when running
        raise SystemExit(int(Exit.BAD_CAMPAIGN)) from error
    except HarnessError as error:
        _fail([f"{type(error).__name__}: {error}"], Exit.HARNESS_BROKE)
    except (KeyboardInterrupt, typer.Abort):
        raise SystemExit(130) from None
    except Exception:  # noqa: BLE001 - a bug of ours must not look like the verdict `invalid`, whose code is 1
        _fail([traceback.format_exc()], Exit.HARNESS_BROKE)
    raise SystemExit(code if isinstance(code, int) else 0)


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as version_of

        say(f"fencepost {version_of('fencepost')}")
    elif context.invoked_subcommand is None:
        say(context.get_help())


@app.command(help=f"Perform one test and judge it.\n\n{EXIT_CODES}", epilog=RUN_EXAMPLES)
def run(
    context: typer.Context,
    workload: Annotated[str, typer.Option("--workload", "-w", help="What clients do (see: fencepost plugins).")] = "transactions",
    set_: Annotated[Texts, pairs("--set", "An option of the workload.")] = None,
    nemesis: Annotated[
        Texts,
        typer.Option(
            "--nemesis",
            "-n",
            metavar="KIND[,KEY=VALUE...]",
            help="A fault; `none` for none. Default: kill, pause, isolate, cut-clients, mixed; on an external cluster none.",
        ),
    ] = None,
    lane: Annotated[
        Texts,
        typer.Option(
            "--lane", metavar="NAME,KEY=VALUE...", help="How a lane's faults follow each other (order, busy_s, quiet_s)."
        ),
    ] = None,
    budget: Annotated[Texts, pairs("--budget", "How much all faults may hurt at a time (nodes, keep_quorum).")] = None,
    time: Annotated[float, typer.Option("--time", "-t", help="How long the workload runs, in seconds.")] = 60.0,
    rate: Annotated[float, typer.Option("--rate", help="Operations a second over all writers; 0: as fast as it goes.")] = 0.0,
    seed: Annotated[int | None, typer.Option("--seed", help="Repeats the draws of an earlier run. Default: drawn.")] = None,
    kafka: Annotated[str | None, typer.Option("--kafka", metavar="VERSION", help="Kafka's version.")] = None,
    brokers: Annotated[int | None, typer.Option("--brokers", help="How many brokers.")] = None,
    cluster: Annotated[str, typer.Option("--cluster", help="Where brokers live.")] = "auto",
    cluster_set: Annotated[Texts, pairs("--cluster-set", "An option of the cluster.")] = None,
    broker_setting: Annotated[Texts, pairs("--broker-setting", "A setting of every broker.")] = None,
    client: Annotated[str, typer.Option("--client", help="Which client library is used.")] = "librdkafka",
    producer: Annotated[Texts, pairs("--producer", "A setting of the producers.")] = None,
    consumer: Annotated[Texts, pairs("--consumer", "A setting of the consumers.")] = None,
    topic: Annotated[Texts, pairs("--topic", "A setting of the topics.")] = None,
    contract: Annotated[Texts, pairs("--contract", "Judge by this instead of what the settings promise.")] = None,
    expect: Annotated[
        Texts, typer.Option("--expect", metavar="NAME", help="An anomaly that must be found. Default: valid.")
    ] = None,
    checker: Checkers = None,
    name: Annotated[str | None, typer.Option("--name", help="The test's name. Default: the workload's.")] = None,
    results: Results = None,
    json_: Json = False,
    master: Master = "local[*]",
    spark_conf: Conf = None,
) -> None:
    from harness.campaign.campaign import PlannedRun, draw_seed
    from harness.cli.arguments import from_options

    test = from_options(
        name=name,
        workload=workload,
        workload_options=set_ or (),
        nemesis=nemesis,
        lanes=lane or (),
        budget=budget or (),
        cluster=cluster,
        cluster_options=cluster_set or (),
        kafka=kafka,
        brokers=brokers,
        broker_settings=broker_setting or (),
        client=client,
        producer=producer or (),
        consumer=consumer or (),
        topic=topic or (),
        contract=contract or (),
        expect=expect or (),
        checkers=checker or (),
        time_s=time,
        rate=rate,
    )
    drawn = draw_seed() if seed is None else seed
    plan = [PlannedRun(test, drawn, _repeating(context, drawn))]
    found = _perform(plan, results, master, spark_conf, to_stderr=json_)
    if json_:
        say_json(found[0].verdict if found and found[0].verdict else _summary(found))
    raise typer.Exit(_finish(found, plan, seed=drawn, quiet=json_))


@app.command(
    help="Perform every test of a campaign file, one after another. A test that is repeated and expects an anomaly must find"
    f" it at least once.\n\n{EXIT_CODES}",
    epilog=CAMPAIGN_EXAMPLES,
)
def campaign(
    file: Annotated[Path, typer.Argument(help="The campaign, a TOML file.")],
    only: Annotated[Texts, typer.Option("--only", metavar="NAME", help="Only this test, or all tests of this matrix.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Comes before every seed in the file.")] = None,
    repeat: Annotated[int | None, typer.Option("--repeat", min=1, help="How often each test is run.")] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", help="Where brokers live, whatever the file says.")] = None,
    cluster_set: Annotated[Texts, pairs("--cluster-set", "An option of the cluster, laid over the file's.")] = None,
    results: Results = None,
    json_: Json = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the runs that would be performed.")] = False,
    master: Master = "local[*]",
    spark_conf: Conf = None,
) -> None:
    from harness.campaign.campaign import planned, read
    from harness.cli.arguments import cluster_of

    found = read(file, seed, cluster_of(cluster, cluster_set or ()))
    plan = planned(found, only or (), repeat)
    if dry_run:
        _list_plan(plan, json_)
        return
    (err() if json_ else out()).print(f"{found.name}: {_count(len(plan), 'run')}  seed {found.seed}", soft_wrap=True)
    performed = _perform(plan, results, master, spark_conf, to_stderr=json_)
    if json_:
        say_json({"campaign": found.name, "seed": found.seed, **_summary(performed)})
    raise typer.Exit(_finish(performed, plan, seed=found.seed, quiet=json_))


@app.command("list")
def list_(results: Results = None, json_: Json = False) -> None:
    """Every run that lies in the results, with its verdict; the newest last."""
    from harness.runs.store import list_runs, results_root

    runs = list_runs(results_root(results))
    if json_:
        say_json([vars(run) for run in runs])
        return
    if not runs:
        say(f"no runs below {results_root(results)}")
        return
    rows = [(run.id, run.campaign, run.test, run.created, _outcome(run.verdict, run.expectation_met)) for run in runs]
    out().print(table(("run", "campaign", "test", "created", "verdict"), rows))


check.register(app)
clean.register(app)
nemesis_commands.register(app)


def _perform(plan: Sequence[PlannedRun], results: Path | None, master: str, spark_conf: Texts, to_stderr: bool) -> list[Result]:
    """Run the plan, showing progress; every result is told in words as it comes.

    Raises CampaignError, with nothing started, when a secret of any test is missing.
    """
    from harness.cli import display
    from harness.cli.arguments import spark_conf_of
    from harness.planning.plan import look_up_secrets
    from harness.runs.sequence import Conductor
    from harness.runs.store import results_root

    look_up_secrets(planned.test for planned in plan)
    conf = spark_conf_of(spark_conf or ())
    progress = console.display(to_stderr)
    hear: Callable[[Event], None] = progress.event
    engine = console.engine(results_root(results), master, lambda event: hear(event), conf)
    conductor = Conductor(engine, progress.event, progress.close)
    hear = conductor.hear
    try:
        return conductor.run_all(plan, lambda result: progress.event({"event": "result", "text": display.in_words(result)}))
    finally:
        progress.close()
        engine.close()


def _finish(results: Sequence[Result], plan: Sequence[PlannedRun], seed: int, quiet: bool) -> int:
    """The last lines: table, reports, how to repeat it, the seed. Returns the exit code."""
    from harness.cli import display
    from harness.runs.sequence import exit_code

    code = int(exit_code(results))
    if len(results) < len(plan):
        code = code or int(Exit.UNKNOWN)
        err().print(f"stopped: {len(plan) - len(results)} of {_count(len(plan), 'run')} not performed")
    if quiet:
        return code
    say()
    out().print(display.results_table(results))
    for line in display.report_lines(results):
        say(line)
    if len(plan) == 1:
        say(f"repeat: {plan[0].command}")
    say(f"seed {seed}")
    return code


def _repeating(context: typer.Context, seed: int) -> str:
    """The command that repeats this run: every option that is not at its default, and the seed."""
    words = ["fencepost", "run"]
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if parameter.name in ("seed", "results", "json_", "help", "spark_conf") or value in (parameter.default, None, (), []):
            continue
        for one in value if isinstance(value, list | tuple) else [value]:
            words += [parameter.opts[0], str(one)]
    return shlex.join([*words, "--seed", str(seed)])


def _list_plan(plan: Sequence[PlannedRun], as_json: bool) -> None:
    if as_json:
        tests = [(run.test.name, run.seed, list(run.test.expect), run.command) for run in plan]
        say_json([dict(zip(("test", "seed", "expect", "command"), test, strict=True)) for test in tests])
        return
    rows = []
    for run in plan:
        faults = ", ".join(fault.kind for fault in run.test.nemesis) or "none"
        rows.append((run.test.name, f"{run.test.time_s:g} s", faults, ", ".join(run.test.expect), str(run.seed)))
    out().print(table(("test", "time", "nemesis", "expect", "seed"), rows))


def _summary(results: Sequence[Result]) -> dict[str, Any]:
    from harness.cli.display import as_json
    from harness.runs.sequence import exit_code

    return {"exit": int(exit_code(results)), "runs": [as_json(result) for result in results]}


def _outcome(verdict: str, met: bool | None) -> str:
    if not verdict:
        return "not judged"
    return verdict if met is None else f"{verdict}, {'as expected' if met else 'against expectation'}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _fail(lines: Sequence[str], code: Exit) -> NoReturn:
    for line in lines:
        err().print(line, soft_wrap=True)
    if code is Exit.BAD_CAMPAIGN:
        err().print(f"{_count(len(lines), 'mistake')}; nothing was started")
    raise SystemExit(int(code))


if __name__ == "__main__":
    main()
