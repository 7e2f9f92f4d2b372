"""`fencepost show`: the verdict of a run and its incidents, or the card of a finding."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.harness.api import CampaignError
from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.api.words import plural
from fencepost.harness.cli import completions
from fencepost.harness.cli.console import Json, Results, RunArgument, out, print_json, print_line
from fencepost.harness.secrets import mask

if TYPE_CHECKING:
    from fencepost.harness.report.card_text import Line
    from fencepost.harness.report.documents import ReportData
    from fencepost.harness.report.incident_card import Card
    from fencepost.harness.report.incidents import Incident

EXAMPLES = (
    "\b\nExamples:\n"
    "  fencepost show latest            # the verdict, why, and a line for each incident\n"
    "  fencepost show latest 1          # what proves finding 1, and what surrounds it"
)
FINDING_HELP = "The number of a finding: its card, with all findings of the same cause."
_DRAWN = ("drawing", "cycles")


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(epilog=EXAMPLES)(show)


def show(
    run: RunArgument,
    finding: Annotated[
        int | None,
        typer.Argument(help=FINDING_HELP, autocompletion=completions.findings, show_default=False),
    ] = None,
    results: Results = None,
    json_: Json = False,
) -> None:
    """Show a run's verdict and incidents, or a finding's card. RUN may also be the directory of another judgement of the run."""
    from fencepost.harness.system.blas import import_numpy_without_threads
    from fencepost.harness.system.deferred_pandas import defer_pandas

    import_numpy_without_threads()
    defer_pandas()  # before Arrow's tables are imported, which ask for it
    from fencepost.harness.report.documents import read
    from fencepost.harness.runs.judgements import judgement_at
    from fencepost.harness.runs.store import find, results_root
    from fencepost.harness.system import liveness

    judged = judgement_at(Path(run)) or find(results_root(results), run)
    with liveness.hold(judged.directory):
        data = read(judged)
        if finding is None:
            _show_run(judged, data, json_)
        else:
            _show_card(_card(judged, data, finding), json_)


def _card(run: Run, data: ReportData, finding: int) -> Card:
    """Raises CampaignError for a number that no finding of the verdict has."""
    from fencepost.harness.report.panels.findings import card_of

    card = card_of(data, finding)
    if card is None:
        numbers = sorted(each.get("id", 0) for each in run.verdict.get("findings") or ())
        there = f"its verdict has findings {numbers[0]} to {numbers[-1]}" if numbers else "its verdict has no finding"
        raise CampaignError([f"{run} has no finding {finding}: {there}; anomalies.parquet has those of which there are too many"])
    return card


def _show_card(card: Card, json_: bool) -> None:
    from fencepost.harness.report.card_text import lines

    if json_:
        print_json({key: value for key, value in dataclasses.asdict(card).items() if key not in _DRAWN})
    else:
        _print(lines(card))


def _show_run(run: Run, data: ReportData, json_: bool) -> None:
    from fencepost.harness.report.incident_material import incidents_of

    all_incidents = incidents_of(data)
    if json_:
        print_json(_document(run, all_incidents))
    else:
        _print(_lines(run, data, all_incidents))


def _document(run: Run, all_incidents: Sequence[Incident]) -> dict[str, Any]:
    """A run as `--json` shows it."""
    words = ("verdict", "reason", "expect", "expectation_met", "expectation", "shortfalls", "weakened")
    same = ("id", "anomaly", "sentence", "time", "operations", "faults")
    incidents = [
        {"accused": [dataclasses.asdict(each) for each in incident.accused]}
        | {"findings": [{name: finding.get(name) for name in same} for finding in incident.findings]}
        for incident in all_incidents
    ]
    return {
        "directory": run.directory,
        "id": run.id,
        "campaign": run.campaign,
        "test": run.test,
        "created": run.created,
        **{name: run.verdict.get(name) for name in words},
        "incidents": incidents,
        "report": run.path(RunFile.REPORT),
        "command": run.plan.get("command", ""),
    }


def _lines(run: Run, data: ReportData, all_incidents: Sequence[Incident]) -> list[Line]:
    from fencepost.harness.memory.rows import outcome

    verdict = run.verdict
    made: list[Line] = [("", f"{run.test or run.id}: {outcome(run)}")]
    made += [("  ", text) for text in dict.fromkeys(str(verdict[key]) for key in ("reason", "expectation") if verdict.get(key))]
    made += [("  ", f"weaker than it looks: {why}") for why in verdict.get("weakened") or ()]
    made += [("", ""), *(line for incident in all_incidents for line in _incident(data, incident))] if all_incidents else []
    if permitted := Counter(
        each.get("anomaly", "?") for each in verdict.get("findings") or () if not each.get("forbidden", True)
    ):
        names = ", ".join(f"{name} ({count:,})" for name, count in permitted.items())
        made += [
            ("", ""),
            ("", f"{plural(permitted.total(), 'finding')} that the settings permit, and that decide nothing: {names}"),
        ]
    made += [("", "")]
    made += [("", f"report: {run.path(RunFile.REPORT)}")] if run.path(RunFile.REPORT).is_file() else []
    made += [("", f"card:   fencepost show {run.id} {all_incidents[0].id}")] if all_incidents else []
    made += [("", f"again:  {run.plan['command']}")] if run.plan.get("command") else []
    return made


def _incident(data: ReportData, incident: Incident) -> list[Line]:
    """The sentence of its first finding; of the others their numbers and anomalies."""
    from fencepost.harness.page_text import at

    first, *others = incident.findings
    head = f"{incident.id:>5}  {at(incident.time, data.origin_ns):>10}  "
    also = ", ".join(f"{each.get('anomaly', '?')} ({each.get('id')})" for each in others)
    words = f"{first.get('anomaly', '?')}: {first.get('sentence', '')}"
    return [(head, f"{words} With it: {also}." if also else words)]


def _print(some: Sequence[Line]) -> None:
    """Lines that fold at the width of a terminal, and nowhere else."""
    from fencepost.harness.report.card_text import folded

    width = out().width if out().is_terminal else None
    for line in folded([(mask(head), mask(text)) for head, text in some], width):
        print_line(line)
