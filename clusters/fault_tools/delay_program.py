"""Holds back what chosen addresses send to this network namespace: `python -m clusters.fault_tools.delay_program`.

Packets of an address keep their order; each waits for the link to be free, then for its delay. One JSON object per line on
standard input, each answered by one; it ends, and with it every delay, when its standard input does. It starts in a tenth of a
second, since every node may need one: the rules that bring packets here are made by who starts it (`holder.py`). Standard
library only, for it is carried to hosts too (`ssh`).

    {"do": "slow", "number": N, "address": A, "delay_ms": D, "jitter_ms": J, "kbit_s": K} -> {}
    {"do": "unslow", "number": N, "address": A} -> {"seen": packets, "dropped": packets}
"""

from __future__ import annotations

import json
import os
import select
import time
from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Any

from clusters.fault_tools.packet_queue import NUMBER, Queue

FULL_S = 0.5  # a narrow link has room for what it can send in this time; what comes then is dropped


@dataclass
class Slow:
    """One slowness of one link: a delay (with jitter, uniform to either side) and a rate in bytes per second (0: any)."""

    delay_s: float = 0.0
    jitter_s: float = 0.0
    bytes_s: float = 0.0
    random: Random = field(default_factory=Random)
    free_s: float = 0.0  # when all that came before has been sent
    seen: int = 0
    dropped: int = 0

    def leaves(self, now_s: float, size: int) -> float | None:
        """When a packet that comes now may go on; None when the link has no room for it."""
        self.seen += 1
        begins_s = max(now_s, self.free_s)
        if begins_s - now_s > FULL_S:
            self.dropped += 1
            return None
        if self.bytes_s:
            begins_s = self.free_s = begins_s + size / self.bytes_s
        return begins_s + max(0.0, self.delay_s + self.jitter_s * self.random.uniform(-1, 1))


class Line:
    """What waits from one address, in order; `slows` by number, each of which holds back what the one before let go."""

    def __init__(self) -> None:
        self.slows: dict[int, Slow] = {}
        self.waiting: deque[tuple[float, Any]] = deque()
        self._last_s = 0.0

    def take(self, packet: Any, size: int, now_s: float) -> bool:
        """Let a packet wait; False when it is dropped."""
        leaves_s = now_s
        for slow in self.slows.values():
            on = slow.leaves(leaves_s, size)
            if on is None:
                return False
            leaves_s = on
        self._last_s = max(self._last_s, leaves_s)
        self.waiting.append((self._last_s, packet))
        return True

    def due(self, now_s: float) -> list[Any]:
        """The packets whose time has come, or all when nothing holds them back any more."""
        gone = []
        while self.waiting and (not self.slows or self.waiting[0][0] <= now_s):
            gone.append(self.waiting.popleft()[1])
        return gone


class Program:
    """A queue of this namespace, and a line for every address that is slowed."""

    def __init__(self, number: int = NUMBER) -> None:
        self._queue = Queue(number)
        self._lines: dict[str, Line] = {}

    def serve(self) -> None:
        """Until standard input ends."""
        _tell({"ready": True})
        pending = b""
        while True:
            ready, _, _ = select.select([0, self._queue.fileno()], [], [], self._wait_s())
            if self._queue.fileno() in ready:
                self._take()
            if 0 in ready:
                read = os.read(0, 65536)
                if not read:
                    return
                *lines, pending = (pending + read).split(b"\n")
                for line in lines:
                    _tell(self._answer(json.loads(line)))
            self._let_go()

    def _wait_s(self) -> float | None:
        heads = [line.waiting[0][0] for line in self._lines.values() if line.waiting]
        return max(0.0, min(heads) - time.monotonic()) if heads else None

    def _take(self) -> None:
        for packet in self._queue.arrived():
            line = self._lines.get(packet.address)
            if line is None:
                self._queue.let_go(packet)
            elif not line.take(packet, packet.size, time.monotonic()):
                self._queue.drop(packet)

    def _let_go(self) -> None:
        now_s = time.monotonic()
        for line in self._lines.values():
            for packet in line.due(now_s):
                self._queue.let_go(packet)

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        line = self._lines.setdefault(request["address"], Line())
        if request["do"] == "slow":
            rate = request["kbit_s"] * 125.0
            slow = Slow(request["delay_ms"] / 1e3, request["jitter_ms"] / 1e3, rate, Random(request["number"]))
            line.slows[request["number"]] = slow
            return {}
        self._take()  # what came by the rule that is gone now
        slow = line.slows.pop(request["number"], Slow())
        return {"seen": slow.seen, "dropped": slow.dropped}


def _tell(message: dict[str, Any]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    Program().serve()
