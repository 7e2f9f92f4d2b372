"""One run by the command, as a person starts it, timed from what it leaves on disk."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def run_once(results: Path, seconds: float) -> dict[str, float]:
    """Perform and judge a run without faults; seconds between its landmarks. Raises RuntimeError when it is not valid."""
    wall, began = time.time(), time.monotonic()
    argv = [sys.executable, "-c", "from fencepost.harness.cli.main import main; main()", "run", "--time", str(seconds)]
    done = subprocess.run([*argv, "-n", "none", "--results", str(results)], capture_output=True, text=True)
    whole = time.monotonic() - began
    if done.returncode != 0:
        raise RuntimeError(f"exit {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    run_dir = next(results.rglob("verdict.json")).parent
    read = max(line["time"] for line in lines(run_dir) if line.get("f") == "final-read" and line["type"] == "ok") / 1e9
    return {
        "command to first operation": first_invoke(run_dir) - began,
        "final read to verdict.json": (run_dir / "verdict.json").stat().st_mtime - wall + began - read,
        "final read to report.html": (run_dir / "report.html").stat().st_mtime - wall + began - read,
        "whole command": whole,
    }


def lines(run_dir: Path) -> Iterator[dict[str, Any]]:
    """Every line of a run's history, file after file."""
    for path in (run_dir / "history").glob("*.jsonl"):
        yield from map(json.loads, path.read_text().splitlines())


def first_invoke(run_dir: Path) -> float:
    """The time when a writer began its first operation (seconds of CLOCK_MONOTONIC)."""
    return _first(run_dir, "invoke")


def first_success(run_dir: Path) -> float:
    """The time when a writer's first operation had succeeded (seconds of CLOCK_MONOTONIC)."""
    return _first(run_dir, "ok")


def _first(run_dir: Path, kind: str) -> float:
    times = [int(line["time"]) for line in lines(run_dir) if line.get("type") == kind and line["f"] in ("txn", "send")]
    return min(times) / 1e9
