"""`fencepost ...`: the command line, and the only place that prints.

Heavy libraries are imported inside the commands, so that `--help` comes at once.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Optional

import typer

from harness.api import CampaignError, Exit, HarnessError

if TYPE_CHECKING:
    from rich.console import Console

    from harness.campaign import Planned
    from harness.conduct import Engine, Event, Result
    from harness.show import Display

EXIT_CODES = """Exit codes: 0 everything as expected (a live bug that a test expects and finds counts as such); 1 against
expectation; 2 unknown: nothing could be concluded; 254 bad campaign or option, nothing was started; 255 the harness broke;
130 left by Ctrl-C twice."""

app = typer.Typer(
    name="fencepost",
    help="Runs a real Kafka cluster, hurts it while transactions run, and lets Spark decide whether exactly-once held.\n\n"
    "\b\nStart with:\n  fencepost doctor\n  fencepost run --time 30\n  fencepost campaign campaigns/smoke.toml\n\n" + EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
cluster_app = typer.Typer(help="Kafka by version: fetched once, kept for all runs.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(cluster_app, name="cluster")

Results = Annotated[
    Optional[Path],  # noqa: UP045 - typer evaluates this on Python 3.10 too
    typer.Option("--results", help="Where runs land. Default: $FENCEPOST_RESULTS, else ./results.", show_default=False),
]
Json = Annotated[
    bool, typer.Option("--json", help="One JSON document on standard output; everything else goes to standard error.")
]
Master = Annotated[str, typer.Option("--spark-master", help="The Spark that judges.")]
KeyValues = Optional[list[str]]


def main() -> None:
    """The entry point of `fencepost`: runs a command, and turns what broke into words and an exit code."""
    try:
        app()
    except CampaignError as error:
        _fail(error.mistakes, Exit.BAD_CAMPAIGN)
    except HarnessError as error:
        _fail([f"{type(error).__name__}: {error}"], Exit.HARNESS_BROKE)
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        _out().print(f"fencepost {version('fencepost')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None: ...


@app.command(help=f"Perform one test and judge it.\n\n{EXIT_CODES}", epilog="\b\nExamples:\n  fencepost run --time 30\n"
    "  fencepost run -w idempotent -n kill,target=leader -n pause,every_s=[2,4] --time 120\n"
    "  fencepost run --set writers=12 -n cut-clients --producer socket.timeout.ms=1000 --expect torn-transaction\n"
    "  fencepost run -n none --kafka 3.9.1 --topic min.insync.replicas=1 --contract acks=all")  # fmt: skip
def run(
    context: typer.Context,
    workload: Annotated[
        str, typer.Option("--workload", "-w", help="What the clients do (see: fencepost plugins).")
    ] = "transactions",
    set_: Annotated[KeyValues, typer.Option("--set", metavar="KEY=VALUE", help="An option of the workload.")] = None,
    nemesis: Annotated[
        KeyValues,
        typer.Option(
            "--nemesis",
            "-n",
            metavar="KIND[,KEY=VALUE...]",
            help="A fault; `none` for none. Default: kill, pause, isolate, cut-clients.",
        ),
    ] = None,
    time: Annotated[float, typer.Option("--time", "-t", help="How long the workload runs, in seconds.")] = 60.0,
    rate: Annotated[float, typer.Option("--rate", help="Operations a second over all writers; 0: as fast as it goes.")] = 0.0,
    seed: Annotated[Optional[int], typer.Option("--seed", help="Repeats the draws of an earlier run. Default: drawn.")] = None,  # noqa: UP045
    kafka: Annotated[Optional[str], typer.Option("--kafka", metavar="VERSION", help="Kafka's version.")] = None,  # noqa: UP045
    brokers: Annotated[Optional[int], typer.Option("--brokers", help="How many brokers.")] = None,  # noqa: UP045
    cluster: Annotated[str, typer.Option("--cluster", help="Where brokers live.")] = "auto",
    cluster_set: Annotated[
        KeyValues, typer.Option("--cluster-set", metavar="KEY=VALUE", help="An option of the cluster.")
    ] = None,
    broker_setting: Annotated[
        KeyValues, typer.Option("--broker-setting", metavar="KEY=VALUE", help="A setting of every broker.")
    ] = None,
    client: Annotated[str, typer.Option("--client", help="Which client library is used.")] = "librdkafka",
    producer: Annotated[KeyValues, typer.Option("--producer", metavar="KEY=VALUE", help="A setting of the producers.")] = None,
    consumer: Annotated[KeyValues, typer.Option("--consumer", metavar="KEY=VALUE", help="A setting of the consumers.")] = None,
    topic: Annotated[KeyValues, typer.Option("--topic", metavar="KEY=VALUE", help="A setting of the topics.")] = None,
    contract: Annotated[
        KeyValues, typer.Option("--contract", metavar="KEY=VALUE", help="Judge by this instead of what the settings promise.")
    ] = None,
    expect: Annotated[
        KeyValues, typer.Option("--expect", metavar="NAME", help="An anomaly that must be found. Default: valid.")
    ] = None,
    name: Annotated[Optional[str], typer.Option("--name", help="The test's name. Default: the workload's.")] = None,  # noqa: UP045
    results: Results = None,
    json_: Json = False,
    master: Master = "local[*]",
) -> None:
    from harness.campaign import Planned, draw_seed
    from harness.options import DEFAULT_NEMESIS, from_options

    test = from_options(
        name=name, workload=workload, workload_options=set_ or (), nemesis=nemesis or DEFAULT_NEMESIS, cluster=cluster,
        cluster_options=cluster_set or (), kafka=kafka, brokers=brokers, broker_settings=broker_setting or (), client=client,
        producer=producer or (), consumer=consumer or (), topic=topic or (), contract=contract or (), expect=expect or (),
        time_s=time, rate=rate,
    )  # fmt: skip
    drawn = draw_seed() if seed is None else seed
    planned = Planned(test, drawn, _repeating(context, drawn))
    found = _perform([planned], results, master, to_stderr=json_)
    if json_:
        _print_json(dict(found[0].verdict) or _summary(found)["runs"][0] if found else {"error": "stopped before anything began"})
    raise typer.Exit(_finish(found, [planned], seed=drawn, quiet=json_))


@app.command(help=f"Perform every test of a campaign file, one after another.\n\n{EXIT_CODES}\n\nA test that is repeated and expects"
    " an anomaly must find it at least once.", epilog="\b\nExamples:\n  fencepost campaign campaigns/smoke.toml\n"
    "  fencepost campaign nightly.toml --dry-run\n  fencepost campaign nightly.toml --only steady --seed 7")  # fmt: skip
def campaign(
    file: Annotated[Path, typer.Argument(help="The campaign, a TOML file.")],
    only: Annotated[
        KeyValues, typer.Option("--only", metavar="NAME", help="Only this test, or all tests of this matrix.")
    ] = None,
    seed: Annotated[Optional[int], typer.Option("--seed", help="Comes before every seed in the file.")] = None,  # noqa: UP045
    repeat: Annotated[Optional[int], typer.Option("--repeat", min=1, help="How often each test is run.")] = None,  # noqa: UP045
    results: Results = None,
    json_: Json = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the runs that would be performed.")] = False,
    master: Master = "local[*]",
) -> None:
    from harness.campaign import planned, read

    found = read(file, seed)
    plan = planned(found, only or (), repeat)
    if dry_run:
        _list_plan(plan, json_)
        return
    (_err() if json_ else _out()).print(f"{found.name}: {len(plan)} runs  seed {found.seed}", soft_wrap=True)
    performed = _perform(plan, results, master, to_stderr=json_)
    if json_:
        _print_json({"campaign": found.name, "seed": found.seed, **_summary(performed)})
    raise typer.Exit(_finish(performed, plan, seed=found.seed, quiet=json_))


@app.command(help="Judge a finished run again, from what it left on disk. No cluster is needed.\n\n"
    "RUN is a directory, a run's id or the beginning of one, or `latest`.\n\nExit code: 0 valid, 1 invalid, 2 unknown, 254 no such run,"
    " 255 the harness broke.", epilog="\b\nExamples:\n  fencepost check latest\n  fencepost check k3f9x2 --contract acks=all --json")  # fmt: skip
def check(
    run: Annotated[str, typer.Argument(metavar="RUN")],
    contract: Annotated[KeyValues, typer.Option("--contract", metavar="KEY=VALUE", help="Judge by this instead.")] = None,
    results: Results = None,
    json_: Json = False,
    master: Master = "local[*]",
) -> None:
    from harness.options import contract_of
    from harness.store import find, results_root

    directory = find(results_root(results), run)
    overlaid = contract_of(contract or ())
    display = _display(to_stderr=json_)
    engine = _engine(results_root(results), master, display.event)
    try:
        engine.start_spark()
        verdict = engine.judge(directory, overlaid or None)
    finally:
        display.close()
        engine.close()
    if json_:
        _print_json(verdict)
    else:
        _out().print(f"{verdict['verdict']}: {verdict.get('reason', '')}", soft_wrap=True)
        _out().print(str(directory / "report.html"), soft_wrap=True)
    raise typer.Exit({"valid": Exit.VALID, "invalid": Exit.INVALID}.get(verdict["verdict"], Exit.UNKNOWN))


@app.command(
    help="Write a run's report again, and print where it is.\n\nRUN is a directory, a run's id or the beginning of one, or `latest`."
)
def report(run: Annotated[str, typer.Argument(metavar="RUN")], results: Results = None) -> None:
    from harness.report import render
    from harness.store import find, results_root

    _out().print(str(render(find(results_root(results), run))), soft_wrap=True)


@app.command("list", help="Every run that lies in the results, with its verdict; the newest last.")
def list_(results: Results = None, json_: Json = False) -> None:
    from harness.store import list_runs, results_root

    runs = list_runs(results_root(results))
    if json_:
        _print_json([vars(run) for run in runs])
        return
    rows = [(run.id, run.campaign, run.test, run.created, _verdict_in_words(run.verdict, run.expectation_met)) for run in runs]
    _out().print(_table(("run", "campaign", "test", "created", "verdict"), rows))


@app.command(help="Every plug-in by name; with NAME, what it is and its options.\n\nNAME may be an import path `module:Class`,"
    " found in the current directory too.", epilog="\b\nExamples:\n  fencepost plugins\n  fencepost plugins pause\n"
    "  fencepost plugins my_faults:Stutter")  # fmt: skip
def plugins(name: Annotated[Optional[str], typer.Argument(metavar="NAME")] = None, json_: Json = False) -> None:  # noqa: UP045
    from harness import plugins as plug_ins

    if name is None:
        found = {group: plug_ins.names(group) for group in plug_ins.GROUPS}
        if json_:
            _print_json(found)
            return
        rows = [(group, one, _first_line(group, one)) for group, many in found.items() for one in many]
        _out().print(_table(("group", "name", ""), rows))
        return
    groups = [group for group in plug_ins.GROUPS if name in plug_ins.names(group)] or ["plug-in" if ":" in name else ""]
    if groups == [""]:
        everything = [one for group in plug_ins.GROUPS for one in plug_ins.names(group)]
        raise CampaignError([plug_ins.unknown("plug-in", name, everything)])
    for group in groups:
        _describe(group, name, plug_ins.load(group, name), json_)


@app.command(help="What this machine can do, and what to do about what it cannot. Exit code 0 when a run is possible, else 1.")
def doctor(results: Results = None, json_: Json = False) -> None:
    from harness.doctor import examine, possible
    from harness.store import results_root

    findings = examine(results_root(results))
    if json_:
        _print_json([vars(finding) for finding in findings])
    else:
        marks = {True: "ok", False: "MISSING", None: "-"}
        rows = [
            (marks[found.ok], found.name, found.text + (f"\n-> {found.remedy}" if found.remedy else "")) for found in findings
        ]
        _out().print(_table(("", "what", "found"), rows))
        _out().print("A run is possible here." if possible(findings) else "No run is possible here.")
    raise typer.Exit(Exit.VALID if possible(findings) else 1)


@app.command(help="Remove leftovers: broken-off downloads, brokers' data of runs that are over, sandboxes whose harness died.\n\n"
    "There should be none. With --runs, old runs go as well.")  # fmt: skip
def clean(
    runs: Annotated[
        float | None, typer.Option("--runs", metavar="DAYS", min=0, help="Also remove runs older than this.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove runs without asking.")] = False,
    results: Results = None,
) -> None:
    from harness import leftovers
    from harness.store import results_root

    root, running = results_root(results), leftovers.processes()
    orphans = leftovers.orphaned_sandboxes(running)
    for process in orphans:
        leftovers.end(process)
        _out().print(f"ended process {process.pid}: {process.command}", soft_wrap=True)
    directories = [*leftovers.stale_fetches(), *leftovers.data_directories(root, running)]
    for directory in directories:
        leftovers.remove(directory)
        _out().print(f"removed {directory}", soft_wrap=True)
    old = leftovers.old_runs(root, runs, running) if runs is not None else []
    if old and (yes or typer.confirm(f"Remove {len(old)} runs older than {runs:g} days below {root}?")):
        for directory in old:
            leftovers.remove(directory)
            _out().print(f"removed {directory}", soft_wrap=True)
    if not (orphans or directories or old):
        _out().print("nothing left over")


@cluster_app.command(
    "fetch", help="Fetch a version of Kafka into the cache (about 45 MB).", epilog="\b\nExample:\n  fencepost cluster fetch 4.3.0"
)
def cluster_fetch(version: Annotated[str, typer.Argument(metavar="VERSION")]) -> None:
    from harness import plugins as plug_ins

    found = plug_ins.load("kafka", "clusters.kafka:fetch")(
        version, on_progress=lambda text: _out().print(f"  {text}", soft_wrap=True)
    )
    _out().print(f"Kafka {found.version}: {len(found.jars)} jars in {found.directory}", soft_wrap=True)


@cluster_app.command("list", help="The versions of Kafka that lie in the cache.")
def cluster_list(json_: Json = False) -> None:
    from harness import plugins as plug_ins

    found = plug_ins.load("kafka", "clusters.kafka:installed")()
    if json_:
        _print_json([{"version": one.version, "directory": str(one.directory), "jars": dict(one.jars)} for one in found])
        return
    _out().print(
        _table(("version", "jars", "directory"), [(one.version, str(len(one.jars)), str(one.directory)) for one in found])
    )


def _perform(plan: Sequence[Planned], results: Path | None, master: str, to_stderr: bool) -> list[Result]:
    """Run the plan with the engine, showing progress; every result is told in words as it comes."""
    from harness import show
    from harness.conduct import Conductor
    from harness.store import results_root

    display = _display(to_stderr)
    events: list[Callable[[Event], None]] = [display.event]
    engine = _engine(results_root(results), master, lambda event: events[0](event))
    conductor = Conductor(engine, display.event, display.close)
    events[0] = conductor.hear
    try:
        return conductor.run_all(plan, lambda result: display.event({"event": "note", "text": show.in_words(result)}))
    finally:
        display.close()
        engine.close()


def _finish(results: Sequence[Result], plan: Sequence[Planned], seed: int, quiet: bool) -> int:
    """The last lines: table, reports, how to repeat, the seed. Returns the exit code."""
    from harness import show
    from harness.conduct import exit_code

    code = int(exit_code(results))
    if len(results) < len(plan):
        code = code or int(Exit.UNKNOWN)
        (_err() if quiet else _out()).print(f"stopped: {len(plan) - len(results)} of {len(plan)} runs were not performed")
    if quiet:
        return code
    _out().print()
    _out().print(show.results_table(results))
    for line in show.report_lines(results):
        _out().print(line, soft_wrap=True)
    if len(plan) == 1:
        _out().print(f"repeat: {plan[0].command}", soft_wrap=True)
    _out().print(f"seed {seed}")
    return code


def _engine(results: Path, master: str, on_event: Callable[[dict[str, Any]], None]) -> Engine:
    from harness.run import Runner

    return Runner(results=results, master=master, on_event=on_event)


def _display(to_stderr: bool) -> Display:
    from harness.show import LiveDisplay, PlainDisplay

    console = _err() if to_stderr else _out()
    return LiveDisplay(console) if console.is_terminal else PlainDisplay(console)


def _repeating(context: typer.Context, seed: int) -> str:
    """The command that repeats this run: every option that is not at its default, and the seed."""
    words = ["fencepost", "run"]
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if parameter.name in ("seed", "results", "json_", "help") or value == parameter.default or value in (None, (), []):
            continue
        for one in value if isinstance(value, list | tuple) else [value]:
            words += [parameter.opts[0], str(one)]
    return shlex.join([*words, "--seed", str(seed)])


def _list_plan(plan: Sequence[Planned], as_json: bool) -> None:
    if as_json:
        _print_json(
            [{"test": run.test.name, "seed": run.seed, "expect": list(run.test.expect), "command": run.command} for run in plan]
        )
        return
    rows = [
        (
            run.test.name,
            f"{run.test.time_s:g} s",
            ", ".join(f.kind for f in run.test.nemesis) or "none",
            ", ".join(run.test.expect),
            str(run.seed),
        )
        for run in plan
    ]
    _out().print(_table(("test", "time", "nemesis", "expect", "seed"), rows))


def _summary(results: Sequence[Result]) -> dict[str, Any]:
    from harness.conduct import exit_code
    from harness.show import as_json

    return {"exit": int(exit_code(results)), "runs": [as_json(result) for result in results]}


def _describe(group: str, name: str, found: Any, as_json: bool) -> None:
    """What a plug-in is, and its options."""
    import inspect

    from harness.plugins import options

    doc, fields = inspect.getdoc(found) or "", options(found)
    if as_json:
        _print_json({"group": group, "name": name, "doc": doc, "options": [vars(field) for field in fields]})
        return
    _out().print(f"{name} ({group})\n\n{doc}\n")
    if fields:
        _out().print(_table(("option", "type", "default", ""), [(f.name, f.type, f.default, f.doc) for f in fields]))
    else:
        _out().print("It has no options.")


def _first_line(group: str, name: str) -> str:
    """The first sentence of a plug-in, or why it cannot be loaded."""
    import inspect

    from harness.plugins import load

    try:
        return (inspect.getdoc(load(group, name)) or "").partition("\n")[0]
    except CampaignError as error:
        return f"cannot be used: {error}"


def _verdict_in_words(verdict: str, met: bool | None) -> str:
    if not verdict:
        return "not judged"
    return verdict if met is None else f"{verdict}, {'as expected' if met else 'against expectation'}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(*head, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _fail(lines: Sequence[str], code: Exit) -> NoReturn:
    for line in lines:
        _err().print(line, soft_wrap=True)
    if code is Exit.BAD_CAMPAIGN:
        _err().print(f"{len(lines)} mistake{'s' if len(lines) > 1 else ''}; nothing was started")
    raise SystemExit(int(code))


def _print_json(document: Mapping[str, Any] | Sequence[Any]) -> None:
    sys.stdout.write(json.dumps(document, indent=1, default=str) + "\n")
    sys.stdout.flush()


def _out() -> Console:
    return _console(stderr=False)


def _err() -> Console:
    return _console(stderr=True)


def _console(stderr: bool) -> Console:
    """A console that takes texts as they are. What is no terminal is wide, so that logs are not folded."""
    from rich.console import Console

    wide = None if (sys.stderr if stderr else sys.stdout).isatty() else int(os.environ.get("COLUMNS") or 160)
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False, width=wide)


if __name__ == "__main__":
    main()
