"""The commands for authors of plug-ins: a new one from an example, and the conformance kit for faults."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.api import Choice, Exit
from harness.cli.console import Texts, err, out, pairs, say, table

if TYPE_CHECKING:
    from harness.conformance.kit import Checked

CHECK_EXAMPLES = """\b
Examples:
  fencepost nemesis check my_faults:SlowDisk
  fencepost nemesis check kill,target=leader pause --cluster docker
  fencepost nemesis check my_faults:SlowDisk --json slow-disk.json --seed 7"""
NEW_EXAMPLES = "\b\nExamples:\n  fencepost new nemesis slow_disk\n  fencepost new checker no_gaps --dir checks"
CHECK_CODES = """Exit codes: 0 every story passed; 1 one failed; 2 none failed, but one could not be played or shown here;
254 a fault or a cluster that cannot be used, nothing was started; 255 the harness broke."""

nemesis_app = typer.Typer(help="For authors of faults.", no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add these commands to `app`."""
    app.add_typer(nemesis_app, name="nemesis")
    app.command(epilog=NEW_EXAMPLES)(new)


@nemesis_app.callback()
def _root() -> None:
    """For authors of faults."""


@nemesis_app.command(
    "check",
    help="Put faults through every story of a fault's life on a real cluster: it strikes, its effect is seen by others, it heals,"
    f" the harness dies meanwhile, ... (docs/plugins.md).\n\n{CHECK_CODES}",
    epilog=CHECK_EXAMPLES,
)
def check(
    faults: Annotated[
        list[str], typer.Argument(metavar="KIND[,KEY=VALUE...]...", help="A fault's name, or its import path `module:Class`.")
    ],
    cluster: Annotated[str, typer.Option("--cluster", help="Where brokers live.")] = "local",
    cluster_set: Annotated[Texts, pairs("--cluster-set", "An option of the cluster.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="What the faults draw from.")] = 1,
    json_: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the answers to this file as well.")] = None,
) -> None:
    from harness.cli.arguments import cluster_of, faults_of
    from harness.conformance.kit import Check
    from harness.plugins.registry import make_importable
    from harness.runs.store import write_json

    make_importable([Path.cwd()])
    options = cluster_of(None, cluster_set or ())
    kit = Check(faults_of(faults), Choice(kind=cluster, options=options), seed, _progress)
    with _interruptible():
        checked = kit.run()
    for one in checked:
        _show(one)
    say(_markdown(checked, cluster))
    if json_:
        write_json(json_, [_document(one, cluster) for one in checked])
    codes = [exit_of(one) for one in checked]
    raise typer.Exit(Exit.INVALID if Exit.INVALID in codes else max(codes))


class Kind(str, Enum):
    """What can be written anew."""

    NEMESIS, WORKLOAD, CHECKER, CLUSTER = "nemesis", "workload", "checker", "cluster"


def new(
    kind: Annotated[Kind, typer.Argument(help="What it is to be.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, like slow_disk; it becomes a module NAME.py.")],
    directory: Annotated[Path, typer.Option("--dir", help="Where to.")] = Path(),
) -> None:
    """Write a plug-in that works at once, and its test. What is there already is never overwritten (docs/plugins.md).

    Exit codes: 0 written; 254 a name or a place that cannot be used, nothing was written.
    """
    from harness.plugins import scaffold

    files, commands = scaffold.new(kind.value, name, directory)
    for path in files:
        say(f"wrote {path}")
    say("\nTry:")
    for command in commands:
        say(f"  {command}")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Being terminated ends the block like Ctrl-C, so that it tidies up."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def exit_of(checked: Checked) -> Exit:
    """The exit code of one fault's stories."""
    from harness.conformance.results import exit_code

    return exit_code(checked.told)


def _progress(event: Mapping[str, Any]) -> None:
    """What is going on, on standard error."""
    from harness.conformance.results import mark

    if event["event"] == "phase":
        err().print(event["text"])
    elif event["event"] == "told":
        err().print(f"{event['kind']}: {event['told']['story']} {mark(event['told']['ok'])}")


def _show(checked: Checked) -> None:
    words = {True: "ok", False: "FAILED", None: "-"}
    say(f"{checked.kind}\n")
    rows = [(words[one.ok], one.story, one.seen + (f"\n-> {one.change}" if one.change else "")) for one in checked.told]
    out().print(table(("", "story", "what was seen, and what to change"), rows))
    say()


def _markdown(checked: Sequence[Checked], cluster: str) -> str:
    from harness.conformance.results import markdown

    return "\n".join(markdown(one.kind, cluster, one.version, one.told) for one in checked)


def _document(checked: Checked, cluster: str) -> dict[str, Any]:
    stories = [vars(told) for told in checked.told]
    return {"fault": checked.kind, "cluster": cluster, "kafka": checked.version, "exit": exit_of(checked), "stories": stories}
