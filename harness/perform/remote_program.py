"""A program that runs in a container of its own, as its worker sees it: in the place of a `subprocess.Popen`.

`harness.perform.image_programs` is the other side.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Mapping
from typing import Any

STARTED_S = 60.0  # until an answer to the request to start it
GONE_S = 30.0  # from SIGKILL to the word that it has ended
OWN = "FENCEPOST_"  # variables of the environment that a program in an image gets

Message = Mapping[str, Any]


class RemoteProgram:
    """An instance's program as its worker sees it.

    report: sends a JSON object to the harness.
    """

    def __init__(self, report: Callable[[dict[str, Any]], None]) -> None:
        self._report = report
        self._started, self._ended = threading.Event(), threading.Event()
        self._problem = ""
        self.returncode: int | None = None

    def start(self, environment: Mapping[str, str]) -> str:
        """Have it started; returns why it could not be, empty when it was."""
        self._started.clear()
        self._ended.clear()
        self.returncode, self._problem = None, ""
        own = {name: value for name, value in environment.items() if name.startswith(OWN)}
        self._report({"program": {"do": "start", "environment": own}})
        return self._problem if self._started.wait(STARTED_S) else f"no answer within {STARTED_S:.0f} s"

    def answered(self, message: Message) -> None:
        """Take a message of the harness about it."""
        self._problem = str(message.get("problem", ""))
        if "ended" in message:
            self.returncode = int(message["ended"])
            self._ended.set()
        self._started.set()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; returns its exit status. Raises subprocess.TimeoutExpired."""
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired("the image", timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def terminate(self) -> None:
        self._report({"program": {"do": "end"}})

    def kill(self) -> None:
        self._report({"program": {"do": "kill"}})
        if not self._ended.wait(GONE_S):
            self.returncode = -9
            self._ended.set()
