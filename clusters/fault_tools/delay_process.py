"""Who starts the program that holds packets back (`slow_links.py`), and asks it one thing at a time.

Standard library only, for it is carried to hosts too (`ssh`).
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

_ANSWER_S = 10.0


class Holder(ABC):
    """The program, and when packets are brought to it. Raises `error` with its last words when it ends, or cannot start."""

    error: ClassVar[type[Exception]] = OSError

    def __init__(self, argv: Sequence[str]) -> None:
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._asking = threading.Lock()
        self._numbers: dict[str, set[int]] = {}  # address -> what slows it; packets are brought while there is any
        self._reply()

    @abstractmethod
    def _bring(self, address: str) -> None:
        """Have what `address` sends brought to the program."""

    @abstractmethod
    def _spare(self, address: str) -> None:
        """Bring it no longer."""

    def slow(self, number: int, address: str, **how: float) -> None:
        """Hold back what `address` sends here; how: `delay_ms`, `jitter_ms`, `kbit_s`."""
        with self._asking:
            self._ask(do="slow", number=number, address=address, **how)
            if not self._numbers.get(address):
                try:
                    self._bring(address)
                except Exception:
                    self._ask(do="unslow", number=number, address=address)  # or the next one would bring packets to it
                    raise
            self._numbers.setdefault(address, set()).add(number)

    def unslow(self, number: int, address: str) -> tuple[int, int]:
        """End it; packets (seen, dropped), zeros when it has ended already."""
        with self._asking:
            numbers = self._numbers.get(address, set())
            if number not in numbers:
                return 0, 0
            if numbers == {number}:
                self._spare(address)
            numbers.discard(number)
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
        ready, _, _ = select.select([self._process.stdout], [], [], _ANSWER_S)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            with suppress(PermissionError):
                self._process.kill()  # it has ended, or hangs
            _, said = self._process.communicate()
            last = (said.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
            raise self.error(f"the program that holds packets back ended with status {self._process.returncode}: {last}")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def close(self) -> None:
        """End it: what waits is lost, what comes passes."""
        with suppress(PermissionError):  # that of another user, which ends with its input
            self._process.kill()
        self._process.communicate()
