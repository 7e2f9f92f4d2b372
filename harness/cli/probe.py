"""`fencepost probe`: the answers of a cluster's brokers to single requests, compared with KIP-98."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.harness.api import CampaignError
from fencepost.harness.cli.console import Json, Texts, demand_no_folder, err, pairs, print_json, print_line, print_table

if TYPE_CHECKING:
    from fencepost.harness.api.services import ProbeRow

EXAMPLES = """\b
Examples:
  fencepost probe
  fencepost probe --cluster-set kafka=3.9.1 --profile tv1
  fencepost probe --cluster external --cluster-set bootstrap=broker:9092 --file answers.md
  fencepost probe --cluster-set 'features={"transaction.version" = 1}' --json"""
CODES = """Exit codes: 0 no answer violates its row; 1 one does; 2 no situation was reached; 254 a cluster or a profile
that cannot be used; 255 fencepost itself broke."""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(
        "probe",
        help="Ask a cluster's transaction coordinators, and the leaders of partitions, one request after the other, and compare"
        f" each answer with KIP-98 (docs/probe.md). The requests are sent without any client library.\n\n{CODES}",
        epilog=EXAMPLES,
    )(probe)


def probe(
    cluster: Annotated[str, typer.Option("--cluster", help="Where brokers live.")] = "local",
    cluster_set: Annotated[Texts, pairs("--cluster-set", "An option of the cluster.")] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option("--profile", metavar="NAME", help="Versions of requests: first, tv1, tv2; may be repeated. Default: all."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Write the table to this file too: .md as a page, else as JSON.")
    ] = None,
    json_: Json = False,
) -> None:
    from fencepost.harness.api.beneath import write_json, write_text
    from fencepost.harness.api.plans import Choice
    from fencepost.harness.cli.option_texts import cluster_of
    from fencepost.harness.conformance import probe_kit
    from fencepost.harness.conformance.probe_page import markdown
    from fencepost.harness.plugins.registry import make_importable

    if file and not file.absolute().parent.is_dir():
        raise CampaignError([f"--file {file}: there is no directory {file.absolute().parent}"])
    demand_no_folder("--file", file)
    make_importable([Path.cwd()])
    options = cluster_of(None, cluster_set or ())
    version, rows = probe_kit.probe(Choice(kind=cluster, options=options), profile or (), _progress)
    code = probe_kit.exit_code(rows)
    document = {**_document(cluster, version, rows, int(code)), "features": options.get("features", {})}
    if json_:
        print_json(document)
    else:
        _show(version, rows)
    if file and file.suffix == ".md":
        write_text(file.absolute().parent, file.name, markdown({version: rows}))
    elif file:
        write_json(file.absolute().parent, file.name, document)
    raise typer.Exit(code)


def _progress(event: Mapping[str, Any]) -> None:
    """Print progress to standard error."""
    if event["event"] == "phase":
        err().print(event["text"])
    elif event["event"] == "row":
        row = event["row"]
        err().print(f"{row['profile']}: {row['number']}: {row['result']}")


def _show(version: str, rows: Sequence[ProbeRow]) -> None:
    for profile in dict.fromkeys(row.profile for row in rows):
        own = [row for row in rows if row.profile == profile]
        if reason := unsent(own):
            print_line(f"Kafka {version}, {profile}: not sent, for {reason}\n")
            continue
        print_line(f"Kafka {version}, {profile}")
        shown = [(row.result.value, row.number, row.situation, row.demanded, row.answer or "-", row.reason) for row in own]
        print_table(("", "answer", "situation", "demanded", "answered", "why"), shown)
        counts = Counter(row.result.value for row in own)
        print_line(", ".join(f"{count} {word}" for word, count in counts.items()) + "\n")


def unsent(rows: Sequence[ProbeRow]) -> str:
    """The reason why no request of a profile could be sent; empty when any could."""
    reasons = {row.reason if row.result.value == "not reached" else "" for row in rows}
    return reasons.pop() if len(reasons) == 1 else ""


def _document(cluster: str, version: str, rows: Sequence[ProbeRow], code: int) -> dict[str, Any]:
    shown = [{**asdict(row), "result": row.result.value} for row in rows]
    return {"cluster": cluster, "kafka": version, "rows": shown, "exit": code}
