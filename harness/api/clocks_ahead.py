"""Clocks that were ahead, by the receipts of faults (`evidence.by_s`, docs/history.md) and by jumps of the machine's own clock,
and for how long brokers wait afterwards.

A coordinator stamps the start of a transaction by its wall clock, and ends it when that clock has passed start and timeout
(`TransactionStateManager.timedOutTransactions`). Waits before another connection attempt go by the wall clock too
(`ClusterConnectionStates`). So what a clock has stamped while it was ahead is due that much too late once it is right again.
"""

from __future__ import annotations

from collections import defaultdict
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
    """A jump of a wall clock which no fault has made.

    at_ns: when it was seen (CLOCK_MONOTONIC ns of the machine on which the run was performed): so soon after it at least.
    by_s: seconds that the clock was ahead of its former course afterwards; negative: behind it.
    node: on whose host; empty: that of the machine on which the run was performed.
    """

    at_ns: int
    by_s: float
    node: str = ""


def jumps_text(jumps: Sequence[ClockJump]) -> str:
    """The jumps in words: `the machine's clock jumped by +1800 s, -9000 s; n2's clock jumped by +7200 s`."""
    by_clock: dict[str, list[str]] = {}
    for jump in sorted(jumps, key=lambda jump: jump.node):
        by_clock.setdefault(f"{jump.node}'s" if jump.node else "the machine's", []).append(f"{jump.by_s:+.0f} s")
    return "; ".join(f"{clock} clock jumped by {', '.join(texts)}" for clock, texts in by_clock.items())


def clocks_ahead(receipts: Iterable[Mapping[str, Any]], jumps: Iterable[ClockJump] = ()) -> list[ClockAhead]:
    """The clocks that faults have set ahead (other evidence is left out), and those that jumped: before a jump back one was ahead
    of what it shows since then. Ages that are reckoned from stamps are wrong after a jump ahead, too.
    """
    shifts = [(receipt, _seconds(receipt.get("evidence"))) for receipt in receipts]
    return [
        ClockAhead(ahead_s, receipt.get("injected_ns") or 0, receipt.get("healed_ns") or 0)
        for receipt, ahead_s in shifts
        if ahead_s > 0
    ] + [ClockAhead(max(0.0, -jump.by_s), jump.at_ns, jump.at_ns) for jump in jumps]


def clock_error_s(receipts: Iterable[Mapping[str, Any]], jumps: Iterable[ClockJump] = ()) -> float:
    """The greatest error between two clocks, or two readings of one, in seconds: by the two faults that set clocks furthest, one
    ahead and one behind, and by the jumps of the two that jumped most, likewise. Nodes of one machine have the same jumps, which
    count once.
    """
    ahead_s: defaultdict[str, float] = defaultdict(float)
    back_s: defaultdict[str, float] = defaultdict(float)
    for jump in jumps:
        (ahead_s if jump.by_s > 0 else back_s)[jump.node] += abs(jump.by_s)
    by_faults = [0.0, *(_seconds(receipt.get("evidence")) for receipt in receipts)]
    return max(by_faults) - min(by_faults) + max(ahead_s.values(), default=0.0) + max(back_s.values(), default=0.0)


def _seconds(evidence: Any) -> float:
    """Seconds that a fault has set clocks ahead; negative: behind; 0: it has not."""
    by_s = evidence.get("by_s") if isinstance(evidence, Mapping) else None
    return float(by_s) if isinstance(by_s, (int, float)) and abs(by_s) < MOST_S else 0.0
