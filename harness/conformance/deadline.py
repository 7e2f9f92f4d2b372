"""Calls of a plug-in's code with a deadline: they may raise anything, and they may never return."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fencepost.harness.api import HarnessError

MEANWHILE_S = 0.1


@dataclass(frozen=True)
class CallResult:
    """The end of a call: a value, an error, or nothing until the deadline.

    value: what it returned.
    error: what it raised; None: it did not raise.
    hung: True if it had not ended by the deadline.
    took_s: how long it took (seconds), or the deadline.
    """

    value: Any = None
    error: Exception | None = None
    hung: bool = False
    took_s: float = 0.0

    @property
    def refused(self) -> bool:
        """True if it raised an error that a fault may raise (HarnessError)."""
        return isinstance(self.error, HarnessError)

    def problem(self) -> str:
        """The problem in words; empty when a value came."""
        if self.hung:
            return f"did not come back within {self.took_s:g} s"
        if self.error is None:
            return ""
        text = str(self.error)
        return f"raised {text}" if self.refused else f"raised {type(self.error).__name__}: {text}"


def call_within(call: Callable[[], Any], within_s: float, meanwhile: Callable[[], None] | None = None) -> CallResult:
    """Call in a thread of its own. A call that hangs keeps its thread: what it holds must not be used any more.

    meanwhile: what this thread does again and again until the call has ended.
    """
    caught: list[CallResult] = []
    began = time.monotonic()

    def run() -> None:
        try:
            caught.append(CallResult(call()))
        except Exception as error:  # noqa: BLE001 - whatever a plug-in raises is a result
            caught.append(CallResult(error=error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while meanwhile and thread.is_alive() and time.monotonic() - began < within_s:
        meanwhile()
        thread.join(MEANWHILE_S)
    thread.join(max(0.0, began + within_s - time.monotonic()))
    if not caught:
        return CallResult(hung=True, took_s=within_s)
    return CallResult(caught[0].value, caught[0].error, took_s=time.monotonic() - began)
