"""A request to end a run before its time, and what becomes of one that comes before the workload has begun."""

from __future__ import annotations

import signal
from collections.abc import Callable

from fencepost.harness.api.errors import NotBegun

LEAVE = signal.SIGUSR1  # of the performer to itself: somebody has asked to stop
NOT_BEGUN = "stopped before the workload began, so that there is nothing to judge"


class StopRequest:
    """A request to end the workload before its time.

    by: who asked first, in words; empty while nobody has.
    """

    by = ""
    _begun = _left = False

    def __init__(self, call_main: Callable[[], None] = lambda: None) -> None:
        """call_main: makes the main thread call `leave`."""
        self._call_main = call_main

    def ask(self, by: str) -> None:
        """Ask for it, in any thread. Before the workload has begun, the main thread leaves."""
        self.by = self.by or by
        self._call_main()

    def leave(self) -> None:
        """Raises NotBegun where somebody has asked and the workload has not begun: then there is nothing to heal or to judge."""
        if self.by and not (self._begun or self._left):
            self._left = True  # once: what is there is being ended then
            raise NotBegun(f"{NOT_BEGUN} ({self.by})")

    def begin(self) -> None:
        """The workload begins now. Raises NotBegun when somebody has asked to stop, also where nobody heeded it."""
        if self.by:
            raise NotBegun(f"{NOT_BEGUN} ({self.by})")
        self._begun = True
