"""Reachability of nodes: a datagram over every pair of nodes before, during and after each fault."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import structlog

from fencepost.harness.api import Cluster, Pair, Partitionable
from fencepost.harness.api.clusters import second_of, services_of

PROBES, PATIENT_PROBES = 2, 8  # a datagram may be late on a busy machine; a probe that misses one waits a quarter of a second

log = structlog.get_logger()


@dataclass(frozen=True)
class Reachability:
    """All pairs of nodes at one moment.

    closed: the pairs that no datagram crossed.
    """

    nodes: tuple[str, ...]
    closed: tuple[Pair, ...]

    def plain(self) -> list[str]:
        """The closed pairs as a receipt has them: `n1>n2`."""
        return [f"{source}>{destination}" for source, destination in self.closed]


def probe_pairs(cluster: Cluster, meant: Iterable[Pair] = (), probes: int = PROBES) -> Reachability | None:
    """Probe all pairs of brokers, controllers and clients; None where nodes have no network of their own, or it cannot be probed.

    Probes again, at most `probes` times, while a pair is closed that is not meant to be.
    """
    if not isinstance(cluster, Partitionable) or cluster.unavailable(Partitionable):
        return None
    second = second_of(cluster)
    servers = (*cluster.brokers, *cluster.controllers, *(second.brokers if second else ()))
    nodes = tuple(dict.fromkeys((*servers, *services_of(cluster), *cluster.clients)))
    left, meant = list(permutations(nodes, 2)), set(meant)
    try:
        for _ in range(probes):
            left = [pair for pair, arrived in cluster.probe(left).items() if not arrived]
            if meant.issuperset(left):
                break
    except Exception as error:  # noqa: BLE001 - a cluster may be anybody's; a fault must not fail for a probe
        log.warning("probe failed", error=f"{type(error).__name__}: {error}")
        return None
    return Reachability(nodes, tuple(sorted(left)))


def reach_field(before: Reachability | None, during: Reachability | None) -> dict[str, Any]:
    """A receipt's `reach` before healing: all nodes, and the closed pairs before and during the fault."""
    if before is None or during is None:
        return {}
    nodes = tuple(dict.fromkeys((*before.nodes, *during.nodes)))
    return {"nodes": list(nodes), "before": before.plain(), "during": during.plain()}


def closed_pairs_note(reach: Mapping[str, Any], after: Reachability | None, cut: Collection[Pair], hurt: Collection[str]) -> str:
    """The remark of a receipt on pairs that are closed after healing and that this fault may have closed; else empty.

    reach: the receipt's, before healing; the fault did not close what was closed before it.
    cut: pairs that other faults cut around the time of `after`.
    hurt: nodes that other faults hurt around that time (a dead node's network may be gone).
    """
    if after is None:
        return ""
    before = set(reach.get("before", ()))
    closed = [pair for pair in after.closed if pair not in cut and not {*pair} & {*hurt}]
    left = [text for text in (f"{source}>{destination}" for source, destination in closed) if text not in before]
    return f"nothing crosses {', '.join(left)} after healing" if left else ""
