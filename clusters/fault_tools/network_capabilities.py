"""What a cluster whose nodes have a network of ours can do to it, wherever that network is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Protocol

from harness.api import Losable, Measurable, PacketTimes, Pair, Partitionable, Slowable

NEED_A_NETWORK: tuple[type, ...] = (Partitionable, Measurable, Losable, Slowable)


class Links(Partitionable, Losable, Slowable, Protocol):
    """The network of a cluster."""

    def lacks(self) -> dict[str, str]:
        """Names of capabilities that it has not, found out by trying, each with the reason."""


class LinkFaults(ABC):
    """`Partitionable`, `Measurable`, `Losable` and `Slowable`, by a cluster's network."""

    @abstractmethod
    def _links(self) -> Links:
        """The network. Raises ClusterError where there is none."""

    def _links_lack(self, capability: type) -> str | None:
        """Why the network cannot do this, or None."""
        return self._links().lacks().get(capability.__name__) if capability in NEED_A_NETWORK else None

    def drop(self, pairs: Iterable[Pair]) -> None:
        self._links().drop(pairs)

    def undrop(self, pairs: Iterable[Pair]) -> None:
        self._links().undrop(pairs)

    def probe(self, pairs: Iterable[Pair]) -> dict[Pair, bool]:
        return self._links().probe(pairs)

    def dropped_packets(self, pairs: Iterable[Pair]) -> dict[Pair, int]:
        return self._links().dropped_packets(pairs)

    def measure(self, pairs: Iterable[Pair], packets: int, size: int = 64, within_s: float = 1.0) -> dict[Pair, PacketTimes]:
        return self._links().measure(pairs, packets, size, within_s)

    def lose(self, pairs: Iterable[Pair], share: float) -> int:
        return self._links().lose(pairs, share)

    def unlose(self, number: int) -> dict[Pair, tuple[int, int]]:
        return self._links().unlose(number)

    def slow(self, pairs: Iterable[Pair], delay_ms: float = 0.0, jitter_ms: float = 0.0, kbit_s: float = 0.0) -> int:
        return self._links().slow(pairs, delay_ms, jitter_ms, kbit_s)

    def unslow(self, number: int) -> dict[Pair, tuple[int, int]]:
        return self._links().unslow(number)
