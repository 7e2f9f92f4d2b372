"""The league of clients: recorded runs of a campaign as a table, k of n by client, test and Kafka's version.

The record is a CSV file under version control, one row per run, so that what a page publishes can be counted again. An interval
is Wilson's at 95 %; a cell of few runs has a mark (`client_table.few`).
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from io import StringIO
from pathlib import Path

from fencepost.harness.api import CampaignError
from fencepost.harness.api.beneath import write_text
from fencepost.harness.api.files import limited
from fencepost.harness.api.run import Run
from fencepost.harness.api.values import Property, Verdict
from fencepost.harness.page_text import shortened
from fencepost.harness.report.client_table import client_name, few, wilson
from fencepost.harness.visible_text import visible


@dataclass(frozen=True, order=True)
class RecordedRun:
    """A run in the record; all are texts.

    kafka: the brokers' version.
    test: its name without matrix values.
    client: see `client_name`.
    date: of its plan.
    run: its id, by which it is known; empty where its directory was not kept.
    seed: of its plan.
    seconds: how long the workload ran.
    verdict: valid, invalid or unknown.
    violated: the properties that are violated, separated by spaces.
    """

    kafka: str
    test: str
    client: str
    date: str
    run: str
    seed: str
    seconds: str
    verdict: str
    violated: str


COLUMNS = tuple(one.name for one in fields(RecordedRun))
MOST_BYTES = 64 << 20  # of a record: half a million runs
MOST_LETTERS = 200  # of a text in the table
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?([eE][+-]?[0-9]{1,2})?")
_PART = re.compile("[0-9]{1,9}")  # of a version


def recorded(run: Run) -> RecordedRun | None:
    """The row of a run, None for one without a verdict."""
    plan, verdict = run.plan, run.verdict
    if verdict.get("verdict") not in {one.value for one in Verdict}:
        return None
    answers = verdict.get("properties", ())
    return RecordedRun(
        str((plan.get("cluster", {}).get("description") or {}).get("kafka", "?")),
        run.test.partition("[")[0],
        client_name(plan.get("client") or {}),
        str(plan.get("created", ""))[:10],
        str(plan.get("run", "")),
        str(plan.get("seed", "")),
        f"{float(plan.get('time_s', 0)):g}",
        str(verdict["verdict"]),
        " ".join(sorted(str(one["name"]) for one in answers if one.get("verdict") == Property.VIOLATED.value)),
    )


def read(path: Path) -> list[RecordedRun]:
    """The rows of a record. Raises CampaignError for a file that is none."""
    try:
        lines = list(csv.reader(StringIO(limited(path, MOST_BYTES).decode())))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CampaignError([f"{path}: cannot be read: {error}"]) from error
    if not lines or tuple(lines[0]) != COLUMNS:
        raise CampaignError([f"{path}: its first line is not {','.join(COLUMNS)}"])
    for number, line in enumerate(lines[1:], 2):
        if len(line) != len(COLUMNS) or line[COLUMNS.index("verdict")] not in {one.value for one in Verdict}:
            raise CampaignError([f"{path}, line {number}: not {len(COLUMNS)} columns with a verdict: {','.join(line)[:80]}"])
        if not _SECONDS.fullmatch(seconds := line[COLUMNS.index("seconds")]):
            raise CampaignError([f"{path}, line {number}: its seconds are no number: {seconds[:80]}"])
    return [RecordedRun(*line) for line in lines[1:]]


def record(path: Path, runs: Iterable[Run]) -> tuple[int, int]:
    """Add the runs that a record does not have yet, with their newest verdict those that it has, and write it in its order; the
    numbers of new ones, and of all.
    """
    rows = read(path) if path.exists() else []
    known = {(row.date, row.run) for row in rows}
    given = {(row.date, row.run): row for run in runs if (row := recorded(run)) and row.run}  # of old runs only a row is left
    every = sorted([*(row for row in rows if (row.date, row.run) not in given), *given.values()])
    out = StringIO()
    csv.writer(out, lineterminator="\n").writerows([COLUMNS, *map(astuple, every)])
    write_text(path.parent, path.name, out.getvalue())
    return len(given.keys() - known), len(every)


def cell(rows: Sequence[RecordedRun]) -> str:
    """`valid 5 of 5 (violated in at most 43 %)`, `**invalid 2 of 2** † (34 to 100 %): reprocessed 2`, `-` without runs."""
    decided = [row for row in rows if row.verdict != Verdict.UNKNOWN.value]
    bad, count = [row for row in decided if row.verdict == Verdict.INVALID.value], len(decided)
    unknown = f"unknown {len(rows) - count}" if len(rows) > count else ""
    if not count:
        return unknown or "-"
    low, high = wilson(len(bad), count)
    mark = few(count)
    names = Counter(name for row in bad for name in row.violated.split())
    if bad:
        listed = ", ".join(f"{_plain(name)} {number}" for name, number in sorted(names.items()))
        text = f"**invalid {len(bad)} of {count}**{mark} ({low:.0%} to {high:.0%}): {listed}"
    else:
        text = f"valid {count} of {count}{mark} (violated in at most {high:.0%})"
    return "; ".join(filter(None, (text, unknown)))


def markdown(rows: Sequence[RecordedRun]) -> str:
    """A table for each version of Kafka, the newest last: a row for each client, a column for each test."""
    parts = []
    for kafka in sorted({row.kafka for row in rows}, key=_numbers):
        here = [row for row in rows if row.kafka == kafka]
        tests = sorted({row.test for row in here})
        lines = ["".join(f"| {name} " for name in ("client", *map(_plain, tests))) + "|", "|---" * (len(tests) + 1) + "|"]
        for client in sorted({row.client for row in here}):
            cells = [cell([row for row in here if (row.client, row.test) == (client, test)]) for test in tests]
            lines.append("".join(f"| {one} " for one in (f"`{_plain(client)}`", *cells)) + "|")
        parts.append(f"**Kafka {_plain(kafka)}**, {_performed(here)}:\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def _performed(rows: Sequence[RecordedRun]) -> str:
    dates, seconds = sorted({row.date for row in rows}), sorted({float(row.seconds) for row in rows})
    when = " to ".join(_plain(date) for date in dict.fromkeys((dates[0], dates[-1])))
    long = f"{seconds[0]:g} s" if len(seconds) == 1 else f"{seconds[0]:g} to {seconds[-1]:g} s"
    return f"{len(rows)} run{'s' if len(rows) > 1 else ''} of {long}, {when}"


def _plain(text: str) -> str:
    """A text of the record in a line of a Markdown table, with no markup of its own."""
    line = " ".join(visible(shortened(text, MOST_LETTERS)).split())
    return line.replace("`", "'").replace("|", "/").replace("<", "&lt;")


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if _PART.fullmatch(part)]
