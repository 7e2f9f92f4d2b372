"""Faults that take the newest records of a broker: one at a time, so that the others have what it lost.

Contracts promise that nothing is lost when this happens to one replica at a time, the next only once the one before is in sync
again (`power_failures`, `corruption`). Faults of several lanes, or in quick succession, must not break that unasked.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from fencepost.harness.api import ClusterError, ClusterView
from fencepost.harness.api.words import enumeration, form
from fencepost.nemesis.support.cluster_types import CorruptibleCluster, PoweredCluster
from fencepost.nemesis.support.no_effect import no_target_on_error
from fencepost.nemesis.support.waiting import poll_until

IN_SYNC_WITHIN_S = 30.0
LosingCluster = PoweredCluster | CorruptibleCluster


class LostLogs:
    """The brokers that lost their newest records, until they are seen in sync again.

    lock: held from looking at the others to striking.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.nodes: set[str] = set()


@contextmanager
def one_at_a_time(cluster: LosingCluster, role: str, nodes: Iterable[str]) -> Iterator[None]:
    """Raise NoEffect, with nothing hurt, when a broker that lost records, other than `nodes`, is not in sync in time.

    Strike inside.
    """
    lost = cluster.shared(LostLogs)
    with lost.lock:
        with no_target_on_error(role):
            others = lost.nodes.difference(nodes)
            behind = poll_until(lambda: _behind(cluster, others), lambda left: not left, IN_SYNC_WITHIN_S)
            lost.nodes -= others.difference(behind)
            if behind:
                raise ClusterError(
                    f"{enumeration(behind)}, which lost records before, {form(len(behind), 'is', 'are')} out of sync"
                )
        yield


def note_lost(cluster: ClusterView, nodes: Iterable[str]) -> None:
    """Note brokers that lost their newest records."""
    lost = cluster.shared(LostLogs)
    with lost.lock:
        lost.nodes |= set(nodes)


def _behind(cluster: LosingCluster, nodes: set[str]) -> list[str]:
    """The nodes that are silent, or out of sync somewhere. Raises ClusterError when nobody answers.

    A broker that has just died is in sync for the controller until its session times out.
    """
    if silent := sorted(node for node in nodes if not cluster.answers(node)):
        return silent
    placements = cluster.admin().placements().values() if nodes else ()
    return sorted({node for place in placements for node in nodes.intersection(place.replicas) - set(place.in_sync)})
