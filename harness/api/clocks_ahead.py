"""Clocks that were ahead, by the receipts of faults (`evidence.by_s`, docs/history.md) and by jumps of the machine's own clock,
and for how long brokers wait afterwards.

A coordinator stamps the start of a transaction by its wall clock, and ends it when that clock has passed start and timeout
(`TransactionStateManager.timedOutTransactions`). Waits before another connection attempt go by the wall clock too
(`ClusterConnectionStates`). So what a clock has stamped while it was ahead is due that much too late once it is right again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST_S = 1e9  # thirty years: no fault sets a clock further
UNKNOWN_NS = 1 << 62  # later than anything that a run measures


@dataclass(frozen=True, slots=True)
class ClockAhead:
    """A clock that a fault had set ahead. Times are CLOCK_MONOTONIC nanoseconds.

    ahead_s: seconds that it was ahead.
    injected_ns: time of the injection.
    healed_ns: time of the healing; 0: it was never set right.
    """

    ahead_s: float
    injected_ns: int
    healed_ns: int

    @property
    def over_ns(self) -> int:
        """The time from which on no broker waits for stamps of the clock to be reached; `UNKNOWN_NS`: never set right."""
        return self.healed_ns + round(self.ahead_s * 1e9) if self.healed_ns else UNKNOWN_NS


@dataclass(frozen=True, slots=True)
class ClockJump:
    """A jump of the wall clock of the machine on which a run was performed, which no fault has made.

    at_ns: when it was seen (CLOCK_MONOTONIC ns): so soon after it at least.
    by_s: seconds that the clock was ahead of its former course afterwards; negative: behind it.
    """

    at_ns: int
    by_s: float


def jumps_text(jumps: Sequence[ClockJump]) -> str:
    """The jumps in words: `the machine's clock jumped by +1800 s, -9000 s`."""
    return f"the machine's clock jumped by {', '.join(f'{jump.by_s:+.0f} s' for jump in jumps)}"


def clocks_ahead(receipts: Iterable[Mapping[str, Any]], jumps: Iterable[ClockJump] = ()) -> list[ClockAhead]:
    """The clocks that faults have set ahead (other evidence is left out), and the machine's: before a jump back it was ahead of
    what it shows since then. Ages that are reckoned from stamps are wrong after a jump ahead, too.
    """
    shifts = [(receipt, _seconds(receipt.get("evidence"))) for receipt in receipts]
    return [
        ClockAhead(ahead_s, receipt.get("injected_ns") or 0, receipt.get("healed_ns") or 0)
        for receipt, ahead_s in shifts
        if ahead_s > 0
    ] + [ClockAhead(max(0.0, -jump.by_s), jump.at_ns, jump.at_ns) for jump in jumps]


def clock_error_s(receipts: Iterable[Mapping[str, Any]], jumps: Iterable[ClockJump] = ()) -> float:
    """The greatest error of a clock by the faults of a run and jumps of the machine's clock, ahead or behind, in seconds."""
    machine_s = sum(abs(jump.by_s) for jump in jumps)
    return max((abs(_seconds(receipt.get("evidence"))) for receipt in receipts), default=0.0) + machine_s


def _seconds(evidence: Any) -> float:
    """Seconds that a fault has set clocks ahead; negative: behind; 0: it has not."""
    by_s = evidence.get("by_s") if isinstance(evidence, Mapping) else None
    return float(by_s) if isinstance(by_s, (int, float)) and abs(by_s) < MOST_S else 0.0
