"""The memory of a round, in sentences for its last lines and its summary: what is new, what is gone, what has changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from fencepost.harness.memory.index import rows
from fencepost.harness.memory.known import Known, unmatched
from fencepost.harness.memory.rows import FindingRow, RunRow
from fencepost.harness.memory.standing import Standing, histories
from fencepost.harness.memory.trends import changes


def round_notes(results: Path, campaign: str, round: str, known: Known) -> list[str]:
    """A sentence on each finding that is new in a round of a campaign, on each that is gone since the round before, on each entry
    of `known.toml` that the round does not have, and on each change of rate, stall or recovery.

    Raises CampaignError when the results folder cannot be read.
    """
    return notes_of([row for row in rows(results) if row.campaign == campaign], round, known)


def notes_of(of_campaign: Sequence[RunRow], round: str, known: Known) -> list[str]:
    """The same of the runs of a campaign. Rounds after this one count for nothing."""
    performed = [row for row in of_campaign if row.round == round]
    if not performed:
        return []
    last = max(row.created for row in performed)
    until = [row for row in of_campaign if row.round == round or row.created <= last]
    changed = [f"changed: {trend}" for trend in changes(until) if trend.latest.round == round]
    return [*_standings(until, performed), *unmatched(known, performed), *changed]


def _standings(until: Sequence[RunRow], performed: Sequence[RunRow]) -> list[str]:
    """What is new in the round, where there was an earlier one, and what the last round had and this one has not."""
    findings = _findings(until)
    tests = {row.test for row in performed if row.verdict}
    others = [row for row in until if row.round != performed[0].round]
    before = max(others, key=lambda row: row.created).round if others else ""
    earlier = {finding.fingerprint for row in others if row.round == before for finding in row.findings}
    made = []
    for mark, past in histories(until).items():
        test, finding = findings[mark]
        if past.standing is Standing.NEW and past.rounds > 1:
            made.append(f"new: {test}: {finding.anomaly}, fingerprint {mark}: {finding.sentence}")
        if past.standing is Standing.GONE and mark in earlier and test in tests:
            counted = f"on {past.seen} of {past.rounds} rounds, since {past.since}"
            made.append(f"gone: {test}: {finding.anomaly}, fingerprint {mark}: {counted}")
    return made


def _findings(of: Iterable[RunRow]) -> dict[str, tuple[str, FindingRow]]:
    """By fingerprint the last test and finding that has it."""
    ordered = sorted(of, key=lambda row: (row.created, row.place))
    return {finding.fingerprint: (row.test, finding) for row in ordered for finding in row.findings}
