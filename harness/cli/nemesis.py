"""`fencepost nemesis check`: the conformance kit for faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.harness.api import CampaignError
from fencepost.harness.api.bounds import MOST_EXACT
from fencepost.harness.api.errors import Exit
from fencepost.harness.api.plans import Choice
from fencepost.harness.cli.console import Texts, demand_no_folder, err, pairs, print_line, print_table

if TYPE_CHECKING:
    from fencepost.harness.conformance.kit import FaultResult

EXAMPLES = """\b
Examples:
  fencepost nemesis check slow_disk:SlowDisk
  fencepost nemesis check kill,target=leader pause --cluster docker
  fencepost nemesis check my_faults:SlowDisk --json slow-disk.json --seed 7
  fencepost nemesis check my_faults:SlowDisk --story effect --story heal"""
CHECK_CODES = """Exit codes: 0 every story passed; 1 one failed; 2 none failed, but one could not be played, or its effect not be
observed here; 254 a fault, a cluster or a story that cannot be used; 255 fencepost itself broke."""

nemesis_app = typer.Typer(help="For authors of faults.", no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.add_typer(nemesis_app, name="nemesis")


@nemesis_app.callback()
def _root() -> None:
    """For authors of faults."""


@nemesis_app.command(
    "check",
    help="Put faults through every story of a fault's life on a real cluster: it strikes, its effect is seen by others, it heals,"
    f" the harness dies meanwhile, ... (docs/plugin-faults.md).\n\n{CHECK_CODES}",
    epilog=EXAMPLES,
)
def check(
    faults: Annotated[
        list[str], typer.Argument(metavar="KIND[,KEY=VALUE...]...", help="A fault's name, or its import path `module:Class`.")
    ],
    cluster: Annotated[str, typer.Option("--cluster", help="Where brokers live.")] = "local",
    cluster_set: Annotated[Texts, pairs("--cluster-set", "An option of the cluster.")] = None,
    story: Annotated[
        list[str] | None, typer.Option("--story", metavar="NAME", help="Play this story only; may be repeated. Default: all.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=MOST_EXACT, help="What the faults draw from.")] = 1,
    json_: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the answers to this file as well.")] = None,
) -> None:
    from fencepost.harness.api.beneath import write_json
    from fencepost.harness.cli.option_texts import cluster_of, faults_of
    from fencepost.harness.conformance.kit import ConformanceCheck
    from fencepost.harness.plugins.registry import make_importable

    if json_ and not json_.absolute().parent.is_dir():
        raise CampaignError([f"--json {json_}: there is no directory {json_.absolute().parent}"])
    demand_no_folder("--json", json_)
    make_importable([Path.cwd()])
    options = cluster_of(None, cluster_set or ())
    kit = ConformanceCheck(faults_of(faults), Choice(kind=cluster, options=options), seed, _progress, story or ())
    checked = kit.run()
    for fault_result in checked:
        _show(fault_result)
    print_line(_markdown(checked, cluster))
    if json_:
        write_json(json_.parent, json_.name, [_document(fault_result, cluster) for fault_result in checked])
    codes = [exit_of(fault_result) for fault_result in checked]
    raise typer.Exit(Exit.INVALID if Exit.INVALID in codes else max(codes))


def exit_of(checked: FaultResult) -> Exit:
    """The exit code of one fault's stories."""
    from fencepost.harness.conformance.results import exit_code

    return exit_code(checked.stories)


def _progress(event: Mapping[str, Any]) -> None:
    """Print progress to standard error."""
    from fencepost.harness.conformance.results import StoryResult, mark

    if event["event"] == "phase":
        err().print(event["text"])
    elif event["event"] == "story":
        err().print(f"{event['kind']}: {event['result']['story']} {mark(StoryResult(**event['result']))}")


def _show(checked: FaultResult) -> None:
    from fencepost.harness.conformance.results import FAILED, NOT_OBSERVABLE, NOT_PLAYED, PASSED, counted

    words = {PASSED: "ok", FAILED: "FAILED", NOT_OBSERVABLE: "not observable", NOT_PLAYED: "-"}
    print_line(f"{checked.kind}\n")
    rows = [
        (
            words[result.outcome],
            result.story,
            result.seen + (f"\n-> {result.change}" if result.change else ""),
        )
        for result in checked.stories
    ]
    print_table(("", "story", "what was seen, and what to change"), rows)
    print_line(f"{counted(checked.stories)}\n")


def _markdown(checked: Sequence[FaultResult], cluster: str) -> str:
    from fencepost.harness.conformance.results import markdown

    return "\n".join(markdown(fault_result.kind, cluster, fault_result.version, fault_result.stories) for fault_result in checked)


def _document(checked: FaultResult, cluster: str) -> dict[str, Any]:
    stories = [{**vars(result), "outcome": result.outcome} for result in checked.stories]
    return {"fault": checked.kind, "cluster": cluster, "kafka": checked.version, "exit": exit_of(checked), "stories": stories}
