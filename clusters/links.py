"""What a cluster whose nodes have a network of ours can do to it, wherever that network is (`local`, `docker`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from harness.api import Losable, Measurable, Pair, Partitionable, Took

NEED_A_NETWORK: tuple[type, ...] = (Partitionable, Measurable, Losable)


class Links(Partitionable, Losable, Protocol):
    """The network of a cluster."""

    def losing_trouble(self) -> str:
        """Why no share of packets can be lost here, found out by trying; empty when it can."""


class LinkFaults(ABC):
    """`Partitionable`, `Measurable` and `Losable`, by a cluster's network."""

    @abstractmethod
    def _links(self) -> Links:
        """The network. Raises ClusterError where there is none."""

    def _links_lack(self, capability: type) -> str | None:
        """Why the network cannot do this, or None."""
        trials: dict[Any, Callable[[], str]] = {Losable: self._links().losing_trouble}
        return trials[capability]() or None if capability in trials else None

    def drop(self, pairs: Iterable[Pair]) -> None:
        self._links().drop(pairs)

    def undrop(self, pairs: Iterable[Pair]) -> None:
        self._links().undrop(pairs)

    def probe(self, pairs: Iterable[Pair]) -> dict[Pair, bool]:
        return self._links().probe(pairs)

    def dropped_packets(self, pairs: Iterable[Pair]) -> dict[Pair, int]:
        return self._links().dropped_packets(pairs)

    def measure(self, pairs: Iterable[Pair], packets: int, size: int = 64, within_s: float = 1.0) -> dict[Pair, Took]:
        return self._links().measure(pairs, packets, size, within_s)

    def lose(self, pairs: Iterable[Pair], share: float) -> int:
        return self._links().lose(pairs, share)

    def unlose(self, number: int) -> dict[Pair, tuple[int, int]]:
        return self._links().unlose(number)
