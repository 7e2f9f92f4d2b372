"""The capability `Throttleable`, for clusters whose brokers were started by the throttle program."""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.clusters.fault_tools.disk_throttle.throttles import Throttles
from fencepost.clusters.kafka.cluster import KafkaCluster
from fencepost.clusters.kafka.options import NO_THROTTLE
from fencepost.harness.api import ClusterError, HeldBack


class ThrottledDisks(KafkaCluster):
    """A cluster whose brokers' disks can be slow (`Throttleable`), where there are `_throttles`."""

    _throttles: Throttles | None = None

    def throttle(self, nodes: Iterable[str], delay_ms: float = 0.0, mb_s: float = 0.0) -> int:
        return self._usable_throttles().slow([self._checked_server(node) for node in nodes], delay_ms, mb_s)

    def held_back(self, number: int) -> dict[str, HeldBack]:
        return self._usable_throttles().held_back(number)

    def unthrottle(self, number: int) -> dict[str, HeldBack]:
        return self._usable_throttles().end(number)

    def disk_waits(self, nodes: Iterable[str], for_s: float) -> dict[str, float | None]:
        pids = {node: self.pid(self._checked_server(node)) for node in nodes}
        waits_ms = self._usable_throttles().waits({node: pid for node, pid in pids.items() if pid is not None}, for_s)
        return {node: waits_ms.get(node) for node in pids}

    def _usable_throttles(self) -> Throttles:
        if self._throttles is None:
            raise ClusterError(f"no disk can be slow: {NO_THROTTLE}")
        return self._throttles
