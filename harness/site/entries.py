"""An entry: a run among others, with what a person wants to know of it first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from fencepost.harness.api.expectations import anomaly_and_word
from fencepost.harness.api.run import RunFile
from fencepost.harness.api.values import Verdict
from fencepost.harness.memory.known import KnownFindings
from fencepost.harness.memory.rows import FindingRow, RunRow
from fencepost.harness.page_text import shortened
from fencepost.harness.site.round_memory import NOTHING, RoundMemory

TONES = ("bad", "unsure", "none", "shown", "good")  # the gravest first
LONGEST_OUTCOME = 90
_STAMP = "%Y%m%dT%H%M%SZ"
_LENGTH = 16  # of a time in that form


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A run as the pages show it.

    row: the run in a row.
    tone: of `TONES`: against expectation, not known, not judged, an expected or acknowledged anomaly, valid as expected.
    outcome: verdict and expectation in words.
    finding: the finding that tells most; None: there is none.
    cause: the sentence that tells most.
    report: the address of its report, relative to the site; empty: there is none.
    lack: the reason why there is no report, in words.
    standing, standing_words: of that finding, where the run is not as expected: new, known and so on; empty: not known.
    phase: of a run that is being performed: what it does now, in words.
    """

    row: RunRow
    tone: str
    outcome: str
    finding: FindingRow | None
    cause: str
    report: str = ""
    lack: str = ""
    standing: str = ""
    standing_words: str = ""
    phase: str = ""

    @property
    def met(self) -> bool:
        """Return whether the run is as expected, perhaps but for findings that are acknowledged."""
        return self.tone in ("shown", "good")

    @property
    def red(self) -> bool:
        """Return whether somebody has to look at it. A run that is being performed is not red yet."""
        return not self.met and not self.phase

    @property
    def anomalies(self) -> tuple[str, ...]:
        """The forbidden anomalies that were found, those that the test does not expect first."""
        return tuple(dict.fromkeys((*self.row.unexpected, *self.row.anomalies)))

    @property
    def test(self) -> tuple[str, str]:
        """Campaign and test."""
        return self.row.campaign, self.row.test


def entry_of(row: RunRow, memory: RoundMemory = NOTHING, *, report: str = "", lack: str = "", phase: str = "") -> Entry:
    """The entry of a row."""
    acknowledged = memory.is_acknowledged(row)
    worst = worst_finding(row, memory.beside(row))
    shown = worst is not None and row.met is not True
    return Entry(
        row=row,
        tone=tone(row, acknowledged),
        outcome=phase or outcome(row, acknowledged),
        finding=worst,
        cause=cause(row, worst),
        report=report,
        lack=lack,
        standing=memory.standing(worst.fingerprint) if worst and shown else "",
        standing_words=memory.words(worst.fingerprint) if worst and shown else "",
        phase=phase,
    )


def gravest_first(entries: Iterable[Entry]) -> list[Entry]:
    """Entries by tone, those of one tone by their age, the newest first."""
    newest = sorted(entries, key=lambda entry: (entry.row.created, entry.row.place), reverse=True)
    return sorted(newest, key=lambda entry: TONES.index(entry.tone))


def report_place(row: RunRow) -> str:
    """The address of a run's report, relative to the site."""
    return f"runs/{row.place}/{RunFile.REPORT}"


def tone(row: RunRow, acknowledged: bool) -> str:
    """The tone in which a run is shown. acknowledged: what it found against expectation is."""
    if not row.verdict:
        return "none"
    if row.met is None:
        return "unsure"
    if not row.met:
        return "shown" if acknowledged else "bad"
    return "good" if row.verdict == Verdict.VALID.value else "shown"


def outcome(row: RunRow, acknowledged: bool) -> str:
    """Verdict and expectation in a few words."""
    if acknowledged and not row.known_alone:
        return f"{row.verdict}, as expected but for known findings"
    return shortened(row.outcome, LONGEST_OUTCOME)


def worst_finding(row: RunRow, beside: KnownFindings) -> FindingRow | None:
    """The first finding that nobody has acknowledged, that the test does not expect, or any; None when there is none."""
    expected = {anomaly_and_word(text)[0] for text in row.expect}
    expired = [pair.finding for pair in beside.expired]
    unexpected = [finding for finding in row.findings if finding.anomaly in row.unexpected]
    besides = [finding for finding in row.findings if finding.anomaly not in expected]
    return next(iter((*beside.new, *expired, *unexpected, *besides, *row.findings)), None)


def cause(row: RunRow, worst: FindingRow | None) -> str:
    """The sentence that tells most of a run: of a finding, else why the run is not as expected, else what weakens it."""
    against = row.met is False and row.verdict == Verdict.VALID.value
    if worst and not against:
        return worst.sentence
    if not row.verdict:
        return "; ".join(row.problems) or "The run has no verdict: it was cut off, or has not been judged (fencepost check)."
    if row.red:
        return row.expectation or row.reason or next(iter(row.weakened), "")
    return next(iter(row.weakened), "")


def round_label(text: str) -> str:
    """A round as people write it: `2026-11-25 19:00`, also with what stands behind the time; any other text stays."""
    try:
        return datetime.strptime(text[:_LENGTH], _STAMP).strftime("%Y-%m-%d %H:%M") + text[_LENGTH:].replace("-", " ", 1)
    except ValueError:
        return text
