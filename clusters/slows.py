"""Who is slow for whom: the book of it, and the program at each node that holds packets back (`slow_links.py`)."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from abc import abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from clusters import packets, queue_rules
from clusters.packets import Drops
from clusters.probes import PROBE_S
from clusters.slow_links import FULL_S
from harness.api import ClusterError, Losable, Pair, Slowable


class Slower:
    """The program, started in the present network namespace, and the rules that bring packets to it; asked one thing at a time.

    Use it in that namespace. Raises ClusterError with the program's last words when it ends, or cannot start.
    """

    def __init__(self) -> None:
        argv = [sys.executable, "-m", "clusters.slow_links"]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._asking = threading.Lock()
        self._rules: dict[str, int] = {}  # address -> its rule
        self._numbers: dict[str, set[int]] = {}  # address -> what slows it
        queue_rules.open_chain()
        self._reply()

    def slow(self, number: int, address: str, **how: float) -> None:
        """Hold back what `address` sends here; how: `delay_ms`, `jitter_ms`, `kbit_s`."""
        with self._asking:
            self._ask(do="slow", number=number, address=address, **how)
            self._numbers.setdefault(address, set()).add(number)
            if address not in self._rules:
                self._rules[address] = queue_rules.add_rule(address)

    def unslow(self, number: int, address: str) -> tuple[int, int]:
        """End it; packets (seen, dropped)."""
        with self._asking:
            numbers = self._numbers.get(address, set())
            numbers.discard(number)
            if not numbers and address in self._rules:
                queue_rules.delete_rule(self._rules.pop(address))
            reply = self._ask(do="unslow", number=number, address=address)
            return int(reply["seen"]), int(reply["dropped"])

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # its last words say more
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        return self._reply()

    def _reply(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            _, said = self._process.communicate()
            last = (said.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
            raise ClusterError(f"the program that holds packets back ended with status {self._process.returncode}: {last}")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def close(self) -> None:
        """End it: what waits is lost, what comes passes."""
        self._process.kill()
        self._process.communicate()


class Slows(Drops):
    """Which pairs are cut, lossy or slow now. Safe to use from several threads."""

    def __init__(self) -> None:
        super().__init__()
        self._slow: dict[int, list[Pair]] = {}
        self._longest_s: dict[int, float] = {}  # how long each of them may hold a packet back

    @abstractmethod
    def _address(self, node: str) -> str:
        """Raises ClusterError for an unknown node."""

    @abstractmethod
    def _slow_at(self, node: str, number: int, address: str, **how: float) -> None:
        """`Slower.slow` at `node`; the program there is started when it is first needed."""

    @abstractmethod
    def _unslow_at(self, node: str, number: int, address: str) -> tuple[int, int]:
        """`Slower.unslow` at `node`."""

    def slow(self, pairs: Iterable[Pair], delay_ms: float = 0.0, jitter_ms: float = 0.0, kbit_s: float = 0.0) -> int:
        """Hold back the packets of each pair, beside what holds them back already; a number for `unslow`."""
        with self._lock:
            self._numbers += 1
            made = self._slow[self._numbers] = []
            self._longest_s[self._numbers] = (delay_ms + jitter_ms) / 1000 + (FULL_S if kbit_s else 0.0)
            how = {"delay_ms": delay_ms, "jitter_ms": jitter_ms, "kbit_s": kbit_s}
            try:
                for pair in pairs:
                    self._slow_at(pair[1], self._numbers, self._address(pair[0]), **how)
                    made.append(pair)
            except Exception:
                self.unslow(self._numbers)
                raise
            return self._numbers

    def unslow(self, number: int) -> dict[Pair, tuple[int, int]]:
        """End it; packets (seen, dropped for want of room) of each pair since `slow`. Nothing for what has ended already."""
        with self._lock:
            ended = {}
            self._longest_s.pop(number, None)
            for pair in self._slow.pop(number, []):
                ended[pair] = self._unslow_at(pair[1], number, self._address(pair[0]))
            return ended

    def patience_s(self) -> float:
        """How long to wait for a probe: a slow link is not a closed one."""
        with self._lock:
            return PROBE_S + sum(self._longest_s.values())

    def undrop_all(self) -> None:
        """Let every pair talk again, without any loss or delay."""
        with self._lock:
            for number in list(self._slow):
                self.unslow(number)
            super().undrop_all()


def lacks() -> dict[str, str]:
    """Names of capabilities that the present network namespace has not, found out by trying, each with the reason."""
    found = {Losable.__name__: packets.loss_trouble(), Slowable.__name__: queue_rules.trouble()}
    return {name: reason for name, reason in found.items() if reason}
