"""`fencepost client`: client libraries by version, and the conformance kit for drivers."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.harness.api import CampaignError
from fencepost.harness.api.errors import Exit
from fencepost.harness.cli.console import Json, Results, err, print_json, print_line, print_table

if TYPE_CHECKING:
    from fencepost.harness.conformance.results import StoryResult

MANY = 4  # stories that were not played for one reason: one row of the table
LAST_BYTES, LAST_LINES = 4_000, 5  # of what a driver that failed wrote to its standard error
NAMES = "\b\nExamples:\n  fencepost client fetch java@4.4.0\n  fencepost client fetch librdkafka@2.0.2 librdkafka@1.4.2"
CHECK_EXAMPLES = "\b\nExamples:\n  fencepost client check ./my-driver\n  fencepost client check java@4.4.0 --story commit"
TABLE_EXAMPLE = "\b\nExample:\n  fencepost campaign clients\n  fencepost client table --only clients"
CHECK_CODES = """Exit codes: 0 every story passed that the driver's capabilities allow; 1 one failed; 2 none failed, and one
had too few operations for an answer; 254 a driver, a story or a cluster that cannot be used; 255 fencepost broke."""

client_app = typer.Typer(
    help="Client libraries by version: fetched once, kept for all runs; drivers of your own.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.add_typer(client_app, name="client")


@client_app.command("fetch", epilog=NAMES)
def fetch(names: Annotated[list[str], typer.Argument(metavar="FAMILY@VERSION...", help="A client and its version.")]) -> None:
    """Fetch clients into the cache, and build their drivers. Without a version: the family's default."""
    from fencepost.harness.drivers import families

    for name in names:
        driver = families.obtain(name, lambda text: print_line(f"  {text}"), repair=True)
        hello = families.hello(driver)
        print_line(f"{driver.kind}: {hello.client} {hello.version}, {hello.runtime}")


@client_app.command("list")
def list_(json_: Json = False) -> None:
    """The families of clients, whether this machine can drive them, and the versions in the cache."""
    from fencepost.harness.drivers import families
    from fencepost.harness.plugins import registry

    cached: dict[str, list[str]] = {}
    for manifest in families.fetched():
        cached.setdefault(manifest.directory.parent.name, []).append(manifest.directory.name)
    rows = []
    for name in registry.names("driver"):
        family, usable = families.family(name), families.drivable(name)
        rows.append((name, family.default, family.versions, cached.get(name, []), usable, family.missing()))
    if json_:
        keys = ("family", "default", "versions", "cached", "usable", "missing")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
    else:
        shown = [(*row[:3], ", ".join(row[3]) or "-", _drivable(*row[4:])) for row in rows]
        print_table(("family", "default", "versions", "in the cache", "this machine can drive it"), shown)


def _drivable(usable: list[str], missing: str) -> str:
    only = f"only {', '.join(usable)}, built already: " if usable else ""
    return only + missing if missing else "yes"


@client_app.command("check", epilog=CHECK_EXAMPLES, help=f"Put a driver through every story on a real broker.\n\n{CHECK_CODES}")
def check(
    driver: Annotated[str, typer.Argument(metavar="DRIVER", help="A program (a path with a slash), or FAMILY@VERSION.")],
    story: Annotated[
        list[str] | None, typer.Option("--story", metavar="NAME", help="Play this story only; may be repeated. Default: all.")
    ] = None,
    kafka: Annotated[str, typer.Option("--kafka", metavar="VERSION", help="The broker's version.")] = "",
    json_: Json = False,
) -> None:
    from fencepost.harness.conformance import client_kit
    from fencepost.harness.conformance.results import FAILED, NOT_OBSERVABLE, NOT_PLAYED, PASSED, counted, exit_code

    results, place = client_kit.check(driver, story or (), kafka, _progress)
    if json_:
        print_json({"driver": driver, "stories": [{**vars(result), "outcome": result.outcome} for result in results]})
    else:
        words = {PASSED: "ok", FAILED: "FAILED", NOT_OBSERVABLE: "too few", NOT_PLAYED: "-"}
        rows = [
            (words[result.outcome], story, result.seen + (f"\n-> {result.change}" if result.change else ""))
            for story, result in _folded(results)
        ]
        print_table(("", "story", "what was seen, and what to change"), rows)
        for line in _last_lines(place):
            print_line(f"driver: {line}")
        print_line(counted(results) + (f"; logs: {place}" if place.exists() else ""))
    too_few = any(result.outcome == NOT_OBSERVABLE for result in results)
    raise typer.Exit(Exit.INVALID if exit_code(results) == Exit.INVALID else Exit.UNKNOWN if too_few else Exit.VALID)


def _folded(results: Sequence[StoryResult]) -> Iterator[tuple[str, StoryResult]]:
    """The rows of the table: stories that were not played for one reason are one row where that is the reason of many."""
    why = Counter(result.seen for result in results if result.ok is None)
    told = set()
    for result in results:
        if result.ok is not None or why[result.seen] < MANY:
            yield result.story, result
        elif result.seen not in told:
            told.add(result.seen)
            yield f"{why[result.seen]} stories", result


def _last_lines(place: Path) -> list[str]:
    """The end of what a driver wrote to its standard error, where a story failed: else the logs are gone."""
    from fencepost.harness.conformance.client_side import LOG

    try:
        with (place / LOG).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - LAST_BYTES))
            return log.read().decode(errors="replace").splitlines()[-LAST_LINES:]
    except OSError:
        return []


@client_app.command("table", epilog=TABLE_EXAMPLE)
def table_(
    results: Results = None,
    only: Annotated[str, typer.Option("--only", metavar="CAMPAIGN", help="Only the runs of this campaign.")] = "",
    record: Annotated[
        Path | None,
        typer.Option(
            "--record",
            metavar="FILE",
            help="Add the runs, with their newest verdicts, to this record (CSV), and print its table.",
        ),
    ] = None,
    recorded: Annotated[
        Path | None, typer.Option("--recorded", metavar="FILE", help="Print the table of this record, and read no runs.")
    ] = None,
    json_: Json = False,
) -> None:
    """Who keeps which promise: all runs in the results, by client and faults; also as clients.html beside them.

    With --record or --recorded: k of n runs by client and test, from a file that outlives the runs.
    """
    if recorded is not None:
        _print_league(recorded, json_)
        return
    from fencepost.harness.plugins import services
    from fencepost.harness.report import render_clients
    from fencepost.harness.report.client_table import markdown
    from fencepost.harness.report.client_table import table as rows_of
    from fencepost.harness.runs import store

    root = store.results_root(results)
    runs = [run for run in store.list_runs(root) if not only or run.campaign == only]
    if not runs:
        raise CampaignError([f"no runs{f' of the campaign {only}' if only else ''} below {root}"])
    promises = services.judge().promises()
    if record is not None:
        from fencepost.harness.report import league

        new, count = league.record(record.absolute(), runs)
        err().print(f"{new} runs are new in {record}, which has {count}")
        _print_league(record, json_)
        return
    rows = rows_of(runs, root, promises)
    if json_:
        print_json([asdict(row) for row in rows])
    else:
        print_line(markdown(rows, promises))
    render_clients(rows, root / "clients.html", promises)
    err().print(f"{root / 'clients.html'}")


def _print_league(record: Path, json_: bool) -> None:
    from fencepost.harness.report import league

    rows = league.read(record.absolute())
    if json_:
        print_json([asdict(row) for row in rows])
    else:
        print_line(league.markdown(rows))


def _progress(event: Mapping[str, Any]) -> None:
    """Print progress to standard error."""
    if event["event"] == "phase":
        err().print(event["text"])
    elif event["event"] == "story":
        from fencepost.harness.conformance.results import StoryResult, mark

        err().print(f"{event['result']['story']} {mark(StoryResult(**event['result']))}")
