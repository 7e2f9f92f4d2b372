"""Slow disks as faults find them: `Throttleable`, for clusters whose brokers were started behind their programs."""

from __future__ import annotations

from collections.abc import Iterable

from clusters.fault_tools.disk_throttle.throttles import Throttles
from clusters.kafka.cluster import KafkaCluster
from clusters.kafka.options import FAST_DISK
from harness.api import ClusterError, HeldBack


class SlowDisks(KafkaCluster):
    """`Throttleable`, where there are `_throttles`."""

    _throttles: Throttles | None = None

    def throttle(self, nodes: Iterable[str], delay_ms: float = 0.0, mb_s: float = 0.0) -> int:
        return self._held_by().slow([self._a_server(node) for node in nodes], delay_ms, mb_s)

    def held_back(self, number: int) -> dict[str, HeldBack]:
        return self._held_by().held(number)

    def unthrottle(self, number: int) -> dict[str, HeldBack]:
        return self._held_by().end(number)

    def disk_waits(self, nodes: Iterable[str], for_s: float) -> dict[str, float | None]:
        pids = {node: self.pid(self._a_server(node)) for node in nodes}
        seen = self._held_by().waits({node: pid for node, pid in pids.items() if pid is not None}, for_s)
        return {node: seen.get(node) for node in pids}

    def _held_by(self) -> Throttles:
        if self._throttles is None:
            raise ClusterError(f"no disk can be slow: {FAST_DISK}")
        return self._throttles
