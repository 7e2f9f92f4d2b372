"""`cycles`: growth of what `fencepost check` costs with the length of a ring, and with the number of processes of a tangle.

Processor time of the whole cold command, and the ratio to the size before. Also a program of its own:
`python -m benchmarks.cycles`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.cyclic_histories import write_ring, write_tangle
from benchmarks.figures import goal, show, spread

RINGS = (1_250, 2_500, 5_000, 10_000)  # operations
OPERATIONS, PROCESSES = 5_000, (50, 100, 200, 400)
GOALS = {"ring": 5.0, "tangle": 3.0}  # processor seconds of the largest
Shape = tuple[str, tuple[int, ...], Callable[[Path, int], None]]


def measure(*, rounds: int, seconds: float) -> None:
    """`seconds` is of no use here."""
    shapes: tuple[Shape, ...] = (
        ("ring, one partition", RINGS, lambda path, size: write_ring(path, size, 1)),
        ("ring, eight partitions", RINGS, lambda path, size: write_ring(path, size, 8)),
        (f"tangle of {OPERATIONS:,}, by processes", PROCESSES, lambda path, size: write_tangle(path, OPERATIONS, size)),
    )
    with tempfile.TemporaryDirectory(prefix="fencepost-cycles-") as temporary:
        rows = [row for shape in shapes for row in _grown(Path(temporary), shape, rounds)]
    show(f"cycles: `fencepost check`, {rounds} rounds", ("shape", "size", "processor, s", "of the size before"), rows)


def _grown(folder: Path, shape: Shape, rounds: int) -> Iterator[tuple[str, str, str, str]]:
    name, sizes, write = shape
    before = 0.0
    for size in sizes:
        path = folder / f"{size}.json"
        write(path, size)
        costs = [_processor_s(path, folder / "results") for _ in range(rounds)]
        least = min(costs)
        yield name, f"{size:,}", spread(costs, 2), f"{least / before:.2f}" if before else "-"
        before = least
    bound = GOALS[name.split(",")[0].split()[0]]
    goal(f"{name}: {sizes[-1]:,} within {bound:g} s", before <= bound)


def _processor_s(history: Path, results: Path) -> float:
    """Processor time of a command and all that it started. Its verdict may be any."""
    argv = [sys.executable, "-m", "fencepost", "check", str(history), "--results", str(results)]
    argv += ["--contract", "transactional=true", "--contract", "acks=all"]
    command = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(command.pid, 0)
    command.returncode = os.waitstatus_to_exitcode(status)
    if command.returncode > 2:
        raise subprocess.CalledProcessError(command.returncode, argv)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cycles")
    parser.add_argument("--rounds", type=int, default=1)
    measure(rounds=parser.parse_args().rounds, seconds=0.0)


if __name__ == "__main__":
    main()
