"""`python -m fencepost.clusters.fault_tools.delay_program`: delays what chosen addresses send to this network namespace.

Packets of an address keep their order. Each waits until the link is free, then for its delay. Requests are JSON objects, one per
line of standard input; each is answered by one. When standard input ends, the program and all delays end. It must start fast
(a tenth of a second), because every node may need one; so its parent makes the packet rules (`delay_process.py`). Standard
library only, because it is copied to hosts too (`ssh`).

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

from fencepost.clusters.fault_tools.packet_queue import NUMBER, PacketQueue

FULL_S = 0.5  # a link of limited bandwidth queues what it can send in this time; further packets are dropped


@dataclass
class Delay:
    """One delay of one link: a time, a uniform jitter to either side, and a bandwidth in bytes per second (0: unlimited)."""

    delay_s: float = 0.0
    jitter_s: float = 0.0
    bytes_s: float = 0.0
    random: Random = field(default_factory=Random)
    free_s: float = 0.0  # when all earlier packets have been sent
    seen: int = 0
    dropped: int = 0

    def departure_s(self, now_s: float, size: int) -> float | None:
        """The time when a packet that arrives now may pass; None when the link's queue is full."""
        self.seen += 1
        start_s = max(now_s, self.free_s)
        if start_s - now_s > FULL_S:
            self.dropped += 1
            return None
        if self.bytes_s:
            start_s = self.free_s = start_s + size / self.bytes_s
        return start_s + max(0.0, self.delay_s + self.jitter_s * self.random.uniform(-1, 1))


class AddressQueue:
    """The waiting packets of one address, in order; `delays` by number, applied one after the other."""

    def __init__(self) -> None:
        self.delays: dict[int, Delay] = {}
        self.waiting: deque[tuple[float, Any]] = deque()
        self._last_s = 0.0

    def take(self, packet: Any, size: int, now_s: float) -> bool:
        """Queue a packet; False when it is dropped."""
        departure_s = now_s
        for delay in self.delays.values():
            delayed_s = delay.departure_s(departure_s, size)
            if delayed_s is None:
                return False
            departure_s = delayed_s
        self._last_s = max(self._last_s, departure_s)
        self.waiting.append((self._last_s, packet))
        return True

    def due(self, now_s: float) -> list[Any]:
        """The packets whose departure time has come; all packets when there is no delay any more."""
        packets = []
        while self.waiting and (not self.delays or self.waiting[0][0] <= now_s):
            packets.append(self.waiting.popleft()[1])
        return packets


class DelayProgram:
    """The packet queue of this namespace, and one `AddressQueue` per delayed address."""

    def __init__(self, number: int = NUMBER) -> None:
        self._kernel_queue = PacketQueue(number)
        self._queues: dict[str, AddressQueue] = {}

    def serve(self) -> None:
        """Serve requests until standard input ends."""
        _write({"ready": True})
        pending = b""
        while True:
            ready, _, _ = select.select([0, self._kernel_queue.fileno()], [], [], self._wait_s())
            if self._kernel_queue.fileno() in ready:
                self._take()
            if 0 in ready:
                read = os.read(0, 65536)
                if not read:
                    return
                *lines, pending = (pending + read).split(b"\n")
                for line in lines:
                    _write(self._answer(json.loads(line)))
            self._let_go()

    def _wait_s(self) -> float | None:
        departures = [queue.waiting[0][0] for queue in self._queues.values() if queue.waiting]
        return max(0.0, min(departures) - time.monotonic()) if departures else None

    def _take(self) -> None:
        for packet in self._kernel_queue.arrived():
            queue = self._queues.get(packet.address)
            if queue is None:
                self._kernel_queue.let_go(packet)
            elif not queue.take(packet, packet.size, time.monotonic()):
                self._kernel_queue.drop(packet)

    def _let_go(self) -> None:
        now_s = time.monotonic()
        for queue in self._queues.values():
            for packet in queue.due(now_s):
                self._kernel_queue.let_go(packet)

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        queue = self._queues.setdefault(request["address"], AddressQueue())
        if request["do"] == "slow":
            rate = request["kbit_s"] * 125.0
            delay = Delay(request["delay_ms"] / 1e3, request["jitter_ms"] / 1e3, rate, Random(request["number"]))
            queue.delays[request["number"]] = delay
            return {}
        self._take()  # packets that came by the rule that is deleted now
        delay = queue.delays.pop(request["number"], Delay())
        return {"seen": delay.seen, "dropped": delay.dropped}


def _write(message: dict[str, Any]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    DelayProgram().serve()
