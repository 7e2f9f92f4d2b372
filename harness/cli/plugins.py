"""`fencepost plugins`: every plug-in, its options, and what is wrong with it."""

from __future__ import annotations

import dataclasses
import re
from typing import Annotated, Any

import typer

from fencepost.harness.api import CampaignError
from fencepost.harness.api.errors import Exit
from fencepost.harness.cli.console import Json, print_json, print_line, print_table

EXAMPLES = """\b
Examples:
  fencepost plugins
  fencepost plugins pause
  fencepost plugins my_faults:Stutter
  fencepost plugins --rules
  fencepost plugins lost-write --rules"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(epilog=EXAMPLES)(plugins)


def plugins(
    name: Annotated[str | None, typer.Argument(metavar="NAME")] = None,
    rules: Annotated[
        bool,
        typer.Option("--rules", help="When each anomaly is forbidden, what evidence it needs, which damages it must find."),
    ] = False,
    json_: Json = False,
) -> None:
    """Every plug-in by name; with NAME, what it is and its options.

    NAME may be an import path `module:Class`; the current directory is searched too. Every breach of its interface is named
    (docs/plugins.md).

    Exit codes: 0 it can be used; 254 it cannot, or there is none of that name.
    """
    from fencepost.harness.plugins.registry import GROUPS, load, names, renamed, unknown

    if rules:
        _print_rules(name, json_)
        return
    if name is None:
        by_group = {group: names(group) for group in GROUPS}
        if json_:
            print_json(by_group)
        else:
            rows = [(group, plug_in, _first_line(group, plug_in)) for group, of_group in by_group.items() for plug_in in of_group]
            print_table(("group", "name", ""), rows)
        return
    groups = [_guessed(name)] if ":" in name else [group for group in GROUPS if name in names(group)]
    if not groups:
        raise CampaignError([renamed(name) or unknown("plug-in", name, {known for group in GROUPS for known in names(group)})])
    described = [_description(group, name, load(group, name)) for group in groups]
    if json_:
        print_json(described)
    else:
        for description in described:
            _describe(description)
    if any(description["breaches"] for description in described):
        raise typer.Exit(Exit.UNUSABLE)


def _print_rules(anomaly: str | None, as_json: bool) -> None:
    """The rules of all anomalies, or of one by its name."""
    from fencepost.harness.plugins import services
    from fencepost.harness.plugins.registry import load, unknown
    from fencepost.harness.plugins.validation import breaches
    from fencepost.harness.report.rules_page import page

    own = [load("checker", anomaly)] if anomaly and ":" in anomaly else None
    if wrong := [text for check in own or () for text in breaches("checker", check)]:
        raise CampaignError(wrong)
    rows = services.judge().rules(own)
    chosen = [row for row in rows if anomaly in (None, row.anomaly) or ":" in (anomaly or "")]
    if not chosen:
        raise CampaignError([unknown("anomaly", anomaly or "", (row.anomaly for row in rows))])
    if as_json:
        print_json([dataclasses.asdict(row) for row in chosen])
    else:
        print_line(page(chosen))


def _description(group: str, name: str, plug_in: Any) -> dict[str, Any]:
    from fencepost.harness.plugins.registry import attempt, options
    from fencepost.harness.plugins.validation import breaches, flaws

    wrong = breaches(group, plug_in)
    if group == "workload" and not wrong:
        by_default, _ = attempt(plug_in, {})  # None where an option has no default: then only a campaign can ask it
        wrong = [] if by_default is None else flaws(group, by_default)

    return {
        "group": group,
        "name": name,
        "doc": _description_of(plug_in) + (_versions_of(name, plug_in) if group == "driver" else ""),
        "options": [vars(option) for option in options(getattr(plug_in, "options", None) if group == "checker" else plug_in)],
        "breaches": wrong,
    }


def _description_of(plug_in: Any) -> str:
    """The docstring, of a check its function's, without what is shown as options, or concerns nobody but its authors."""
    from fencepost.harness.plugins.registry import doc_without_options

    paragraphs = doc_without_options(plug_in).split("\n\n")
    return "\n\n".join(part for part in paragraphs if not part.startswith("Slow twin:"))


def _versions_of(name: str, family: Any) -> str:
    """The versions of a family of clients, and the commands that go on from here."""
    return (
        f"\n\nVersions: {family.versions}; `{name}` is {name}@{family.default}.\n\n"
        f"fencepost client list              what this machine can drive\n"
        f"fencepost client check {name}\n"
        f"fencepost run --client {name}@{family.default}"
    )


def _describe(description: dict[str, Any]) -> None:
    print_line(f"{description['name']} ({description['group']})\n\n{description['doc']}\n")
    if description["options"]:
        rows = [(option["name"], option["type"], option["default"], option["doc"]) for option in description["options"]]
        print_table(("option", "type", "default", ""), rows)
    else:
        print_line("It has no options.")
    if description["breaches"]:
        print_line("\nIt cannot be used as it is:")
    for text in description["breaches"]:
        print_line(f"  {text}")


def _guessed(path: str) -> str:
    """The kind of plug-in behind an import path. Raises CampaignError for what is none."""
    from fencepost.harness.plugins.registry import load
    from fencepost.harness.plugins.validation import MARKS, guess

    kind = guess(load("import path", path))
    if not kind:
        marks = "; ".join(f"a {group} has {' and '.join(names)}" for group, names in MARKS.items())
        raise CampaignError([f'"{path}" is no plug-in: {marks}; a checker is made by @partition_check or @run_check'])
    return kind


def _first_line(group: str, name: str) -> str:
    """The first sentence of a plug-in, or why it cannot be loaded."""
    from fencepost.harness.plugins.registry import load
    from fencepost.harness.plugins.validation import breaches

    try:
        plug_in = load(group, name)
    except CampaignError as error:
        return f"cannot be used: {error}"
    if wrong := breaches(group, plug_in):
        return f"cannot be used: {'; '.join(wrong)}"
    paragraph = " ".join(_description_of(plug_in).partition("\n\n")[0].split())
    return re.split(r"(?<=\.) ", paragraph, maxsplit=1)[0]
