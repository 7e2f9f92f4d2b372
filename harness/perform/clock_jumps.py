"""Jumps of wall clocks while a run is performed, of the machine that performs it and of hosts on which its nodes are.

Brokers and clients time much by the wall clock: when a transaction times out, when librdkafka wakes from a wait, when a broker
tries to connect again. The harness goes by CLOCK_MONOTONIC.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fencepost.harness.api import Cluster, ReportsClockJumps
from fencepost.harness.api.clocks_ahead import ClockJump
from fencepost.harness.system.wall_clock import WallClock


@dataclass
class ClockJumps:
    """The looks of one run at the clocks.

    tell: gets all jumps so far, whenever there is more.
    of_hosts: node -> the jumps of its host's clock so far, in seconds.
    """

    tell: Callable[[Sequence[ClockJump]], None]
    of_hosts: Callable[[], Mapping[str, Sequence[float]]] = dict
    clock: WallClock = field(default_factory=WallClock)
    jumps: list[ClockJump] = field(default_factory=list)

    @classmethod
    def of(cls, cluster: Cluster, tell: Callable[[Sequence[ClockJump]], None]) -> ClockJumps:
        """The clocks of this machine and, where it looks at them, of a cluster's hosts."""
        return cls(tell, cluster.clock_jumps) if isinstance(cluster, ReportsClockJumps) else cls(tell)

    def look(self) -> None:
        """Compare the clocks with the look before."""
        known, now = Counter(jump.node for jump in self.jumps), self.clock.monotonic_ns()
        jumped = self.clock.jumped_s()
        new = [ClockJump(now, jumped)] if jumped else []
        new += [ClockJump(now, by_s, node) for node, jumps in sorted(self.of_hosts().items()) for by_s in jumps[known[node] :]]
        if new:
            self.jumps += new
            self.tell(self.jumps)
