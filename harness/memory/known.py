"""Known findings: acknowledged in a file under version control, `known.toml`, each by its fingerprint and until a day.

A run is as its test expects, with known findings, where it would be without them and each of them is acknowledged. What has
expired acknowledges nothing. The file lies beside the campaign's, or in the working directory (docs/memory.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

from fencepost.harness.api import CampaignError
from fencepost.harness.api.run import Run
from fencepost.harness.campaign.toml import Keys, read_toml
from fencepost.harness.memory.fingerprints import DIGITS
from fencepost.harness.memory.rows import FindingRow, RunRow, row_of
from fencepost.harness.plugins.registry import unknown

NAME = "known.toml"
_FINGERPRINT = re.compile(rf"[0-9a-f]{{{DIGITS}}}")
_LINK = re.compile(r"https?://[^\s<>\"]+")


# --------------------------------------------------------------------------------------------------
# The file
# --------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Acknowledgement:
    """An entry of the file.

    link: an address, such as that of an issue; empty: none.
    expires: the last day on which it acknowledges anything.
    place: its place in the file, `known.toml:3`.
    """

    fingerprint: str
    reason: str
    expires: date
    link: str = ""
    place: str = ""

    def __str__(self) -> str:
        return f"{self.reason}{f' ({self.link})' * bool(self.link)}"

    def on(self, day: date) -> str:
        """What it is worth on a day: in force, or expired, and why it was made."""
        return f"{'acknowledged until' if day <= self.expires else 'acknowledgement expired on'} {self.expires}: {self}"


@dataclass(frozen=True)
class Known:
    """What is acknowledged, by fingerprint. path: the file that says so; None: there is none."""

    path: Path | None = None
    entries: Mapping[str, Acknowledgement] = field(default_factory=dict)


NOTHING_KNOWN = Known()


def known_of(given: Path | None = None, campaign: Path | None = None) -> Known:
    """What is acknowledged by the file that is given, else by `known.toml` beside the campaign, else in the working directory.

    Raises CampaignError: a file that is given and not there, and every mistake in the one that is read.
    """
    beside = [campaign.parent / NAME] if campaign else []
    path = given or next((place for place in (*beside, Path(NAME)) if place.is_file()), None)
    return read_known(path) if path else NOTHING_KNOWN


def read_known(path: Path) -> Known:
    """What a file acknowledges. Raises CampaignError with every mistake, each with its line, key and remedy."""
    from fencepost.harness.campaign.lines import CampaignText

    table, text = read_toml(path)
    source, wrong = CampaignText(path, text), []
    entries: dict[str, Acknowledgement] = {}
    for key in table:
        if key != "known":
            wrong.append(f"{source.place((key,))}: unknown key {key!r}: each entry is a table `[[known]]`")
    listed = table.get("known", [])
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise CampaignError([*wrong, f"{source.place(('known',))}: write each entry as a table of its own, `[[known]]`"])
    for number, entry in enumerate(listed):
        mistakes = [f"{source.place(('known', number, *keys))}: {mistake}" for keys, mistake in _mistakes(entry)]
        fingerprint = str(entry.get("fingerprint"))
        if fingerprint in entries:
            mistakes.append(
                f"{source.place(('known', number, 'fingerprint'))}: is acknowledged already ({entries[fingerprint].place})"
            )
        wrong += mistakes
        if not mistakes:
            entries[fingerprint] = _acknowledgement(entry, source.place(("known", number)).rpartition(": ")[0])
    if wrong:
        raise CampaignError(wrong)
    return Known(path, entries)


def _acknowledgement(entry: Mapping[str, Any], place: str) -> Acknowledgement:
    expires = entry["expires"]
    return Acknowledgement(
        fingerprint=entry["fingerprint"],
        reason=entry["reason"].strip(),
        expires=expires.date() if isinstance(expires, datetime) else expires,
        link=entry.get("link", ""),
        place=place,
    )


def _mistakes(entry: Mapping[str, Any]) -> Iterable[tuple[Keys, str]]:
    """The mistakes in an entry: the key, and what is wrong with its value."""
    checks = {"fingerprint": _of_fingerprint, "reason": _of_reason, "link": _of_link, "expires": _of_expires}
    for key in entry:
        if key not in checks:
            yield (key,), unknown("key", key, checks)
    for key, check in checks.items():
        if key in entry:
            if mistake := check(entry[key]):
                yield (key,), mistake
        elif key != "link":
            yield (), f"{key} is missing: {check(None)}"


def _of_fingerprint(value: Any) -> str:
    good = isinstance(value, str) and _FINGERPRINT.fullmatch(value)
    return "" if good else f"must be {DIGITS} hexadecimal digits in quotes, as `fencepost list --json` and reports show them"


def _of_reason(value: Any) -> str:
    return "" if isinstance(value, str) and value.strip() else "must be a text that says why this is acceptable for now"


def _of_link(value: Any) -> str:
    good = isinstance(value, str) and _LINK.fullmatch(value)
    return "" if good else "must be an address that begins with https:// or http://"


def _of_expires(value: Any) -> str:
    return "" if isinstance(value, date) else "must be a day without quotes, for example 2027-01-31"


# --------------------------------------------------------------------------------------------------
# A run beside it
# --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class KnownFinding:
    """A finding that somebody has acknowledged."""

    finding: FindingRow
    entry: Acknowledgement

    def __str__(self) -> str:
        return f"{self.finding.anomaly}: {self.entry}"


@dataclass(frozen=True)
class KnownFindings:
    """The unexpected findings of a run beside what is acknowledged.

    acknowledged: those that are. expired: those that were. new: those that nobody has acknowledged.
    complete: each of them is acknowledged, and there are some.
    as_expected: the run is as its test expects, were it not for findings that are acknowledged.
    """

    acknowledged: tuple[KnownFinding, ...] = ()
    expired: tuple[KnownFinding, ...] = ()
    new: tuple[FindingRow, ...] = ()
    complete: bool = False
    as_expected: bool = False


def judge_known(row: RunRow, known: Known, today: date) -> KnownFindings:
    """The unexpected findings of a run beside what is acknowledged.

    A run is as expected, with known findings, where it would be without its unexpected ones (`RunRow.met_otherwise`: nothing
    expected is missing, and everything else could be judged) and each fingerprint among them is acknowledged.
    """
    findings = [finding for finding in row.findings if finding.anomaly in row.unexpected]
    pairs = [KnownFinding(finding, entry) for finding in findings if (entry := known.entries.get(finding.fingerprint))]
    acknowledged = tuple(pair for pair in pairs if today <= pair.entry.expires)
    new = tuple(finding for finding in findings if finding.fingerprint not in known.entries)
    shown = {finding.anomaly for finding in findings}
    complete = bool(shown) and shown == set(row.unexpected) and len(acknowledged) == len(findings)
    return KnownFindings(
        acknowledged=acknowledged,
        expired=tuple(pair for pair in pairs if pair not in acknowledged),
        new=new,
        complete=complete,
        as_expected=complete and row.met is False and row.met_otherwise is True,
    )


def with_known(verdict: dict[str, Any], run: Run, known: Known, day: date) -> dict[str, Any]:
    """The verdict of a run with what it says of known findings."""
    return verdict | known_document(judge_known(row_of(run.judged(verdict), run.directory.parent), known, day))


def known_document(judged: KnownFindings) -> dict[str, Any]:
    """The keys of a verdict on known findings: `unexpected_known`, `known` in words, `acknowledged`; none where none is known."""
    pairs = [*judged.acknowledged, *judged.expired]
    if not pairs:
        return {}
    return {
        "unexpected_known": judged.complete,
        "known": "; ".join(dict.fromkeys(_words(pair, pair in judged.expired) for pair in pairs)),
        "acknowledged": [_document(pair, pair in judged.expired) for pair in pairs],
    }


def _words(pair: KnownFinding, expired: bool) -> str:
    until = f"expired on {pair.entry.expires}: mend it, or renew" if expired else f"acknowledged until {pair.entry.expires} in"
    return f"{pair.finding.anomaly}: {pair.entry}; {until} {pair.entry.place}"


def _document(pair: KnownFinding, expired: bool) -> dict[str, Any]:
    entry = pair.entry
    named = {"fingerprint": entry.fingerprint, "anomaly": pair.finding.anomaly, "reason": entry.reason, "link": entry.link}
    return {**named, "expires": entry.expires.isoformat(), "expired": expired}


def unmatched(known: Known, rows: Iterable[RunRow]) -> list[str]:
    """A sentence on each entry whose fingerprint none of these runs has: its bug is gone, or was not looked for."""
    seen = {finding.fingerprint for row in rows for finding in row.findings}
    return [
        f"not seen: {entry.fingerprint}, {entry}; acknowledged until {entry.expires} in {entry.place}: remove it if it is gone"
        for fingerprint, entry in known.entries.items()
        if fingerprint not in seen
    ]
