"""Findings over many runs, by fingerprint: where, in how many rounds, since when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fencepost.harness.site.entries import Entry, round_label

STANDINGS = ("new", "known", "gone", "")  # in the order of the page
MOST_RUNS = 12  # that a group names


@dataclass(frozen=True, kw_only=True)
class FindingGroup:
    """The findings of one fingerprint.

    sentence: of the newest. entries: the runs with it, the newest first. first, last: rounds.
    rounds: in which it was found. performed: rounds since the first in which one of its tests was performed.
    expected: each of its runs expects its anomaly.
    """

    fingerprint: str
    anomaly: str
    sentence: str
    standing: str
    entries: tuple[Entry, ...]
    tests: tuple[tuple[str, str], ...]
    first: str
    last: str
    rounds: int
    performed: int
    count: int
    expected: bool


def finding_groups(entries: Iterable[Entry], standings: Mapping[str, str]) -> tuple[FindingGroup, ...]:
    """The findings of all runs: new, known, gone; those that no test expects first; of them the newest first."""
    runs = sorted(entries, key=lambda entry: (entry.row.created, entry.row.place), reverse=True)
    by_fingerprint: dict[str, list[Entry]] = defaultdict(list)
    for entry in runs:
        for finding in entry.row.findings:
            by_fingerprint[finding.fingerprint].append(entry)
    performed: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for entry in runs:
        performed[entry.test].add((entry.row.campaign, entry.row.round))
    groups = [_group(mark, of, standings.get(mark, ""), performed) for mark, of in by_fingerprint.items()]
    newest = sorted(groups, key=lambda group: group.entries[0].row.created, reverse=True)
    return tuple(sorted(newest, key=lambda group: (group.expected, STANDINGS.index(group.standing))))


def _group(
    mark: str, entries: list[Entry], standing: str, performed: Mapping[tuple[str, str], set[tuple[str, str]]]
) -> FindingGroup:
    newest, first = entries[0], entries[-1]
    finding = next(of for of in newest.row.findings if of.fingerprint == mark)
    tests = sorted({entry.test for entry in entries})
    rounds = {(entry.row.campaign, entry.row.round) for entry in entries}
    since = {of for test in tests for of in performed[test] if of[1] >= first.row.round}
    return FindingGroup(
        fingerprint=mark,
        anomaly=finding.anomaly,
        sentence=finding.sentence,
        standing=standing,
        entries=tuple(entries),
        tests=tuple(tests),
        first=round_label(first.row.round),
        last=round_label(newest.row.round),
        rounds=len(rounds),
        performed=len(since),
        count=sum(of.count for entry in entries for of in entry.row.findings if of.fingerprint == mark),
        expected=all(entry.row.met is True for entry in entries),
    )
