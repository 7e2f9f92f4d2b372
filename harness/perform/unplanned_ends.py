"""Brokers, and proxies before them, that end though no fault ends them: by themselves, or by somebody (the kernel, for memory).

What follows from such an end looks like what follows from a fault, and no receipt tells of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from fencepost.harness.api import Cluster, ClusterError, Interceptable, Killable, ReportsUnreachable

EVERY_S = 2.0


@dataclass
class UnplannedEnds:
    """The looks of one run for what has ended.

    hurt: the servers that faults hurt now.
    tell: gets all that has ended so far, in words, whenever there is more.
    """

    cluster: Cluster
    hurt: Callable[[], Collection[str]]
    tell: Callable[[Sequence[str]], None]
    clock: Callable[[], float] = time.monotonic
    names: list[str] = field(default_factory=list)
    _missing: set[str] = field(default_factory=set)  # at the look before
    _looked_s: float = float("-inf")

    def look(self) -> None:
        """Look, if the look before is `EVERY_S` ago. What is missing counts at the second look: a fault may just be striking."""
        if self.clock() - self._looked_s >= EVERY_S:
            missing = self._not_running() - set(self.hurt())
            self._add(missing & self._missing)
            self._missing, self._looked_s = missing, self.clock()

    def look_at_the_end(self) -> None:
        """Look when no fault is under way any more."""
        self._add(self._not_running() - set(self.hurt()))

    def _not_running(self) -> set[str]:
        """What is known not to run; nothing where that cannot be asked now."""
        try:
            return self._seen()
        except ClusterError:
            return set()

    def _seen(self) -> set[str]:
        cluster = self.cluster
        brokers = set[str]()
        if isinstance(cluster, ReportsUnreachable):
            brokers.update(cluster.unreachable_brokers())
        elif isinstance(cluster, Killable):
            brokers.update(node for node in cluster.brokers if cluster.pid(node) is None)
        proxied = cluster.proxied() if isinstance(cluster, Interceptable) else {}
        return brokers | {f"the proxy before {node}" for node, runs in proxied.items() if not runs}

    def _add(self, ended: Collection[str]) -> None:
        if more := sorted(set(ended) - set(self.names)):
            self.names += more
            self.tell(self.names)
