"""Starts the delay program (`delay_program.py`) and sends it one request at a time.

Standard library only, because it is copied to hosts too (`ssh`).
"""

from __future__ import annotations

import json
import select
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

_ANSWER_S = 30.0


class DelayProcess(ABC):
    """The running program, and the addresses whose packets are sent to it.

    Raises `error`, with the last line of the program's output, when the program ends or cannot start.
    """

    error: ClassVar[type[Exception]] = OSError

    def __init__(self, argv: Sequence[str]) -> None:
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._request_lock = threading.Lock()
        self._numbers: dict[str, set[int]] = {}  # address -> its delays; its packets are queued while there is any
        self._reply()

    @abstractmethod
    def _queue_packets(self, address: str) -> None:
        """Send the packets of `address` to the program's queue."""

    @abstractmethod
    def _unqueue_packets(self, address: str) -> None:
        """Send them there no longer."""

    def slow(self, number: int, address: str, **how: float) -> None:
        """Delay what `address` sends here; how: `delay_ms`, `jitter_ms`, `kbit_s`."""
        with self._request_lock:
            self._ask(do="slow", number=number, address=address, **how)
            if not self._numbers.get(address):
                try:
                    self._queue_packets(address)
                except Exception:
                    self._ask(do="unslow", number=number, address=address)  # or the next delay of this address would add to it
                    raise
            self._numbers.setdefault(address, set()).add(number)

    def unslow(self, number: int, address: str) -> tuple[int, int]:
        """End a delay; packets (seen, dropped), zeros when it has ended already."""
        with self._request_lock:
            numbers = self._numbers.get(address, set())
            if number not in numbers:
                return 0, 0
            if numbers == {number}:
                self._unqueue_packets(address)
            numbers.discard(number)
            reply = self._ask(do="unslow", number=number, address=address)
            return int(reply["seen"]), int(reply["dropped"])

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the program's own output says more
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        return self._reply()

    def _reply(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _ANSWER_S)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            with suppress(PermissionError):
                self._process.kill()  # it has ended, or hangs
            _, errors = self._process.communicate()
            last = (errors.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
            raise self.error(f"the program that holds packets back ended with status {self._process.returncode}: {last}")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def close(self) -> None:
        """End the program: packets that wait are lost, later ones pass."""
        with suppress(PermissionError):  # started by sudo as another user; it ends with its standard input
            self._process.kill()
        self._process.communicate()
