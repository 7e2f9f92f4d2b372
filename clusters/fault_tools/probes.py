"""Probe series: UDP datagrams that are sent over links, received, and timed.

A datagram carries the time when it was sent. All nodes of a cluster on one machine share CLOCK_MONOTONIC, so that the one-way
time is known. Standard library only, because it is copied to hosts too (`ssh`).
"""

from __future__ import annotations

import secrets
import select
import socket
import struct
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fencepost.harness.api import PacketTimes, Pair

PROBE_S = 0.25  # how long a probe waits for a datagram before the pair counts as closed
POLL_S = 0.02  # how often arrivals are read
_HEAD = struct.Struct(">8sHHQ")  # series, link, number, sent (CLOCK_MONOTONIC ns)
_MAX_BYTES, _MAX_SERIES, _BUFFER_BYTES = 2048, 64, 1 << 22
_FULL_S = 0.01  # how long to wait while the send buffer is full

ReceivedProbe = tuple[int, int, float, str, int]  # link, number, milliseconds, the sender's address and port


def new_name() -> str:
    """A name for a series, never used before."""
    return secrets.token_hex(4)


def datagram(series: str, link: int, number: int, size: int) -> bytes:
    """The `number`-th datagram of a series over its `link`-th link, sent now."""
    return _HEAD.pack(series.encode(), link, number, time.monotonic_ns()).ljust(size, b"\0")


def read(data: bytes) -> tuple[str, int, int, float]:
    """The series, link and number of a datagram that arrived now, and its time in milliseconds."""
    series, link, number, sent_ns = _HEAD.unpack_from(data)
    return series.decode(errors="replace"), link, number, (time.monotonic_ns() - sent_ns) / 1e6


class ProbePorts:
    """UDP ports that send and receive probes. Raises OSError when one is taken."""

    def __init__(self, *addresses: tuple[str, int]) -> None:
        self.sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in addresses]
        for port, address in zip(self.sockets, addresses):  # noqa: B905 - Python 3.9 knows no `strict`
            port.bind(address)
            port.setblocking(False)
            port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        self._received: OrderedDict[str, list[ReceivedProbe]] = OrderedDict()

    def send(self, series: str, to: Mapping[Any, Sequence[Any]], packets: int, size: int, by: int = 0) -> None:
        """Send `packets` datagrams to each of some (address, port), by link, from the port number `by`."""
        for number in range(packets):
            for link, address in to.items():
                self._send(self.sockets[by], datagram(series, int(link), number, size), tuple(address))
            self.receive()

    def _send(self, port: socket.socket, data: bytes, address: tuple[Any, ...]) -> None:
        with suppress(OSError):  # a rule on output drops it: it counts as not arrived
            try:
                port.sendto(data, address)
            except BlockingIOError:
                select.select([], [port], [], _FULL_S)
                port.sendto(data, address)

    def receive(self) -> None:
        """Read all datagrams that have arrived."""
        for receiver in self.sockets:
            with suppress(BlockingIOError):
                while True:
                    data, source = receiver.recvfrom(_MAX_BYTES)
                    if len(data) >= _HEAD.size:
                        self._note(data, source)

    def _note(self, data: bytes, source: tuple[str, int]) -> None:
        series, link, number, took_ms = read(data)
        self._received.setdefault(series, []).append((link, number, took_ms, *source))
        while len(self._received) > _MAX_SERIES:
            self._received.popitem(last=False)

    def received(self, series: str, known: int = 0) -> list[ReceivedProbe]:
        """The received datagrams of a series, without the first `known`."""
        self.receive()
        return self._received.get(series, [])[known:]

    def close(self) -> None:
        for udp_socket in self.sockets:
            udp_socket.close()


class ProbeSeries:
    """A series of datagrams, as many over each link (pair).

    times: the time (ms) that each datagram took, by link; None: not arrived so far.
    """

    def __init__(self, pairs: Iterable[Pair], packets: int, size: int = 64) -> None:
        self.name, self.packets, self.size = new_name(), packets, size
        self.pairs: Sequence[Pair] = list(dict.fromkeys(pairs))
        self.times: dict[Pair, PacketTimes] = {pair: [None] * packets for pair in self.pairs}

    def datagram(self, number: int, pair: Pair) -> bytes:
        return datagram(self.name, self.pairs.index(pair), number, self.size)

    def note(self, link: int, number: int, took_ms: float) -> None:
        """Record one arrival."""
        self.times[self.pairs[link]][number] = took_ms

    def collect(self, sockets: Iterable[socket.socket]) -> None:
        """Record all arrivals at non-blocking sockets."""
        for receiver in sockets:
            while True:
                try:
                    series, link, number, took_ms = read(receiver.recv(_MAX_BYTES))
                except BlockingIOError:
                    break
                if series == self.name:
                    self.note(link, number, took_ms)

    def complete(self) -> bool:
        return all(None not in times for times in self.times.values())

    def arrived(self) -> dict[Pair, bool]:
        """Return for each pair whether any datagram has arrived."""
        return {pair: any(time_ms is not None for time_ms in times) for pair, times in self.times.items()}
