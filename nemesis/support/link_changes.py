"""Links that faults have made slow or lossy, so that each fault knows whether what it measures is another one's doing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fencepost.harness.api import ClusterView, Pair, Receipt

Change = tuple[str, int]  # the call that began it, and the number that it returned
Counted = Mapping[Pair, tuple[int, int]]  # of each link: packets seen, and those of them that were dropped


class LinkChanges:
    """The changes of links' quality that faults have begun and not ended. Safe to use from several threads."""

    def __init__(self) -> None:
        self._pairs: dict[Change, set[Pair]] = {}
        self._lock = threading.Lock()

    def begin(self, change: Change, pairs: Iterable[Pair]) -> None:
        with self._lock:
            self._pairs[change] = set(pairs)

    def end(self, change: Change) -> None:
        with self._lock:
            self._pairs.pop(change, None)

    def changed(self) -> set[Pair]:
        """The links that are slow or lossy on purpose now."""
        with self._lock:
            return {pair for pairs in self._pairs.values() for pair in pairs}


def begin(cluster: ClusterView, call: str, number: int, pairs: Iterable[Pair]) -> int:
    """Note that links have been changed by `slow` or `lose`, which returned this number; the number."""
    cluster.shared(LinkChanges).begin((call, number), pairs)
    return number


def end(cluster: ClusterView, call: str, number: int | None, undo: Callable[[int], Counted]) -> Counted:
    """Undo what `begin` noted, by `unslow` or `unlose`; what that returns. Nothing when there is nothing to undo."""
    if number is None:
        return {}
    counted = undo(number)
    cluster.shared(LinkChanges).end((call, number))
    return counted


def is_over(receipt: Receipt, counted: Counted) -> bool:
    """True when there is nothing more to measure: it was healed before, or was never measured."""
    return not counted and bool(receipt.healing or "before" not in receipt.evidence)


def as_json(counted: Counted, second: str) -> dict[str, dict[str, int]]:
    """Counts as plain JSON: `n1>n2` -> seen, and what the second number is of."""
    return {f"{source}>{destination}": {"seen": seen, second: some} for (source, destination), (seen, some) in counted.items()}


def links_of(receipt: Receipt) -> list[Pair]:
    """The links that were measured before."""
    names = [str(name).partition(">") for name in receipt.evidence.get("before", {})]
    return [(source, destination) for source, _, destination in names]


def still_hurt(cluster: ClusterView, links: Mapping[str, Any]) -> list[str]:
    """Of links that are still bad after healing, those that no other fault has made so."""
    others = {f"{source}>{destination}" for source, destination in cluster.shared(LinkChanges).changed()}
    return [link for link in links if link not in others]
