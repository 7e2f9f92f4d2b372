"""What a worker hears from the harness, as JSON lines on standard input, and what it says to it."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

from fencepost.harness.drivers.process import kill_all


class Report(Protocol):
    """Sends one JSON object to the harness."""

    def __call__(self, message: dict[str, Any]) -> None: ...


@dataclass
class Control:
    """The commands of the harness so far."""

    answered: Callable[[Mapping[str, Any]], None] = lambda answer: None  # takes what a `RemoteOperator` asked for
    on_program: Any = None  # a function that takes what is said of a program in an image
    go: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)
    closing: threading.Event = field(default_factory=threading.Event)
    orders: dict[str, Any] = field(default_factory=dict)

    def listen(self) -> None:
        """Read commands until standard input ends, and then exit: the harness is gone."""
        for line in sys.stdin:
            command = json.loads(line)
            if "go" in command:
                self.orders = command["go"]
                self.go.set()
            if "stop" in command:
                self.stop.set()
            if "closing" in command:
                self.closing.set()
            if "program" in command and self.on_program is not None:
                self.on_program(command["program"])
            if "operated" in command:
                self.answered(command["operated"])
        leave()


def leave(status: int = 0) -> NoReturn:
    """End at once, with what drivers have started: librdkafka's threads may be waiting for a broker that is gone."""
    kill_all()
    os._exit(status)
