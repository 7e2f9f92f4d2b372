"""Wall clocks of brokers that can be set: libfaketime between a broker and the C library, and what a broker's own clock says.

It is preloaded only when the option `skewable` asks for it. Monotonic time, and so every timeout, stays as it is; so do the
dates of files. It keeps its state in /dev/shm under a process id, where it would stay, and be found by another run's process of
that id: so brokers need a /dev/shm of their own.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

from clusters.fault_tools.faketime import HOW, SEEN_AFTER_S, tell
from clusters.kafka.protocol import Address

_TOO_LONG = struct.pack(">i", 0x7FFFFFFF)  # the length of a request, which no broker takes
_DATE = len("2026-11-21T19:11:22.291")
_SAID_WITHIN_S, _LOOK_EVERY_S = 3.0, 0.02
_ASKED_AGAIN, _AGREED_S = 4, 0.2


class Clocks:
    """One file per node, `directory/NODE/clock`, that tells how far its wall clock is ahead.

    library: libfaketime, where the nodes' processes find it.
    """

    def __init__(self, library: str, directory: Path, nodes: Iterable[str]) -> None:
        self._library = library
        self._of = {node: directory / node / "clock" for node in nodes}
        self._ahead_s = dict.fromkeys(self._of, 0.0)
        for node in self._of:
            self._write(node)

    def environment(self, node: str) -> dict[str, str]:
        """What a node's process needs in its environment."""
        return {"LD_PRELOAD": self._library, "FAKETIME_TIMESTAMP_FILE": str(self._of[node]), **HOW}

    def set(self, nodes: Iterable[str], ahead_s: float) -> None:
        """Set clocks so far ahead of ours (behind, if negative), for as long as the run lasts; waits until that is seen."""
        wrong = [node for node in nodes if self._ahead_s[node] != ahead_s]
        for node in wrong:
            self._ahead_s[node] = ahead_s
            self._write(node)
        if wrong:
            time.sleep(SEEN_AFTER_S + 1.2)  # it counts in whole seconds

    def _write(self, node: str) -> None:
        self._of[node].parent.mkdir(parents=True, exist_ok=True)
        tell(self._of[node], self._ahead_s[node])


def ahead(address: Address, log: Callable[[], str]) -> float | None:
    """How many seconds a broker's wall clock is ahead of ours, by its own word; None when it says nothing.

    It is sent a request too long to be taken, and writes so into its log, with the date. log: reads its log. A busy broker writes
    late, which makes it seem to be ahead; so it is asked again until two answers agree, and the least counts.
    """
    least = _seen_ahead(address, log)
    for _ in range(_ASKED_AGAIN):
        again = _seen_ahead(address, log) if least is not None else None
        if least is None or again is None:
            break
        agreed, least = abs(again - least) <= _AGREED_S, min(again, least)
        if agreed:
            break
    return least


def _seen_ahead(address: Address, log: Callable[[], str]) -> float | None:
    """How far it seems to be ahead, when it is asked once: too far by as long as it takes to answer."""
    with suppress(OSError), socket.create_connection(address, timeout=_SAID_WITHIN_S) as asked:
        mark, asked_s = f":{asked.getsockname()[1]}", time.time()
        asked.sendall(_TOO_LONG)
        deadline = time.monotonic() + _SAID_WITHIN_S
        while time.monotonic() < deadline:
            for line in reversed(log().splitlines()):
                if mark in line and (said := _date(line)) is not None:
                    return round(said - asked_s, 3)
            time.sleep(_LOOK_EVERY_S)
    return None


def _date(line: str) -> float | None:
    try:
        return datetime.fromisoformat(line[:_DATE]).replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None
