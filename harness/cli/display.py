"""The progress of a run as it happens: lines for logs and pipes, and the words that a terminal shows too (`live_display`).

Nothing here writes by itself: a display is given the console of `harness.cli.main`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from fencepost.harness.api.events import RunEvent

if TYPE_CHECKING:
    from rich.console import Console

STATUS_EVERY_S = 10.0


class Display(Protocol):
    """Shows events while a run is performed."""

    def event(self, event: RunEvent) -> None: ...
    def close(self) -> None: ...


@dataclass
class Progress:
    """The progress by the events so far."""

    phase: str = ""
    elapsed_s: float = 0.0
    time_s: float = 0.0
    ok: int = 0
    fail: int = 0
    info: int = 0
    faults: tuple[str, ...] = ()

    def take(self, event: RunEvent) -> None:
        if event["event"] == "phase":
            self.phase = f"{event['phase']}: {event['text']}" if event.get("text") else event["phase"]
            self.faults = ()
        elif event["event"] == "progress":
            self.elapsed_s, self.time_s = event["elapsed_s"], event["time_s"]
            self.ok, self.fail, self.info = event["ok"], event["fail"], event["info"]
            self.faults = tuple(event.get("faults", ()))

    def status(self) -> str:
        """`12 of 60 s  ok 340  fail 12  info 3  29.6/s  faults: pause n2`"""
        return self.counted() + (f"  faults: {', '.join(self.faults)}" if self.faults else "")

    def counted(self) -> str:
        """The status without the active faults."""
        rate = (self.ok + self.fail + self.info) / self.elapsed_s if self.elapsed_s > 0 else 0.0
        counts = f"ok {self.ok}  fail {self.fail}  info {self.info}  {rate:.1f}/s"
        over = self.elapsed_s > self.time_s
        time = f"{self.elapsed_s:.0f} s, planned {self.time_s:.0f}" if over else f"{self.elapsed_s:.0f} of {self.time_s:.0f} s"
        return f"{time}  {counts}"


class PlainDisplay:
    """Lines for logs and pipes: one for each phase, fault and note, and a status every ten seconds of the workload."""

    def __init__(self, console: Console) -> None:
        self._console, self._progress, self._printed_s = console, Progress(), 0.0

    def event(self, event: RunEvent) -> None:
        self._progress.take(event)
        if event["event"] == "progress":
            if event["elapsed_s"] - self._printed_s >= STATUS_EVERY_S:
                self._printed_s = event["elapsed_s"]
                self._line(self._progress.status())
            return
        if event["event"] == "begin":
            self._progress, self._printed_s = Progress(), 0.0
        self._line(sentence(event))

    def close(self) -> None:
        """Do nothing: there is nothing to put back."""

    def _line(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)


def sentence(event: RunEvent) -> str:
    """An event as a line of text."""
    if event["event"] == "begin":
        return f"{event['test'].name}  ({event['number']} of {event['of']})  seed {event['seed']}"
    if event["event"] == "phase":
        return f"  {event['phase']:<10}  {event.get('text', '')}".rstrip()
    if event["event"] == "result":
        return f"  -> {event['text']}"
    return f"  {event['event']}: {event.get('text', '')}"
