"""Trains of datagrams that measure links: what one looks like, how it is sent and heard, and how long its cars took.

A datagram carries the time of its sending. All nodes of a cluster on one machine share CLOCK_MONOTONIC, so that the
time of one way can be told. Standard library only, for it is carried to hosts too (`ssh`).
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
    from harness.api import PacketTimes, Pair

PROBE_S = 0.25  # how long a probe waits for a datagram before the pair counts as closed
LOOK_S = 0.02
_HEAD = struct.Struct(">8sHHQ")  # train, link, number, sent (CLOCK_MONOTONIC ns)
_LARGEST, _REMEMBERED, _ROOM = 2048, 64, 1 << 22
_FULL_S = 0.01  # how long a full way out is waited for

Heard = tuple[int, int, float, str, int]  # link, number, milliseconds, the sender's address and port


def new() -> str:
    """A name for a train, never given before."""
    return secrets.token_hex(4)


def datagram(train: str, link: int, number: int, size: int) -> bytes:
    """The `number`-th datagram of a train over its `link`-th link, sent now."""
    return _HEAD.pack(train.encode(), link, number, time.monotonic_ns()).ljust(size, b"\0")


def read(data: bytes) -> tuple[str, int, int, float]:
    """Train, link and number of a datagram that arrived now, and the milliseconds it took."""
    train, link, number, sent_ns = _HEAD.unpack_from(data)
    return train.decode(errors="replace"), link, number, (time.monotonic_ns() - sent_ns) / 1e6


class Ports:
    """UDP ports that trains leave from and arrive at. Raises OSError when one is taken."""

    def __init__(self, *addresses: tuple[str, int]) -> None:
        self.sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in addresses]
        for made, address in zip(self.sockets, addresses):  # noqa: B905 - Python 3.9 knows no `strict`
            made.bind(address)
            made.setblocking(False)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _ROOM)
        self._heard: OrderedDict[str, list[Heard]] = OrderedDict()

    def send(self, train: str, to: Mapping[Any, Sequence[Any]], packets: int, size: int, by: int = 0) -> None:
        """Send `packets` datagrams to each of some (address, port), by link, from the port number `by`."""
        for number in range(packets):
            for link, address in to.items():
                self._put(self.sockets[by], datagram(train, int(link), number, size), tuple(address))
            self.hear()

    def _put(self, way: socket.socket, data: bytes, address: tuple[Any, ...]) -> None:
        with suppress(OSError):  # a rule on leaving says so at once; it will be seen by not being heard
            try:
                way.sendto(data, address)
            except BlockingIOError:
                select.select([], [way], [], _FULL_S)
                way.sendto(data, address)

    def hear(self) -> None:
        """Take in all that has arrived."""
        for receiver in self.sockets:
            with suppress(BlockingIOError):
                while True:
                    data, source = receiver.recvfrom(_LARGEST)
                    if len(data) >= _HEAD.size:
                        self._note(data, source)

    def _note(self, data: bytes, source: tuple[str, int]) -> None:
        train, link, number, took_ms = read(data)
        self._heard.setdefault(train, []).append((link, number, took_ms, *source))
        while len(self._heard) > _REMEMBERED:
            self._heard.popitem(last=False)

    def heard(self, train: str, beyond: int = 0) -> list[Heard]:
        """What has been heard of a train, but for so many that are known already."""
        self.hear()
        return self._heard.get(train, [])[beyond:]

    def close(self) -> None:
        for one in self.sockets:
            one.close()


class Train:
    """One train over each of some links (pairs); `took` is what has been seen of it."""

    def __init__(self, pairs: Iterable[Pair], packets: int, size: int = 64) -> None:
        self.name, self.packets, self.size = new(), packets, size
        self.pairs: Sequence[Pair] = list(dict.fromkeys(pairs))
        self.took: dict[Pair, PacketTimes] = {pair: [None] * packets for pair in self.pairs}

    def datagram(self, number: int, pair: Pair) -> bytes:
        return datagram(self.name, self.pairs.index(pair), number, self.size)

    def note(self, link: int, number: int, took_ms: float) -> None:
        """One datagram has arrived."""
        self.took[self.pairs[link]][number] = took_ms

    def collect(self, sockets: Iterable[socket.socket]) -> None:
        """Take in all that has arrived at non-blocking sockets."""
        for receiver in sockets:
            while True:
                try:
                    train, link, number, took_ms = read(receiver.recv(_LARGEST))
                except BlockingIOError:
                    break
                if train == self.name:
                    self.note(link, number, took_ms)

    def complete(self) -> bool:
        return all(None not in seen for seen in self.took.values())

    def arrived(self) -> dict[Pair, bool]:
        """Whether any datagram of each pair has arrived."""
        return {pair: any(one is not None for one in seen) for pair, seen in self.took.items()}
