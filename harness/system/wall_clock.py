"""Jumps of a machine's wall clock: somebody has set it, or the machine has slept.

CLOCK_MONOTONIC does neither, so that a jump is a change of the distance of the two.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

LEAST_NS = 1_000_000_000  # from one look to the next; a clock that is slewed moves by far less


@dataclass
class WallClock:
    """The wall clock of this machine."""

    wall_ns: Callable[[], int] = time.time_ns
    monotonic_ns: Callable[[], int] = time.monotonic_ns

    def __post_init__(self) -> None:
        self._ahead = self._distance()

    def jumped_s(self) -> float:
        """Seconds by which it has jumped since it was looked at before, ahead or (negative) back; 0 for less than one."""
        before, self._ahead = self._ahead, self._distance()
        moved = self._ahead - before
        return round(moved / 1e9, 3) if abs(moved) >= LEAST_NS else 0.0

    def _distance(self) -> int:
        """How far it is ahead of the monotonic one, exact to the time between the two readings."""
        first = self.monotonic_ns()
        wall, last = self.wall_ns(), self.monotonic_ns()
        return wall - (first + last) // 2
