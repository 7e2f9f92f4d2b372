"""The standing of a fingerprint over the rounds of a campaign: new, known since a day, or gone.

A *round* is one performance of a campaign (`RunRow.round`). Only rounds count in which a test was judged that has shown the
fingerprint in some round: a round without that test says nothing about it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from fencepost.harness.memory.rows import RunRow


class Standing(str, Enum):
    """NEW: in the latest round for the first time. KNOWN: in it, and in an earlier one. GONE: in earlier ones alone."""

    NEW = "new"
    KNOWN = "known"
    GONE = "gone"


@dataclass(frozen=True)
class History:
    """A fingerprint over the rounds.

    seen: how many rounds have it. rounds: of how many.
    since: the day of the first run that has it, ISO 8601. last: that of the last one.
    """

    fingerprint: str
    standing: Standing
    seen: int
    rounds: int
    since: str
    last: str

    def __str__(self) -> str:
        if self.standing is Standing.NEW:
            return "new" if self.rounds > 1 else "new: there is no earlier round"
        counted = f"on {self.seen} of {self.rounds} rounds, since {self.since}"
        return f"known ({counted})" if self.standing is Standing.KNOWN else f"gone ({counted}; last seen {self.last})"


def histories(rows: Iterable[RunRow]) -> dict[str, History]:
    """Every fingerprint in these runs, by the run that first has it."""
    ordered = sorted((row for row in rows if row.verdict), key=lambda row: (row.created, row.place))
    shown: dict[str, list[RunRow]] = defaultdict(list)
    of_test: dict[tuple[str, str], list[RunRow]] = defaultdict(list)
    for row in ordered:
        of_test[_test(row)].append(row)
        for fingerprint in {finding.fingerprint for finding in row.findings}:
            shown[fingerprint].append(row)
    rounds = {test: _rounds(some) for test, some in of_test.items()}
    return {fingerprint: _history(fingerprint, some, rounds) for fingerprint, some in shown.items()}


def history(fingerprint: str, rows: Iterable[RunRow]) -> History | None:
    """A fingerprint over the rounds of these runs; None where none of them has it."""
    return histories(rows).get(fingerprint)


def _history(fingerprint: str, shown: Sequence[RunRow], rounds: dict[tuple[str, str], dict[str, str]]) -> History:
    begun: dict[str, str] = {}  # of the rounds in which a test was judged that has shown it
    for test in {_test(row) for row in shown}:
        for name, created in rounds[test].items():
            begun[name] = min(created, begun.get(name, created))
    ordered = sorted(begun, key=lambda name: (begun[name], name))
    seen = {row.round for row in shown}
    standing = Standing.GONE if ordered[-1] not in seen else Standing.KNOWN if len(seen) > 1 else Standing.NEW
    return History(fingerprint, standing, len(seen), len(ordered), shown[0].created[:10], shown[-1].created[:10])


def _rounds(rows: Iterable[RunRow]) -> dict[str, str]:
    """The rounds of these runs, and when the first run of each was planned."""
    begun: dict[str, str] = {}
    for row in rows:
        begun.setdefault(row.round, row.created)
    return begun


def _test(row: RunRow) -> tuple[str, str]:
    return row.campaign, row.test
