"""The memory of a run's findings when its report is written: their standing over rounds, and who has acknowledged them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

from fencepost.harness.api import CampaignError
from fencepost.harness.api.run import Run
from fencepost.harness.memory.known import Acknowledgement, Known
from fencepost.harness.memory.rows import FindingRow, RunRow, finding_rows
from fencepost.harness.memory.standing import History, histories


@dataclass(frozen=True)
class Remembered:
    """What is remembered of a finding.

    history: its fingerprint over the rounds of its tests; None: the run is none of the results folder.
    entry: its acknowledgement, as it stands on `day`; None: there is none.
    """

    finding: FindingRow
    history: History | None = None
    entry: Acknowledgement | None = None
    day: date = date.min

    def __str__(self) -> str:
        return f"{self.finding.anomaly}, fingerprint {self.finding.fingerprint}" + (f": {self.words}" if self.words else "")

    @property
    def words(self) -> str:
        """What is remembered, in words; empty: nothing."""
        parts = [str(self.history)] if self.history else []
        if self.entry:
            parts.append(self.entry.on(self.day))
        return "; ".join(parts)


def sentences(remembered: Iterable[Remembered]) -> tuple[str, ...]:
    """What is remembered of findings, those of which it is the same in one sentence."""
    groups: dict[str, list[Remembered]] = {}
    for one in remembered:
        groups.setdefault(one.words, []).append(one)
    return tuple(str(group[0]) if len(group) == 1 else _of_several(words, group) for words, group in groups.items())


def _of_several(words: str, group: Iterable[Remembered]) -> str:
    names = ", ".join(f"{one.finding.anomaly} {one.finding.fingerprint}" for one in group)
    return f"fingerprints, {words}: {names}" if words else f"fingerprints: {names}"


def remembered_of(run: Run, results: Path, known: Known) -> tuple[Remembered, ...]:
    """What is remembered of the findings of a run, which has its verdict. Nothing is raised: a report does without."""
    findings = finding_rows(run)
    if not findings:
        return ()
    from fencepost.harness.memory.index import rows

    others: Iterable[RunRow] = ()
    with suppress(CampaignError, OSError):
        if run.directory.resolve().parent.parent == results.resolve():
            others = rows(results)
    noted = Known(known.path, {**acknowledged_in(run.verdict), **known.entries})
    return remembered(findings, others, noted, today())


def acknowledged_in(verdict: Mapping[str, Any]) -> dict[str, Acknowledgement]:
    """The acknowledgements that a verdict notes, as where the campaign's `known.toml` is not at hand."""
    noted = {}
    for entry in verdict.get("acknowledged") or ():
        with suppress(ValueError):
            fingerprint, reason, link, expires = (str(entry.get(key, "")) for key in ("fingerprint", "reason", "link", "expires"))
            noted[fingerprint] = Acknowledgement(
                fingerprint=fingerprint, reason=reason, link=link, expires=date.fromisoformat(expires)
            )
    return noted


def remembered(findings: Iterable[FindingRow], others: Iterable[RunRow], known: Known, day: date) -> tuple[Remembered, ...]:
    """What is remembered of some findings, by these runs and these acknowledgements."""
    of = histories(others)
    made = []
    for finding in findings:
        made.append(Remembered(finding, of.get(finding.fingerprint), known.entries.get(finding.fingerprint), day))
    return tuple(made)


def today() -> date:
    """The day in UTC, by which acknowledgements expire."""
    return datetime.now(timezone.utc).date()
