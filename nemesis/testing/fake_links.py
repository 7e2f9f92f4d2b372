"""The links of the cluster in memory (`nemesis.testing.FakeCluster`): cuts, loss, latency, bandwidth, without chance or time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from fencepost.harness.api import PacketTimes, Pair


class FakeLinks(ABC):
    """`Partitionable`, `Losable` and `Slowable`. Nothing that is done to `leaky` pairs has an effect."""

    def __init__(self) -> None:
        self.leaky: set[Pair] = set()
        self.calls: list[tuple[str, Any]] = []
        self._dropped: dict[Pair, int] = {}
        self._losing: dict[int, tuple[float, dict[Pair, list[int]]]] = {}  # share, and of each pair packets [seen, lost]
        self._slow: dict[int, tuple[float, float, dict[Pair, int]]] = {}  # delay, rate, and packets seen of each pair
        self._numbers = 0

    @abstractmethod
    def _require_known(self, node: str) -> None:
        """Raises ClusterError for an unknown node."""

    def drop(self, pairs: Iterable[Pair]) -> None:
        wanted = self._known_pairs("drop", pairs)
        self._dropped.update({pair: 0 for pair in wanted if pair not in self._dropped})

    def undrop(self, pairs: Iterable[Pair]) -> None:
        for pair in self._known_pairs("undrop", pairs):
            self._dropped.pop(pair, None)

    def probe(self, pairs: Iterable[Pair]) -> dict[Pair, bool]:
        return {pair: self.send(*pair) for pair in pairs}

    def dropped_packets(self, pairs: Iterable[Pair]) -> dict[Pair, int]:
        return {pair: self._dropped.get(pair, 0) for pair in pairs}

    def send(self, source: str, destination: str) -> bool:
        """One packet from node to node; whether it arrives. Frozen and dead nodes still have a network.

        Loss is not random: of a share of a half every second packet is lost, and so on.
        """
        pair = (source, destination)
        if pair in self.leaky:
            return True
        if pair in self._dropped:
            self._dropped[pair] += 1
            return False
        return not any(self._loses(pair, share, counts[pair]) for share, counts in self._losing.values() if pair in counts)

    def _loses(self, pair: Pair, share: float, counted: list[int]) -> bool:
        counted[0] += 1
        lost = int(counted[0] * share + 1e-9) > counted[1]
        counted[1] += lost
        return lost

    def lose(self, pairs: Iterable[Pair], share: float) -> int:
        self._numbers += 1
        self._losing[self._numbers] = (share, {pair: [0, 0] for pair in self._known_pairs("lose", pairs)})
        return self._numbers

    def unlose(self, number: int) -> dict[Pair, tuple[int, int]]:
        self._done("unlose", number)
        _, counts = self._losing.pop(number, (0.0, {}))
        return {pair: (seen, lost) for pair, (seen, lost) in counts.items()}

    def slow(self, pairs: Iterable[Pair], delay_ms: float = 0.0, jitter_ms: float = 0.0, kbit_s: float = 0.0) -> int:
        self._numbers += 1
        self._slow[self._numbers] = (delay_ms, kbit_s, dict.fromkeys(self._known_pairs("slow", pairs), 0))
        return self._numbers

    def unslow(self, number: int) -> dict[Pair, tuple[int, int]]:
        self._done("unslow", number)
        _, _, seen = self._slow.pop(number, (0.0, 0.0, {}))
        return {pair: (count, 0) for pair, count in seen.items()}

    def measure(self, pairs: Iterable[Pair], packets: int, size: int = 64, within_s: float = 1.0) -> dict[Pair, PacketTimes]:
        """A tenth of a millisecond each, and what `slow` adds; nothing arrives later than `within_s`."""
        return {pair: [self._packet_ms(pair, number, size, within_s) for number in range(packets)] for pair in pairs}

    def _packet_ms(self, pair: Pair, number: int, size: int, within_s: float) -> float | None:
        took_ms = 0.1
        for delay_ms, kbit_s, seen in self._slow.values():
            if pair in seen and pair not in self.leaky:
                seen[pair] += 1
                took_ms += delay_ms + ((number + 1) * size * 8 / kbit_s if kbit_s else 0.0)
        return took_ms if self.send(*pair) and took_ms <= within_s * 1000 else None

    def closed(self) -> set[Pair]:
        """The pairs that cannot talk now."""
        return set(self._dropped) - self.leaky

    def links_whole(self) -> bool:
        """Return whether no link is cut, lossy or slow."""
        return not (self._dropped or self._losing or self._slow)

    def mend_links(self) -> None:
        for hurt in (self._dropped, self._losing, self._slow):
            hurt.clear()

    def _done(self, verb: str, what: Any) -> None:
        self.calls.append((verb, what))

    def _known_pairs(self, verb: str, pairs: Iterable[Pair]) -> list[Pair]:
        wanted = list(pairs)
        for source, destination in wanted:
            self._require_known(source)
            self._require_known(destination)
        self._done(verb, tuple(wanted))
        return wanted
