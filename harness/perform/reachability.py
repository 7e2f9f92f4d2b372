"""Who reaches whom: a datagram over every pair of nodes, around each fault, whatever the fault itself looks at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import structlog

from harness.api import Cluster, Pair, Partitionable

LOOKS, PATIENT_LOOKS = 2, 8  # a datagram may be late on a busy machine; each look that misses one waits a quarter of a second

log = structlog.get_logger()


@dataclass(frozen=True)
class Reachability:
    """One look at all pairs. closed: those that nothing crossed."""

    nodes: tuple[str, ...]
    closed: tuple[Pair, ...]

    def plain(self) -> list[str]:
        """As in a receipt: `n1>n2` for each closed pair."""
        return [f"{source}>{destination}" for source, destination in self.closed]


def look(cluster: Cluster, meant: Iterable[Pair] = (), looks: int = LOOKS) -> Reachability | None:
    """All pairs of brokers, controllers and clients; None where nodes have no network of their own, or none that could be asked.

    Looks again, at most so often, while a pair is closed that is not meant to be.
    """
    if not isinstance(cluster, Partitionable) or cluster.unavailable(Partitionable):
        return None
    nodes = tuple(dict.fromkeys((*cluster.brokers, *cluster.controllers, *cluster.clients)))
    left, meant = list(permutations(nodes, 2)), set(meant)
    try:
        for _ in range(looks):
            left = [pair for pair, arrived in cluster.probe(left).items() if not arrived]
            if meant.issuperset(left):
                break
    except Exception as error:  # noqa: BLE001 - a cluster may be anybody's; a fault must not fail for a look at it
        log.warning("probe failed", error=f"{type(error).__name__}: {error}")
        return None
    return Reachability(nodes, tuple(sorted(left)))


def told(before: Reachability | None, during: Reachability | None) -> dict[str, Any]:
    """A receipt's `reach` before healing: all nodes, and the closed pairs before and during the fault."""
    if before is None or during is None:
        return {}
    nodes = tuple(dict.fromkeys((*before.nodes, *during.nodes)))
    return {"nodes": list(nodes), "before": before.plain(), "during": during.plain()}


def still_closed(after: Reachability | None, meant: Iterable[Pair]) -> str:
    """What `note` gets when healing did not open every pair that no other fault holds; "" when it did."""
    left = (
        [] if after is None else [text for pair, text in zip(after.closed, after.plain(), strict=True) if pair not in set(meant)]
    )
    return f"nothing crosses {', '.join(left)} after healing" if left else ""
