"""Jumps of the machine's wall clock while a run is performed: somebody has set it, or the machine has slept.

Brokers and clients time much by the wall clock: when a transaction times out, when librdkafka wakes from a wait, when a broker
tries to connect again. The harness goes by CLOCK_MONOTONIC, and sees a jump as a change of the distance of the two.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fencepost.harness.api.clocks_ahead import ClockJump

LEAST_NS = 1_000_000_000  # from one look to the next; a clock that is slewed moves by far less


@dataclass
class ClockJumps:
    """The looks of one run at the two clocks.

    tell: gets all jumps so far, whenever there is more.
    """

    tell: Callable[[Sequence[ClockJump]], None]
    wall_ns: Callable[[], int] = time.time_ns
    monotonic_ns: Callable[[], int] = time.monotonic_ns
    jumps: list[ClockJump] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ahead = self._distance()

    def look(self) -> None:
        """Compare the clocks with the look before."""
        before, self._ahead = self._ahead, self._distance()
        if abs(self._ahead - before) >= LEAST_NS:
            self.jumps.append(ClockJump(self.monotonic_ns(), round((self._ahead - before) / 1e9, 3)))
            self.tell(self.jumps)

    def _distance(self) -> int:
        """How far the wall clock is ahead of the monotonic one, exact to the time between the two readings."""
        first = self.monotonic_ns()
        wall, last = self.wall_ns(), self.monotonic_ns()
        return wall - (first + last) // 2
