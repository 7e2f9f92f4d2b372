"""Small values that every package uses: outcomes, verdicts, isolation levels, versions of file formats."""

from __future__ import annotations

from enum import Enum

HISTORY_VERSION = 1
VERDICT_SCHEMA = 1
PLAN_SCHEMA = 1
DAMAGE_SCHEMA = 1
SECOND = "second"
"""The name of the Kafka cluster beside the one that is judged."""


class Outcome(str, Enum):
    """The outcome of an operation, as far as it is known. ok: it happened; fail: it surely did not; info: unknown."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Isolation(str, Enum):
    """A reader's isolation level, in Kafka's words."""

    COMMITTED = "read_committed"
    UNCOMMITTED = "read_uncommitted"


class Property(str, Enum):
    """The verdict on one anomaly.

    held without occasion: it was compared and not found, and nothing occurred that could have brought it about
    (`harness.api.occasions`).
    """

    VIOLATED = "violated"
    HELD = "held"
    WITHOUT_OCCASION = "held without occasion"
    NOT_EXERCISED = "not exercised"
    UNKNOWN = "unknown"


class Verdict(str, Enum):
    """The verdict on one run."""

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"


MOST_DIGITS = 4000  # Python reads some more at once


def from_digits(text: str) -> int:
    """A text of decimal digits, perhaps with a sign, as a number; one of more than `MOST_DIGITS` as the least of so many."""
    if len(text) <= MOST_DIGITS:
        return int(text)
    least = int("1" + "0" * (MOST_DIGITS - 1))
    return -least if text.startswith("-") else least


def whole_number(value: object) -> int | None:
    """A whole number of 64 bits, which columns and clocks have; None for anything else."""
    return value if isinstance(value, int) and -(1 << 63) <= value < 1 << 63 else None
