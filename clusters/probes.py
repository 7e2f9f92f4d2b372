"""Trains of datagrams that measure links: what one looks like, and how long its cars took.

A datagram carries the time of its sending. All nodes of a cluster on one machine share CLOCK_MONOTONIC, so that the
time of one way can be told.
"""

from __future__ import annotations

import secrets
import socket
import struct
import time
from collections.abc import Iterable, Sequence

from harness.api import Pair, Took

PROBE_S = 0.25  # how long a probe waits for a datagram before the pair counts as closed
LOOK_S = 0.02
_HEAD = struct.Struct(">8sHHQ")  # train, link, number, sent (CLOCK_MONOTONIC ns)
_LARGEST = 2048


def new() -> str:
    """A name for a train, never given before."""
    return secrets.token_hex(4)


def datagram(train: str, link: int, number: int, size: int) -> bytes:
    """The `number`-th datagram of a train over its `link`-th link, sent now."""
    return _HEAD.pack(train.encode(), link, number, time.monotonic_ns()).ljust(size, b"\0")


def read(data: bytes) -> tuple[str, int, int, float]:
    """Train, link and number of a datagram that arrived now, and the milliseconds it took."""
    train, link, number, sent_ns = _HEAD.unpack_from(data)
    return train.decode(), link, number, (time.monotonic_ns() - sent_ns) / 1e6


class Train:
    """One train over each of some links (pairs); `took` is what has been seen of it."""

    def __init__(self, pairs: Iterable[Pair], packets: int, size: int = 64) -> None:
        self.name, self.packets, self.size = new(), packets, size
        self.pairs: Sequence[Pair] = list(dict.fromkeys(pairs))
        self.took: dict[Pair, Took] = {pair: [None] * packets for pair in self.pairs}

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
