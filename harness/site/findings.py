"""Findings over many runs, by fingerprint: where, in how many rounds, since when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from fencepost.harness.memory.rows import RunRow
from fencepost.harness.site.entries import Entry
from fencepost.harness.site.round_memory import STANDINGS, RoundMemory

MOST_RUNS = 12  # that a group names


@dataclass(frozen=True, kw_only=True)
class FindingGroup:
    """The findings of one fingerprint.

    sentence: of the newest. entries: the runs with it, the newest first. count: of findings in them.
    standing, words: over the rounds. expected: each of its tests expects it.
    """

    fingerprint: str
    anomaly: str
    sentence: str
    standing: str
    words: str
    entries: tuple[Entry, ...]
    tests: tuple[tuple[str, str], ...]
    count: int
    expected: bool


def finding_groups(entries: Iterable[Entry], memory: RoundMemory) -> tuple[FindingGroup, ...]:
    """The findings of all runs: those that no test expects first; new, known, gone; of them the newest first."""
    runs = sorted(entries, key=lambda entry: (entry.row.created, entry.row.place), reverse=True)
    by_fingerprint: dict[str, list[Entry]] = defaultdict(list)
    for entry in runs:
        for finding in entry.row.findings:
            by_fingerprint[finding.fingerprint].append(entry)
    groups = [_group(mark, of, memory) for mark, of in by_fingerprint.items()]
    newest = sorted(groups, key=lambda group: group.entries[0].row.created, reverse=True)
    return tuple(sorted(newest, key=lambda group: (group.expected, STANDINGS.index(group.standing))))


def _is_unexpected(row: RunRow, anomaly: str) -> bool:
    """True if a test does not expect an anomaly; where the verdict does not say, if the run is against expectation."""
    return anomaly in row.unexpected if row.unexpected else row.met is False


def _group(mark: str, entries: list[Entry], memory: RoundMemory) -> FindingGroup:
    findings = [finding for entry in entries for finding in entry.row.findings if finding.fingerprint == mark]
    return FindingGroup(
        fingerprint=mark,
        anomaly=findings[0].anomaly,
        sentence=findings[0].sentence,
        standing=memory.standing(mark),
        words=memory.words(mark),
        entries=tuple(entries),
        tests=tuple(sorted({entry.test for entry in entries})),
        count=sum(finding.count for finding in findings),
        expected=not any(_is_unexpected(entry.row, findings[0].anomaly) for entry in entries),
    )
