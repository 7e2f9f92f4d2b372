"""The grid of tests and rounds: of each test, in how many of its runs of a round everything was as expected."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fencepost.harness.campaign.campaign import CONTROLS
from fencepost.harness.rounds.outcome import UNTRUSTED
from fencepost.harness.site.entries import TONES, Entry, gravest_first, round_label

MOST_ROUNDS = 60  # of a campaign, the newest


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The runs of a test in a round: `met` of `count` were as expected. tone: of the gravest of them."""

    round: str
    met: int
    count: int
    tone: str


@dataclass(frozen=True, kw_only=True)
class TestLine:
    """A test over the rounds of its campaign, a cell for each; None where it was not performed."""

    campaign: str
    test: str
    cells: tuple[Cell | None, ...]

    @property
    def gravity(self) -> tuple[tuple[int, ...], list[tuple[int, str]]]:
        """The key by which the tests are sorted: the gravest of the newest round in which they differ first, then by name."""
        return tuple(_gravity(cell) for cell in self.cells), [
            (int(digits or 0), letters) for letters, digits in re.findall(r"(\D*)(\d*)", self.test)
        ]


def _gravity(cell: Cell | None) -> int:
    """The place of a cell's tone, where all that is as expected is alike."""
    return min(TONES.index(cell.tone), TONES.index("shown")) if cell else TONES.index("shown")


@dataclass(frozen=True, kw_only=True)
class CampaignGrid:
    """The tests of a campaign by its rounds, the newest round first. older: rounds that are not shown."""

    campaign: str
    rounds: tuple[tuple[str, str], ...]  # and its label
    lines: tuple[TestLine, ...]
    older: int


@dataclass(frozen=True, kw_only=True)
class Round:
    """A round of a campaign: in how many runs everything was as expected, and those that somebody has to look at.

    untrusted: a sentence where a canary was not caught, or a baseline was not valid; else empty.
    """

    campaign: str
    round: str
    label: str
    met: int
    count: int
    performing: int
    red: tuple[Entry, ...]
    untrusted: str = ""


def grids(entries: Iterable[Entry]) -> tuple[CampaignGrid, ...]:
    """A grid for each campaign, by name."""
    by_campaign = defaultdict(list)
    for entry in entries:
        by_campaign[entry.row.campaign].append(entry)
    return tuple(_grid(campaign, of) for campaign, of in sorted(by_campaign.items()))


def _grid(campaign: str, entries: Sequence[Entry]) -> CampaignGrid:
    rounds = rounds_of(entries)
    shown = rounds[:MOST_ROUNDS]
    cells: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        cells[entry.row.test, entry.row.round].append(entry)
    lines = [
        TestLine(campaign=campaign, test=test, cells=tuple(_cell(name, cells.get((test, name))) for name in shown))
        for test in sorted({entry.row.test for entry in entries})
    ]
    return CampaignGrid(
        campaign=campaign,
        rounds=tuple((name, round_label(name)) for name in shown),
        lines=tuple(sorted(lines, key=lambda line: line.gravity)),
        older=len(rounds) - len(shown),
    )


def rounds_of(entries: Iterable[Entry]) -> list[str]:
    """The rounds of a campaign, the newest first, by the first plan of each."""
    first: dict[str, str] = {}
    for entry in entries:
        first[entry.row.round] = min(first.get(entry.row.round, entry.row.created), entry.row.created)
    return sorted(first, key=lambda name: (first[name], name), reverse=True)


def _cell(name: str, entries: list[Entry] | None) -> Cell | None:
    if not entries:
        return None
    return Cell(
        round=name,
        met=sum(entry.met for entry in entries),
        count=len(entries),
        tone=min((entry.tone for entry in entries), key=TONES.index),
    )


def latest_rounds(entries: Iterable[Entry]) -> tuple[Round, ...]:
    """The newest round of each campaign: those with something red first, then by age."""
    by_campaign = defaultdict(list)
    for entry in entries:
        by_campaign[entry.row.campaign].append(entry)
    latest = [_latest(campaign, of) for campaign, of in by_campaign.items()]
    newest = sorted(latest, key=lambda of: of.label, reverse=True)
    return tuple(sorted(newest, key=lambda of: not of.red))


def _untrusted(failed: Sequence[Entry]) -> str:
    """A sentence on the controls of a round that did not do what they must."""
    words = "; ".join(f"{entry.row.test}: {entry.outcome}" for entry in failed)
    return f"{UNTRUSTED[0].upper()}{UNTRUSTED[1:]}. {words}" if failed else ""


def _latest(campaign: str, entries: Sequence[Entry]) -> Round:
    name = rounds_of(entries)[0]
    of = [entry for entry in entries if entry.row.round == name]
    red = gravest_first(entry for entry in of if entry.red)
    controls = [entry for entry in red if entry.row.test in CONTROLS]
    return Round(
        campaign=campaign,
        round=name,
        label=round_label(name),
        met=sum(entry.met for entry in of),
        count=len(of),
        performing=sum(bool(entry.phase) for entry in of),
        red=(*controls, *(entry for entry in red if entry not in controls)),
        untrusted=_untrusted(controls),
    )
