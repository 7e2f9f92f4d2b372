"""The capabilities of a cluster about its network, for every provider that controls the network of its nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from fencepost.clusters.fault_tools.link_table import LinkTable
from fencepost.harness.api import Losable, Measurable, PacketTimes, Pair, Partitionable, Slowable

NETWORK_CAPABILITIES: tuple[type, ...] = (Partitionable, Measurable, Losable, Slowable)


class NetworkCapabilities(ABC):
    """`Partitionable`, `Measurable`, `Losable` and `Slowable`, passed on to the cluster's network."""

    @abstractmethod
    def _usable_network(self) -> LinkTable:
        """The network. Raises ClusterError where there is none."""

    def _missing_in_network(self, capability: type) -> str | None:
        """The reason why the network cannot do this, or None."""
        if capability not in NETWORK_CAPABILITIES:
            return None
        return self._usable_network().missing_capabilities().get(capability.__name__)

    def drop(self, pairs: Iterable[Pair]) -> None:
        self._usable_network().drop(pairs)

    def undrop(self, pairs: Iterable[Pair]) -> None:
        self._usable_network().undrop(pairs)

    def probe(self, pairs: Iterable[Pair]) -> dict[Pair, bool]:
        return self._usable_network().probe(pairs)

    def dropped_packets(self, pairs: Iterable[Pair]) -> dict[Pair, int]:
        return self._usable_network().dropped_packets(pairs)

    def measure(self, pairs: Iterable[Pair], packets: int, size: int = 64, within_s: float = 1.0) -> dict[Pair, PacketTimes]:
        return self._usable_network().measure(pairs, packets, size, within_s)

    def lose(self, pairs: Iterable[Pair], share: float) -> int:
        return self._usable_network().lose(pairs, share)

    def unlose(self, number: int) -> dict[Pair, tuple[int, int]]:
        return self._usable_network().unlose(number)

    def slow(self, pairs: Iterable[Pair], delay_ms: float = 0.0, jitter_ms: float = 0.0, kbit_s: float = 0.0) -> int:
        return self._usable_network().slow(pairs, delay_ms, jitter_ms, kbit_s)

    def unslow(self, number: int) -> dict[Pair, tuple[int, int]]:
        return self._usable_network().unslow(number)
