"""The progress of a run at the bottom of a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from fencepost.harness.api.events import RunEvent
from fencepost.harness.cli.display import Progress, sentence

ACTIVE = "yellow"


class LiveDisplay:
    """A status at the bottom of a terminal, with the active faults; beginnings, faults and notes scroll by above it."""

    def __init__(self, console: Console) -> None:
        self._console, self._progress = console, Progress()
        self._live = Live(console=console, refresh_per_second=4, transient=True)
        self._live.start()

    def event(self, event: RunEvent) -> None:
        if event["event"] == "begin":
            self._progress = Progress()
        self._progress.take(event)
        if event["event"] in ("begin", "fault", "note", "result"):
            self._console.print(sentence(event), soft_wrap=True)
        self._live.update(live_view(self._progress))

    def close(self) -> None:
        self._live.stop()


def live_view(progress: Progress) -> Group:
    """Phase, bar, counts and active faults, for a terminal."""
    lines: list[Any] = [Text(f"  {progress.phase}", style="bold", no_wrap=True, overflow="ellipsis")]
    if progress.time_s:
        lines.append(ProgressBar(total=progress.time_s, completed=min(progress.elapsed_s, progress.time_s), width=60))
        lines.append(Text(f"  {progress.counted()}", no_wrap=True, overflow="ellipsis"))
    if progress.faults:
        lines.append(Text(f"  faults: {', '.join(progress.faults)}", style=ACTIVE))
    return Group(*lines)
