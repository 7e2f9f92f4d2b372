"""What is known of findings from earlier rounds and from `known.toml`, for the pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from fencepost.harness.memory.known import NOTHING_KNOWN, Known, KnownFindings, judge_known
from fencepost.harness.memory.rows import RunRow
from fencepost.harness.memory.standing import History

ACKNOWLEDGED, EXPIRED = "acknowledged", "expired"
STANDINGS = ("new", EXPIRED, "known", ACKNOWLEDGED, "gone", "")  # in the order of the pages


@dataclass(frozen=True, kw_only=True)
class RoundMemory:
    """The memory over rounds. histories: of fingerprints. known: what is acknowledged, by the day that is today."""

    histories: Mapping[str, History] = field(default_factory=dict)
    known: Known = NOTHING_KNOWN
    today: date = date.min

    def standing(self, fingerprint: str) -> str:
        """A word of `STANDINGS`: of the known file where it has the finding, and it is not gone; else by the rounds."""
        history, entry = self.histories.get(fingerprint), self.known.entries.get(fingerprint)
        word = history.standing.value if history else ""
        if entry is None or word == "gone":
            return word
        return ACKNOWLEDGED if self.today <= entry.expires else EXPIRED

    def words(self, fingerprint: str) -> str:
        """The standing as a sentence; empty where nothing is known."""
        history, entry = self.histories.get(fingerprint), self.known.entries.get(fingerprint)
        acknowledged = entry.on(self.today) if entry else ""
        return "; ".join(filter(None, [str(history) if history else "", acknowledged]))

    def beside(self, row: RunRow) -> KnownFindings:
        """The unexpected findings of a run beside what is acknowledged."""
        return judge_known(row, self.known, self.today)

    def is_acknowledged(self, row: RunRow) -> bool:
        """Return whether the run is as expected but for findings that are acknowledged: now, or when it was judged."""
        return row.known_alone or self.beside(row).as_expected


NOTHING = RoundMemory()
