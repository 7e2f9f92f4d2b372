"""`fencepost list`: the runs in the results folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.harness.api import CampaignError
from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.api.verdict_document import judgement_terms
from fencepost.harness.api.words import plural
from fencepost.harness.cli import completions
from fencepost.harness.cli.console import Json, Results, Texts, err, print_json, print_line, print_table
from fencepost.harness.visible_text import visible

if TYPE_CHECKING:
    from fencepost.harness.memory.rows import FindingRow, RunRow
    from fencepost.harness.memory.standing import History

EXAMPLES = """\b
Examples:
  fencepost list --red
  fencepost list --red --since 7d --campaign nightly
  fencepost list --test torn --anomaly lost-write --json"""
_AGE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(h|d|w)")
_HOURS = {"h": 1.0, "d": 24.0, "w": 168.0}
_STAMP = re.compile(r"(\d{8}T\d{6}Z)-.*")


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("list", epilog=EXAMPLES)(list_runs)


def list_runs(
    red: Annotated[
        bool, typer.Option("--red", help="Only runs that somebody has to look at: not as expected, not decided, not judged.")
    ] = False,
    test: Annotated[
        Texts,
        typer.Option(
            "--test",
            metavar="NAME",
            help="Only runs of this test, or of all tests of this matrix.",
            autocompletion=completions.of_runs("test"),
        ),
    ] = None,
    campaign: Annotated[
        Texts,
        typer.Option(
            "--campaign", metavar="NAME", help="Only runs of this campaign.", autocompletion=completions.of_runs("campaign")
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="TIME", help="Only runs since then: 2026-11-20, 2026-11-20T19:00, or 12h, 7d, 2w ago (UTC)."
        ),
    ] = None,
    anomaly: Annotated[
        Texts,
        typer.Option(
            "--anomaly",
            metavar="NAME",
            help="Only runs in which it was found against the contract.",
            autocompletion=completions.of_runs("anomalies"),
        ),
    ] = None,
    results: Results = None,
    json_: Json = False,
) -> None:
    """Every run that lies in the results, with its verdict; the newest last.

    An option that is given several times asks for any of its values. With --red the causes stand below the table: the first
    finding of each fingerprint, and on how many rounds it was seen.
    """
    from fencepost.harness.history import results_folder
    from fencepost.harness.memory import index
    from fencepost.harness.memory.standing import histories
    from fencepost.harness.runs.store import results_root

    root = results_root(results)
    wanted = Wanted(red, tuple(test or ()), tuple(campaign or ()), since_time(since), tuple(anomaly or ()))
    held = index.indexed(root, lambda sentence: err().print(sentence, soft_wrap=True))
    rows = [row for row in held.rows if not row.damaged]
    shown = [row for row in rows if wanted.takes(row)]
    unlisted = [sentence for row in shown if (sentence := _unlisted(root / row.place))]
    damaged = sorted([row.damaged for row in held.rows if row.damaged] + unlisted)
    for sentence in [*filter(None, [held.note]), *damaged, *results_folder.unreadable(root), *wanted.unknown(rows)]:
        err().print(sentence, soft_wrap=True)
    past = histories(rows) if red or json_ else {}
    if json_:
        print_json([_document(row, root, past) for row in shown])
    elif not shown:
        print_line(
            f"none of the {plural(len(rows), 'run')} below {root} matches the options" if rows else f"no runs below {root}"
        )
    else:
        _print_runs(shown, root)
        _print_causes(shown if red else (), past)


# --------------------------------------------------------------------------------------------------
# Choice
# --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Wanted:
    """The runs that are asked for."""

    red: bool = False
    tests: tuple[str, ...] = ()
    campaigns: tuple[str, ...] = ()
    since: datetime | None = None
    anomalies: tuple[str, ...] = ()

    def takes(self, row: RunRow) -> bool:
        """Return whether a run is among them."""
        return (
            (row.red or not self.red)
            and (not self.tests or any(_is_of(row.test, name) for name in self.tests))
            and (not self.campaigns or row.campaign in self.campaigns)
            and (self.since is None or planned_at(row) >= self.since)
            and (not self.anomalies or bool(set(self.anomalies) & set(row.anomalies)))
        )

    def unknown(self, rows: Iterable[RunRow]) -> list[str]:
        """A sentence on each test and campaign of which there is no run."""
        from fencepost.harness.plugins.registry import unknown

        of = list(rows)
        tests, campaigns = {row.test for row in of}, {row.campaign for row in of if row.campaign}
        lost = [unknown("test", name, tests) for name in self.tests if not any(_is_of(test, name) for test in tests)]
        return lost + [unknown("campaign", name, campaigns) for name in self.campaigns if name not in campaigns]


def _is_of(test: str, name: str) -> bool:
    return test == name or test.startswith(f"{name}[")


def since_time(text: str | None, now: datetime | None = None) -> datetime | None:
    """The moment that `--since` names. Raises CampaignError for what is none."""
    if text is None:
        return None
    if ago := _AGE.fullmatch(text.strip()):
        now = now or datetime.now(timezone.utc)
        hours = min(float(ago[1]) * _HOURS[ago[2]], (now - datetime.min.replace(tzinfo=timezone.utc)) / timedelta(hours=1))
        return now - timedelta(hours=hours)
    try:
        return _utc(text.strip())
    except ValueError:
        raise CampaignError([f'--since "{text}": no time; write 2026-11-20, 2026-11-20T19:00, or 12h, 7d, 2w ago']) from None


def planned_at(row: RunRow) -> datetime:
    """The moment when a run was planned; by its directory's name where the plan has none, and the beginning of time without."""
    stamp = _STAMP.fullmatch(row.place.rpartition("/")[2])
    for text in (row.created, stamp[1] if stamp else ""):
        try:
            return _utc(text)
        except ValueError:
            continue
    return datetime.min.replace(tzinfo=timezone.utc)


def _utc(text: str) -> datetime:
    """A moment in ISO 8601, in UTC where it does not say. Raises ValueError."""
    stamp = re.fullmatch(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z", text)
    moment = datetime.fromisoformat("{}-{}-{}T{}:{}:{}+00:00".format(*stamp.groups()) if stamp else text.replace("Z", "+00:00"))
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


# --------------------------------------------------------------------------------------------------
# Output
# --------------------------------------------------------------------------------------------------
def _print_runs(rows: Sequence[RunRow], root: Path) -> None:
    lines = [line for row in rows for line in _lines(row, root)]
    head = ("run", "campaign", "test", "created", "verdict", "anomalies", "path")
    print_table(head, [[visible(text, unescaped="") for text in line] for line in lines])


def _print_causes(rows: Iterable[RunRow], past: Mapping[str, History]) -> None:
    for row in rows:
        for text in _causes(row, past):
            print_line(f"{visible(row.run, unescaped='')}: {visible(text, unescaped='')}")


def _lines(row: RunRow, root: Path) -> list[tuple[str, ...]]:
    """A run, and below it its other judgements."""
    others = [
        (row.run, "", f"judged by {judgement_terms(judgement.verdict) or '?'}", "", _outcome(judgement), "", "")
        for judgement in _judgements(root / row.place)
    ]
    own = (row.run, row.campaign, row.test, row.created, row.outcome, ", ".join(row.anomalies), str(root / row.place))
    return [own, *others]


def _causes(row: RunRow, past: Mapping[str, History]) -> list[str]:
    """The causes that make a run red: the first unexpected finding of each fingerprint, or else the verdict's reason."""
    findings = [finding for finding in row.findings if finding.anomaly in row.unexpected]
    if not findings:
        return [text for text in (row.expectation or row.reason or row.outcome, *row.problems) if text]
    return [
        f"{finding.anomaly}, fingerprint {finding.fingerprint}, {past[finding.fingerprint]}: {finding.sentence}"
        for finding in findings
    ]


def _finding(finding: FindingRow, past: Mapping[str, History]) -> dict[str, Any]:
    document = {"id": finding.id, "anomaly": finding.anomaly, "fingerprint": finding.fingerprint, "count": finding.count}
    over = past[finding.fingerprint]
    seen = {"standing": over.standing.value, "seen": over.seen, "rounds": over.rounds, "since": over.since}
    return {**document, "sentence": finding.sentence, **seen}


def _document(row: RunRow, root: Path, past: Mapping[str, History]) -> dict[str, Any]:
    """A run as `--json` shows it; `verdict` is empty while there is none. problems: sentences about files that cannot be read."""
    return {
        "directory": root / row.place,
        "id": row.run,
        "campaign": row.campaign,
        "test": row.test,
        "round": row.round,
        "created": row.created,
        "seed": row.seed,
        "verdict": row.verdict,
        "expectation_met": row.met,
        "red": row.red,
        "known": row.known,
        "anomalies": row.anomalies,
        "findings": [_finding(finding, past) for finding in row.findings],
        "problems": row.problems,
        "judgements": [_judgement(judgement) for judgement in _judgements(root / row.place)],
    }


def _judgement(run: Run) -> dict[str, Any]:
    """Another judgement of a run, as `--json` shows it."""
    return {
        "directory": run.path(RunFile.VERDICT).parent,
        **(run.verdict.get("judged_by") or {}),
        "verdict": str(run.verdict.get("verdict", "")),
        "expectation_met": run.verdict.get("expectation_met"),
        "problems": [str(problem) for problem in run.problems.values() if not problem.missing],
    }


def _judgements(directory: Path) -> list[Run]:
    """The other judgements of a run; few runs have any, so that they are read every time."""
    if not os.path.lexists(directory / RunFile.JUDGEMENTS):
        return []
    from fencepost.harness.history.run_directory import open_run
    from fencepost.harness.runs.judgements import judgements

    return judgements(open_run(directory))


def _unlisted(directory: Path) -> str:
    """The reason why not all judgements of a run are listed."""
    if not os.path.lexists(directory / RunFile.JUDGEMENTS):
        return ""
    from fencepost.harness.history.run_directory import open_run
    from fencepost.harness.runs.judgements import unlisted

    return unlisted(open_run(directory))


def _outcome(run: Run) -> str:
    from fencepost.harness.memory.rows import outcome

    return outcome(run)
