"""The commands beside running and judging: what there is, what this machine can do, and what was left behind."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from harness.api import CampaignError, Exit
from harness.cli.console import Json, Results, out, say, say_json, table

IMAGE_EXAMPLES = (
    "\b\nExamples:\n  sudo fencepost cluster image\n  fencepost cluster image --kafka 3.9.1 --base eclipse-temurin:21-jre"
)
PLUGINS_EXAMPLES = "\b\nExamples:\n  fencepost plugins\n  fencepost plugins pause\n  fencepost plugins my_faults:Stutter"

cluster_app = typer.Typer(
    help="Kafka by version: fetched once, kept for all runs; images.", no_args_is_help=True, rich_markup_mode=None
)


def register(app: typer.Typer) -> None:
    """Add these commands to `app`."""
    app.command(epilog=PLUGINS_EXAMPLES)(plugins)
    app.command()(doctor)
    app.command()(clean)
    app.add_typer(cluster_app, name="cluster")


def plugins(name: Annotated[str | None, typer.Argument(metavar="NAME")] = None, json_: Json = False) -> None:
    """Every plug-in by name; with NAME, what it is and its options.

    NAME may be an import path `module:Class`; the current directory is searched too. Every breach of its interface is named
    (docs/plugins.md).

    Exit codes: 0 it can be used; 254 it cannot, or there is none of that name.
    """
    from harness.plugins.registry import GROUPS, load, names, unknown

    if name is None:
        found = {group: names(group) for group in GROUPS}
        if json_:
            say_json(found)
        else:
            rows = [(group, one, _first_line(group, one)) for group, many in found.items() for one in many]
            out().print(table(("group", "name", ""), rows))
        return
    groups = [_guessed(name)] if ":" in name else [group for group in GROUPS if name in names(group)]
    if not groups:
        raise CampaignError([unknown("plug-in", name, {one for group in GROUPS for one in names(group)})])
    described = [_description(group, name, load(group, name)) for group in groups]
    if json_:
        say_json(described)
    else:
        for one in described:
            _describe(one)
    if any(one["breaches"] for one in described):
        raise typer.Exit(Exit.BAD_CAMPAIGN)


def doctor(results: Results = None, json_: Json = False) -> None:
    """What this machine can do, and what to do about what it cannot.

    Exit code: 0 when a run is possible, else 1.
    """
    from harness.cli.machine import examine, possible
    from harness.runs.store import results_root

    findings = examine(results_root(results))
    if json_:
        say_json([vars(finding) for finding in findings])
    else:
        marks = {True: "ok", False: "MISSING", None: "-"}
        rows = [(marks[one.ok], one.name, one.text + (f"\n-> {one.remedy}" if one.remedy else "")) for one in findings]
        out().print(table(("", "what", "found"), rows))
        say("A run is possible here." if possible(findings) else "No run is possible here.")
    raise typer.Exit(0 if possible(findings) else 1)


def clean(
    runs: Annotated[float | None, typer.Option("--runs", metavar="DAYS", min=0, help="Also remove runs older than this.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove runs without asking.")] = False,
    results: Results = None,
) -> None:
    """Remove leftovers: broken-off downloads, brokers' data of runs that are over, sandboxes whose harness died, and what dead
    runs have in Docker.

    There should be none. What belongs to a run that may still live is named and left alone. With --runs, old runs go as well,
    after a question.
    """
    from harness.runs import leftovers
    from harness.runs.store import results_root

    root, running = results_root(results), leftovers.processes()
    orphans = leftovers.orphaned_sandboxes(running)
    for process in orphans:
        leftovers.end(process)
        say(f"ended process {process.pid}: {process.command}")
    in_docker = leftovers.in_docker()
    for left in in_docker:
        if left.live:
            say(f"left alone: {left}; its run is alive")
        else:
            left.remove()
            say(f"removed {left}")
    removable = [*leftovers.stale_fetches(), *leftovers.data_directories(root, running)]
    old = leftovers.old_runs(root, runs, running) if runs is not None else []
    if old and (yes or typer.confirm(f"Remove {len(old)} runs older than {runs:g} days below {root}?")):
        removable = [*(path for path in removable if path.parent not in old), *old]
    for directory in removable:
        leftovers.remove(directory)
        say(f"removed {directory}")
    if not (orphans or removable or any(not left.live for left in in_docker)):
        say("nothing removed")


@cluster_app.command("fetch", epilog="\b\nExample:\n  fencepost cluster fetch 4.3.0")
def cluster_fetch(version: Annotated[str, typer.Argument(metavar="VERSION")]) -> None:
    """Fetch a version of Kafka into the cache (about 45 MB)."""
    from harness.plugins.registry import load

    found = load("kafka", "fetch")(version, on_progress=lambda text: say(f"  {text}"))
    say(f"Kafka {found.version}: {len(found.jars)} jars in {found.directory}")


@cluster_app.command("image", epilog=IMAGE_EXAMPLES)
def cluster_image(
    kafka: Annotated[str, typer.Option("--kafka", metavar="VERSION", help="Kafka's version.")] = "4.3.0",
    base: Annotated[str, typer.Option("--base", metavar="IMAGE", help="An image with Java 17 or newer to build on.")] = "",
) -> None:
    """Build the image that `--cluster docker` makes brokers of, where no registry has one for you.

    It holds the same jars as `local` uses. Without --base, Debian's debootstrap makes a base with Java first (as root, once).
    """
    from harness.plugins.registry import load

    made = load("docker", "image")(kafka, base, on_progress=lambda text: say(f"  {text}"))
    say(f"{made.name}: {made.id}")


@cluster_app.command("list")
def cluster_list(json_: Json = False) -> None:
    """The versions of Kafka that lie in the cache."""
    from harness.plugins.registry import load

    found = load("kafka", "installed")()
    if json_:
        say_json([{"version": one.version, "directory": str(one.directory), "jars": dict(one.jars)} for one in found])
    else:
        rows = [(one.version, str(len(one.jars)), str(one.directory)) for one in found]
        out().print(table(("version", "jars", "directory"), rows))


def _description(group: str, name: str, plug_in: Any) -> dict[str, Any]:
    from harness.plugins.registry import options
    from harness.plugins.validation import breaches

    return {
        "group": group,
        "name": name,
        "doc": inspect.getdoc(getattr(plug_in, "function", plug_in)) or "",  # a check speaks through its function
        "options": [vars(one) for one in options(plug_in)],
        "breaches": breaches(group, plug_in),
    }


def _describe(found: dict[str, Any]) -> None:
    say(f"{found['name']} ({found['group']})\n\n{found['doc']}\n")
    if found["options"]:
        rows = [(one["name"], one["type"], one["default"], one["doc"]) for one in found["options"]]
        out().print(table(("option", "type", "default", ""), rows))
    else:
        say("It has no options.")
    if found["breaches"]:
        say("\nIt cannot be used as it is:")
    for text in found["breaches"]:
        say(f"  {text}")


def _guessed(path: str) -> str:
    """The kind of plug-in behind an import path, as far as it can be told."""
    from harness.plugins.registry import load
    from harness.plugins.validation import guess

    return guess(load("import path", path)) or "import path"


def _first_line(group: str, name: str) -> str:
    """The first sentence of a plug-in, or why it cannot be loaded."""
    from harness.plugins.registry import load
    from harness.plugins.validation import breaches

    try:
        plug_in = load(group, name)
    except CampaignError as error:
        return f"cannot be used: {error}"
    if wrong := breaches(group, plug_in):
        return f"cannot be used: {'; '.join(wrong)}"
    return (inspect.getdoc(getattr(plug_in, "function", plug_in)) or "").partition("\n")[0]
