"""The contents of the screen: progress as it happens, results in words and tables. Values in, rich renderables out.

Nothing here writes by itself: a display is given the console of `harness.cli.main`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fencepost.harness.api.events import RunEvent
from fencepost.harness.api.run import RunFile
from fencepost.harness.runs.result_words import forbidden_findings, together
from fencepost.harness.runs.sequence import RunResult, by_test, expectation_met, left_open

STATUS_EVERY_S = 10.0
GOOD, BAD, DOUBTFUL = "green", "bold red", "yellow"


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


def sentence(event: RunEvent) -> str:
    """An event as a line of text."""
    if event["event"] == "begin":
        return f"{event['test'].name}  ({event['number']} of {event['of']})  seed {event['seed']}"
    if event["event"] == "phase":
        return f"  {event['phase']:<10}  {event.get('text', '')}".rstrip()
    if event["event"] == "result":
        return f"  -> {event['text']}"
    return f"  {event['event']}: {event.get('text', '')}"


def live_view(progress: Progress) -> Group:
    """Phase, bar, counts and active faults, for a terminal."""
    lines: list[Any] = [Text(f"  {progress.phase}", style="bold", no_wrap=True, overflow="ellipsis")]
    if progress.time_s:
        lines.append(ProgressBar(total=progress.time_s, completed=min(progress.elapsed_s, progress.time_s), width=60))
        lines.append(Text(f"  {progress.counted()}", no_wrap=True, overflow="ellipsis"))
    if progress.faults:
        lines.append(Text(f"  faults: {', '.join(progress.faults)}", style=DOUBTFUL))
    return Group(*lines)


def style_of(result: RunResult) -> str:
    if result.met and not result.error:
        return GOOD
    return DOUBTFUL if result.undecided else BAD


def results_table(results: Sequence[RunResult]) -> Table:
    """One row for each test: what came, whether that was expected, on how much it rests."""
    table = Table("test", "verdict", "expectation", title=None, box=None, pad_edge=False, header_style="bold")
    for name in ("operations", "findings", "time"):
        table.add_column(name, justify="right")
    for runs in by_test(results):
        met = expectation_met(runs)
        operations = sum(int(run.verdict.get("counts", {}).get("operations", 0)) for run in runs)
        findings = sum(forbidden_findings(run.verdict) for run in runs)
        table.add_row(
            Text(runs[0].planned.test.name),
            Text(together(runs), style=GOOD if met else style_of(next((run for run in runs if not run.met), runs[0]))),
            _expectation(met, runs),
            str(operations),
            str(findings),
            f"{sum(run.took_s for run in runs):.0f} s",
        )
    return table


def _expectation(met: bool, runs: Sequence[RunResult]) -> Text:
    """The word for whether the runs of a test showed what it expects."""
    if not met and left_open(runs):
        return Text("unknown", style=DOUBTFUL)
    if met and any(run.known_alone for run in runs):
        return Text("met, but for known findings", style=GOOD)
    return Text("met", style=GOOD) if met else Text("not met", style=BAD)


def report_lines(results: Sequence[RunResult]) -> list[str]:
    """The path of each run's report (or of its directory, when there is none)."""
    lines = []
    for result in results:
        if result.run_dir:
            report = result.run_dir / RunFile.REPORT
            lines.append(f"{result.planned.test.name}: {report if report.exists() else result.run_dir}")
    return lines


def as_json(result: RunResult) -> dict[str, Any]:
    """One run for machines."""
    return {
        "test": result.planned.test.name,
        "seed": result.planned.seed,
        "expect": list(result.planned.test.expect),
        "directory": str(result.run_dir) if result.run_dir else None,
        "run": result.verdict.get("run"),
        "verdict": result.verdict.get("verdict"),
        "expectation_met": None if result.undecided else result.met,
        "violated": result.violated,
        "findings": forbidden_findings(result.verdict),
        "operations": result.verdict.get("counts", {}).get("operations", 0),
        "error": result.error,
        "took_s": round(result.took_s, 1),
        "command": result.planned.command,
    }
