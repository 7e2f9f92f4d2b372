"""The table of links: which pairs of nodes are dropped, lose packets or are slow now. Base class of every cluster's network."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from fencepost.clusters.fault_tools.delay_program import FULL_S
from fencepost.clusters.fault_tools.drop_table import DropTable
from fencepost.clusters.fault_tools.probes import PROBE_S
from fencepost.clusters.fault_tools.undo import undo_each
from fencepost.harness.api import ClusterError, PacketTimes, Pair


class LinkTable(DropTable):
    """The table of pairs that are dropped, lose packets or are slow now. Safe to use from several threads."""

    def __init__(self) -> None:
        super().__init__()
        self._delayed: dict[int, list[Pair]] = {}
        self._delay_counts: dict[int, dict[Pair, tuple[int, int]]] = {}  # packets (seen, dropped) while they end
        self._longest_delay_s: dict[int, float] = {}  # how long each of them may delay a packet

    @abstractmethod
    def probe(self, pairs: Iterable[Pair]) -> dict[Pair, bool]:
        """Return for each pair whether a datagram sent now arrives within `probe_timeout_s`."""

    @abstractmethod
    def measure(self, pairs: Iterable[Pair], packets: int, size: int = 64, within_s: float = 1.0) -> dict[Pair, PacketTimes]:
        """The times of some datagrams of each pair (`harness.api.Measurable`)."""

    @abstractmethod
    def missing_capabilities(self) -> dict[str, str]:
        """Names of the capabilities that the network lacks, found out by a trial, each with the reason."""

    @abstractmethod
    def _delay_at(self, source: str, destination: str, number: int, **how: float) -> None:
        """`DelayProcess.slow` for what `source` sends, at `destination`; the first call starts the program there.

        Raises ClusterError for an unknown node.
        """

    @abstractmethod
    def _undelay_at(self, source: str, destination: str, number: int) -> tuple[int, int]:
        """`DelayProcess.unslow`, likewise."""

    def slow(self, pairs: Iterable[Pair], delay_ms: float = 0.0, jitter_ms: float = 0.0, kbit_s: float = 0.0) -> int:
        """Delay the packets of each pair, in addition to present delays; a number for `unslow`."""
        with self._lock:
            self._last_number += 1
            made = self._delayed[self._last_number] = []
            self._longest_delay_s[self._last_number] = (delay_ms + jitter_ms) / 1000 + (FULL_S if kbit_s else 0.0)
            how: dict[str, Any] = {"delay_ms": delay_ms, "jitter_ms": jitter_ms, "kbit_s": kbit_s}
            try:
                for pair in pairs:
                    self._delay_at(*pair, self._last_number, **how)
                    made.append(pair)
            except Exception:
                with suppress(ClusterError):  # the cause says more, and `undrop_all` ends what is left
                    self.unslow(self._last_number)
                raise
            return self._last_number

    def unslow(self, number: int) -> dict[Pair, tuple[int, int]]:
        """End a delay; packets (seen, dropped by a full queue) of each pair since `slow`. Empty when it has ended already."""
        with self._lock:
            made, ended = self._delayed.get(number, []), self._delay_counts.setdefault(number, {})

            def unslow(pair: Pair) -> None:
                ended[pair] = self._undelay_at(*pair, number)
                made.remove(pair)

            undo_each(unslow, list(made))
            self._delayed.pop(number, None)
            self._longest_delay_s.pop(number, None)
            return self._delay_counts.pop(number)

    def probe_timeout_s(self) -> float:
        """The time to wait for a probe: longer while a link is slow."""
        with self._lock:
            return PROBE_S + sum(self._longest_delay_s.values())

    def undrop_all(self) -> None:
        """End every drop, loss and delay."""
        with self._lock:
            undo_each(lambda undo: undo(), [self._undelay_all, super().undrop_all])

    def _undelay_all(self) -> None:
        undo_each(self.unslow, list(self._delayed))
