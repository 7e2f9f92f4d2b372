"""Errors: what *we* broke. Findings and outcomes are values and never exceptions.

HarnessError
├── CampaignError      a campaign, option or plug-in that cannot be used (exit 254)
│   └── UnwritableFile    a result that could not be written, when the work was done
├── ClusterError       a cluster that did not start, or cannot be reached
│   ├── OverBudget     a fault that would hurt more nodes than the test allows
│   └── UnusableLibrary   a client in the cache that this machine cannot use any more
├── HistoryError       a history that cannot be read at all
└── Interrupted        the person asked us to stop
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum


class HarnessError(Exception):
    """A failure of the harness, a cluster or an input; no finding. The text says what was tried, what happened, what to do."""


class CampaignError(HarnessError):
    """Bad input: every mistake found, one per line, each with file, key and remedy."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        self.mistakes = list(mistakes)
        super().__init__("\n".join(self.mistakes))


class UnwritableFile(CampaignError):
    """A file cannot be written; what was done for it was done in vain."""


class ClusterError(HarnessError):
    """A cluster could not be started, reached or changed."""


class OverBudget(ClusterError):
    """A fault would hurt more nodes at a time than the test allows."""


class UnusableLibrary(ClusterError):
    """A client library in the cache cannot be used on this machine any more; it can be fetched anew."""


class HistoryError(HarnessError):
    """A history could not be read at all."""


class Interrupted(HarnessError):
    """The person pressed Ctrl-C; what there is should still be judged."""


class Exit(IntEnum):
    """Exit codes of the command (as Jepsen's)."""

    VALID = 0
    INVALID = 1
    UNKNOWN = 2
    BAD_CAMPAIGN = 254
    HARNESS_BROKE = 255
