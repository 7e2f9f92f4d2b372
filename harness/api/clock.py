"""The clock that faults wait by: the machine's, or, in memory, one that waiting moves on at once.

A fault calls `sleep` and `monotonic` of this module instead of those of `time`. Where nothing changes by itself (a cluster that
says `settles_at_once`), the conformance kit has faults wait by `AtOnce`, and a wait of a minute takes no time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class WaitingClock(Protocol):
    """Seconds, like `time.monotonic`, and waiting for them to pass."""

    def monotonic(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...


class MachineClock:
    """The machine's."""

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class AtOnce:
    """The machine's, and ahead of it by all that was slept."""

    def __init__(self) -> None:
        self._ahead_s = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self._ahead_s

    def sleep(self, seconds: float) -> None:
        self._ahead_s += max(0.0, seconds)


_MACHINE = MachineClock()
_CLOCK: ContextVar[WaitingClock | None] = ContextVar("clock", default=None)


@contextmanager
def waiting_by(clock: WaitingClock) -> Iterator[None]:
    """Inside, and in this thread, `monotonic` and `sleep` are those of this clock."""
    token = _CLOCK.set(clock)
    try:
        yield
    finally:
        _CLOCK.reset(token)


def monotonic() -> float:
    """Seconds by the clock that counts here."""
    return (_CLOCK.get() or _MACHINE).monotonic()


def sleep(seconds: float) -> None:
    """Wait by the clock that counts here."""
    (_CLOCK.get() or _MACHINE).sleep(seconds)
