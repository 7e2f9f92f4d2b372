"""Who is slow for whom: the book of it, and the program at each node that holds packets back (`slow_links.py`)."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from clusters.fault_tools import packet_rules, queue_rules
from clusters.fault_tools.delay_process import Holder
from clusters.fault_tools.delay_program import FULL_S
from clusters.fault_tools.packet_rules import Drops
from clusters.fault_tools.probes import PROBE_S
from clusters.fault_tools.undo import one_by_one
from harness.api import ClusterError, Losable, Pair, Slowable


class Slower(Holder):
    """The program, started in the present network namespace, and the rules that bring packets to it. Use it in that namespace."""

    error = ClusterError

    def __init__(self) -> None:
        super().__init__([sys.executable, "-m", "clusters.fault_tools.delay_program"])
        self._rules: dict[str, int] = {}  # address -> its rule
        queue_rules.open_chain()

    def _bring(self, address: str) -> None:
        self._rules[address] = queue_rules.add_rule(address)

    def _spare(self, address: str) -> None:
        queue_rules.delete_rule(self._rules[address])
        del self._rules[address]


class Slows(Drops):
    """Which pairs are cut, lossy or slow now. Safe to use from several threads."""

    def __init__(self) -> None:
        super().__init__()
        self._slow: dict[int, list[Pair]] = {}
        self._slowed: dict[int, dict[Pair, tuple[int, int]]] = {}  # packets (seen, dropped) of those of them that end now
        self._longest_s: dict[int, float] = {}  # how long each of them may hold a packet back

    @abstractmethod
    def _slow_at(self, source: str, destination: str, number: int, **how: float) -> None:
        """`Holder.slow` for what `source` sends, at `destination`; the program there is started when it is first needed.

        Raises ClusterError for an unknown node.
        """

    @abstractmethod
    def _unslow_at(self, source: str, destination: str, number: int) -> tuple[int, int]:
        """`Holder.unslow`, likewise."""

    def slow(self, pairs: Iterable[Pair], delay_ms: float = 0.0, jitter_ms: float = 0.0, kbit_s: float = 0.0) -> int:
        """Hold back the packets of each pair, beside what holds them back already; a number for `unslow`."""
        with self._lock:
            self._numbers += 1
            made = self._slow[self._numbers] = []
            self._longest_s[self._numbers] = (delay_ms + jitter_ms) / 1000 + (FULL_S if kbit_s else 0.0)
            how: dict[str, Any] = {"delay_ms": delay_ms, "jitter_ms": jitter_ms, "kbit_s": kbit_s}
            try:
                for pair in pairs:
                    self._slow_at(*pair, self._numbers, **how)
                    made.append(pair)
            except Exception:
                with suppress(ClusterError):  # the cause says more, and what stays is ended by `undrop_all`
                    self.unslow(self._numbers)
                raise
            return self._numbers

    def unslow(self, number: int) -> dict[Pair, tuple[int, int]]:
        """End it; packets (seen, dropped for want of room) of each pair since `slow`. Nothing for what has ended already."""
        with self._lock:
            made, ended = self._slow.get(number, []), self._slowed.setdefault(number, {})

            def unslow(pair: Pair) -> None:
                ended[pair] = self._unslow_at(*pair, number)
                made.remove(pair)

            one_by_one(unslow, list(made))
            self._slow.pop(number, None)
            self._longest_s.pop(number, None)
            return self._slowed.pop(number)

    def patience_s(self) -> float:
        """How long to wait for a probe: a slow link is not a closed one."""
        with self._lock:
            return PROBE_S + sum(self._longest_s.values())

    def undrop_all(self) -> None:
        """Let every pair talk again, without any loss or delay."""
        with self._lock:
            one_by_one(lambda end: end(), [self._unslow_all, super().undrop_all])

    def _unslow_all(self) -> None:
        one_by_one(self.unslow, list(self._slow))


def lacks() -> dict[str, str]:
    """Names of capabilities that the present network namespace has not, found out by trying, each with the reason."""
    found = {Losable.__name__: packet_rules.loss_trouble(), Slowable.__name__: queue_rules.trouble()}
    return {name: reason for name, reason in found.items() if reason}
