"""The table of clients and promises: the runs of many clients, k of n per client, fault profile and promise.

A promise is several anomalies. In a run it is violated when one of them is; held when one was looked for, had an occasion, and
none was found; held without occasion when none had one; and else not exercised. The interval is Wilson's, at 95 %: with 0 of 3
runs the true rate may well be a half. Cells of few runs have a mark.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.api.values import Property, Verdict

Promises = Mapping[str, Sequence[str]]  # a promise in words -> the anomalies that break it (`Judge.promises`)
ENOUGH = 5  # runs of a cell
MARK = "†"
_Z = 1.96


@dataclass
class Cell:
    """A promise of a client under a profile.

    held: how many runs held it.
    violated: how many runs violated it.
    without_occasion: how many runs held it where nothing occurred that could have broken it.
    not_exercised: how many runs did not exercise it.
    runs: the anomalies and the link to the report of each run that violated it.
    """

    held: int = 0
    violated: int = 0
    without_occasion: int = 0
    not_exercised: int = 0
    runs: list[tuple[str, str]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of runs that answered it."""
        return self.held + self.violated

    @property
    def words(self) -> str:
        """`held 0 of 5 (up to 43 %)`, `violated 2 of 5 (12 to 77 %)`, `held 3 without occasion`, `not exercised`."""
        if not self.count:
            return f"held {self.without_occasion} without occasion" if self.without_occasion else "not exercised"
        low, high = wilson(self.violated, self.count)
        if not self.violated:
            return f"held {self.held} of {self.count}{few(self.count)} (violated in at most {high:.0%})"
        return f"violated {self.violated} of {self.count}{few(self.count)} ({low:.0%} to {high:.0%})"

    @property
    def tone(self) -> str:
        """The style of its field."""
        return "bad" if self.violated else "good" if self.held else "unsure"


@dataclass
class Row:
    """A client under a profile.

    profile: the test's name without its matrix values.
    client: see `client_name`.
    protocol: the transaction protocol of the client.
    runs: how many runs there are.
    unjudged: how many of them have no verdict.
    cells: by promise.
    """

    profile: str
    client: str
    protocol: str
    runs: int = 0
    unjudged: int = 0
    cells: dict[str, Cell] = field(default_factory=dict)


def few(count: int) -> str:
    """The mark of a cell with fewer than `ENOUGH` runs, which says little."""
    return f" {MARK}" if count < ENOUGH else ""


def wilson(successes: int, count: int) -> tuple[float, float]:
    """The 95 % interval of a rate."""
    rate, square = successes / count, _Z**2 / count
    middle = rate + square / 2
    spread = _Z * math.sqrt(rate * (1 - rate) / count + square / (4 * count))
    return max(0.0, (middle - spread) / (1 + square)), min(1.0, (middle + spread) / (1 + square))


def table(runs: Iterable[Run], beside: Path, promises: Promises) -> list[Row]:
    """The rows of these runs, by profile and client; links are relative to the directory `beside`."""
    rows: dict[tuple[str, str], Row] = {}
    for run in runs:
        client = client_name(run.plan.get("client") or {})
        profile = run.test.partition("[")[0]
        cells = {promise: Cell() for promise in promises}
        row = rows.setdefault((profile, client), Row(profile, client, _protocol(run.plan.get("client") or {}), cells=cells))
        row.runs += 1
        if not run.verdict.get("properties") or run.verdict.get("verdict") not in {verdict.value for verdict in Verdict}:
            row.unjudged += 1
        else:
            _count(row, run, beside, promises)
    return [rows[key] for key in sorted(rows)]


def client_name(client: Mapping[str, Any]) -> str:
    """`java@4.3.0`, `librdkafka 2.16.0`, `kafkajs@2.2.4, read by librdkafka 2.16.0`."""
    readers = client.get("readers") or {}
    return ", read by ".join(_named(entry) for entry in (client, readers) if entry)


def _named(client: Mapping[str, Any]) -> str:
    kind, version = str(client.get("kind", "?")), str(client.get("version", ""))
    return kind if "@" in kind else f"{kind} {version}".strip()


def _protocol(client: Mapping[str, Any]) -> str:
    newest = (client.get("driver") or {}).get("transactions") if client.get("driver") else 1
    return f"TV{newest}" if newest else "-"


def _count(row: Row, run: Run, beside: Path, promises: Promises) -> None:
    answers = {str(answer.get("name")): answer.get("verdict") for answer in run.verdict.get("properties", ())}
    for promise, anomalies in promises.items():
        cell = row.cells[promise]
        broken = [name for name in anomalies if answers.get(name) == Property.VIOLATED.value]
        if broken:
            cell.violated += 1
            cell.runs.append((", ".join(broken), _link(run, beside)))
        elif Property.HELD.value in [answers.get(name) for name in anomalies]:
            cell.held += 1
        elif Property.WITHOUT_OCCASION.value in [answers.get(name) for name in anomalies]:
            cell.without_occasion += 1
        else:
            cell.not_exercised += 1


def _link(run: Run, beside: Path) -> str:
    return os.path.relpath(run.path(RunFile.REPORT), beside)


def markdown(rows: Sequence[Row], promises: Promises) -> str:
    """The table for a page of documentation."""
    head = ["faults", "client", "newest protocol", *promises]
    lines = ["".join(f"| {cell} " for cell in head) + "|", "|---" * len(head) + "|"]
    for row in rows:
        cells = [row.profile, f"`{row.client}`", row.protocol, *(_with_anomalies(row.cells[promise]) for promise in promises)]
        lines.append("".join(f"| {cell} " for cell in cells) + "|")
    return "\n".join(lines)


def _with_anomalies(cell: Cell) -> str:
    names = sorted({name for names, _ in cell.runs for name in names.split(", ")})
    return f"**{cell.words}**: {', '.join(names)}" if names else cell.words
