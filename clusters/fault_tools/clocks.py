"""Brokers' wall clocks: set through libfaketime, and measured by the date of a broker's own log line.

libfaketime is preloaded only when the option `skewable` asks for it. Monotonic time, and so every timeout, stays as it is; so do
the dates of files. libfaketime keeps its state in /dev/shm under a process id. It would stay there, and a later process with that
id would find it: so brokers need a /dev/shm of their own.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

from fencepost.clusters.fault_tools.faketime import ENVIRONMENT, REREAD_S, write_offset
from fencepost.clusters.kafka.protocol import Address

_TOO_LONG = struct.pack(">i", 0x7FFFFFFF)  # the length of a request that no broker accepts
_DATE = len("2026-11-21T19:11:22.291")
_ANSWER_WITHIN_S, _POLL_S = 6.0, 0.02
_REPEATS, _AGREEMENT_S = 4, 0.2


class Clocks:
    """One file per node, `directory/NODE/clock`, with the offset of its wall clock.

    library: libfaketime, where the nodes' processes find it.
    """

    def __init__(self, library: str, directory: Path, nodes: Iterable[str]) -> None:
        self._library = library
        self._of = {node: directory / node / "clock" for node in nodes}
        self._ahead_s = dict.fromkeys(self._of, 0.0)
        for node in self._of:
            self._write(node)

    def environment(self, node: str) -> dict[str, str]:
        """The environment that a node's process needs."""
        return {"LD_PRELOAD": self._library, "FAKETIME_TIMESTAMP_FILE": str(self._of[node]), **ENVIRONMENT}

    def set(self, nodes: Iterable[str], ahead_s: float) -> None:
        """Set clocks so far ahead of ours (behind, if negative), and wait until their processes have read it."""
        changed = [node for node in nodes if self._ahead_s[node] != ahead_s]
        for node in changed:
            self._ahead_s[node] = ahead_s
            self._write(node)
        if changed:
            time.sleep(REREAD_S + 1.2)  # libfaketime counts in whole seconds

    def _write(self, node: str) -> None:
        self._of[node].parent.mkdir(parents=True, exist_ok=True)
        write_offset(self._of[node], self._ahead_s[node])


def measured_offset_s(address: Address, log: Callable[[], str]) -> float | None:
    """The seconds by which a broker's wall clock is ahead of ours; None when it logs nothing.

    The broker gets a request that is too long, and logs that with its date. log: reads its log. A busy broker logs late, which
    makes its clock seem to be ahead; so the request is repeated until two offsets agree, and the least counts.
    """
    least = _single_offset_s(address, log)
    for _ in range(_REPEATS):
        again = _single_offset_s(address, log) if least is not None else None
        if least is None or again is None:
            break
        agreed, least = abs(again - least) <= _AGREEMENT_S, min(again, least)
        if agreed:
            break
    return least


def _single_offset_s(address: Address, log: Callable[[], str]) -> float | None:
    """The offset by one request: too large by the time that the broker takes to log it.

    The system may give the request the port of an earlier one, whose line is in the log already.
    """
    with suppress(OSError), socket.create_connection(address, timeout=_ANSWER_WITHIN_S) as connection:
        mark = f":{connection.getsockname()[1]}"
        earlier, sent_s = set(_lines_with(mark, log)), time.time()
        connection.sendall(_TOO_LONG)
        deadline = time.monotonic() + _ANSWER_WITHIN_S
        over = False
        while not over:
            over = time.monotonic() > deadline  # read before the last look, which a pause of this machine may delay
            for line in reversed(_lines_with(mark, log)):
                if line not in earlier and (logged := _date(line)) is not None:
                    return round(logged - sent_s, 3)
            time.sleep(_POLL_S)
    return None


def _lines_with(mark: str, log: Callable[[], str]) -> list[str]:
    return [line for line in log().splitlines() if mark in line]


def _date(line: str) -> float | None:
    try:
        return datetime.fromisoformat(line[:_DATE]).replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None
