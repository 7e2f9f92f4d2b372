"""`verdict`: how long after the last read is the verdict there?

First for generated histories, lines still to be merged, with a warm session as there is at the end of a run; then for real
short runs by the command itself.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from benchmarks.command import run_once
from benchmarks.figures import show, spread
from benchmarks.lawful_run import write_run
from fencepost.harness.api.events import RunEvent
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.runs.runner import Runner

SIZES = (1_000, 10_000, 50_000)
PARTS = ("merge", "check", "report")
REAL = ("command to first operation", "final read to verdict.json", "final read to report.html", "whole command")


class Watch:
    """Hears the runner's events and remembers when each phase began."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, float]] = []

    def __call__(self, event: RunEvent) -> None:
        if event["event"] == "phase":
            self.begun.append((event["phase"], time.monotonic()))

    def lasted(self) -> dict[str, float]:
        """Seconds of each phase since the last call; the last one ends now."""
        ends = [*self.begun, ("", time.monotonic())]
        self.begun = []
        return {phase: after - began for (phase, began), (_, after) in pairwise(ends)}


def measure(*, rounds: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory(prefix="fencepost-verdict-") as temporary:
        _generated(Path(temporary), rounds)
        _real(Path(temporary), rounds, seconds)


def _generated(folder: Path, rounds: int) -> None:
    watch = Watch()
    runner = Runner(results=folder / "results", master="local[*]", on_event=watch)
    began = time.monotonic()
    write_run(folder / "first", 200)
    runner.judge(open_run(folder / "first"))
    print(f"Spark started and warmed (in a real run beside the workload): {time.monotonic() - began:.1f} s")
    rows = []
    for size in SIZES:
        operations = write_run(folder / str(size), size)
        times = [_judge(runner, watch, folder / str(size)) for _ in range(rounds)]
        parts = [spread([figures[part] for figures in times], 2) for part in PARTS]
        until = [figures["merge"] + figures["check"] for figures in times]
        rows.append((f"{size:,} ({operations:,})", *parts, spread(until, 2), spread([s / size * 1e6 for s in until], 0)))
    runner.close()
    header = ("transactions (operations)", "merge, s", "check, s", "report, s", "until verdict.json, s", "us per transaction")
    show(f"verdict: generated lawful histories, session warm, {rounds} rounds", header, rows)


def _judge(runner: Runner, watch: Watch, run_dir: Path) -> dict[str, float]:
    (run_dir / "history.parquet").unlink(missing_ok=True)
    watch.begun = []
    verdict = runner.judge(open_run(run_dir))
    if verdict["verdict"] != "valid":
        raise RuntimeError(f"a lawful history was judged {verdict['verdict']}: {verdict['reason']}")
    return watch.lasted()


def _real(folder: Path, rounds: int, seconds: float) -> None:
    times = [run_once(folder / f"real-{number}", seconds) for number in range(rounds)]
    rows = [(name, spread([figures[name] for figures in times], 2)) for name in REAL]
    counts = [json.loads(next((folder / f"real-{n}").rglob("verdict.json")).read_text())["counts"] for n in range(rounds)]
    rows.append(("transactions judged", _range([count["transactions"] for count in counts])))
    show(f"verdict: `fencepost run --time {seconds:g} -n none`, {rounds} runs", ("from - to", "seconds"), rows)


def _range(values: Sequence[int]) -> str:
    return f"{min(values)} - {max(values)}"
