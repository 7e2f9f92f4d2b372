"""`checker`: what the whole cold command `fencepost check` costs, from its start to its exit, for histories of growing length.

Wall-clock, processor time, and the peak of proportional memory (PSS) summed over the process tree (Python, the JVM and its
workers), seen from outside, ten times a second. Also a program of its own: `python -m benchmarks.checker 10000 1000000`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.figures import goal, show, spread
from benchmarks.long_history import write_long

SIZES = (10_000, 100_000, 1_000_000)
GOALS = {
    10_000: {"s": 1.2},
    100_000: {"s": 3.5},
    1_000_000: {"s": 12, "GiB": 4},
    10_000_000: {"s": 60, "GiB": 2},
}  # by transactions
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Cost:
    """The cost of a command; memory in bytes, by kind of process at the moment of the peak."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak: int = 0
    shares: dict[str, int] = field(default_factory=dict)


def watch(argv: Sequence[str], every_s: float = 0.1) -> tuple[Cost, str]:
    """Run a command and measure its process tree; returns the cost and its output. Raises CalledProcessError when it fails."""
    cost, ticks = Cost(), dict[int, int]()
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as out:
        command = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT)
        while command.poll() is None:
            _sample(command.pid, cost, ticks)
            time.sleep(every_s)
        cost.wall_s, cost.cpu_s = time.monotonic() - began, sum(ticks.values()) / TICKS
        out.seek(0)
        output = out.read()
    if command.returncode:
        raise subprocess.CalledProcessError(command.returncode, argv, output)
    return cost, output


def _sample(root: int, cost: Cost, ticks: dict[int, int]) -> None:
    shares = {"command": 0, "jvm": 0, "workers": 0}
    for pid in _tree(root):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            name = Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            continue  # it has just ended
        ticks[pid] = int(fields[11]) + int(fields[12])
        kind = "command" if pid == root else "jvm" if name == "java" else "workers"
        shares[kind] += next((int(line.split()[1]) << 10 for line in rollup.splitlines() if line.startswith("Pss:")), 0)
    if sum(shares.values()) > cost.peak:
        cost.peak, cost.shares = sum(shares.values()), shares


def _tree(root: int) -> list[int]:
    """A process and all that came from it."""
    pids, queue = [], [root]
    while queue:
        pid = queue.pop()
        pids.append(pid)
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                queue.extend(int(child) for child in children.read_text().split())
            except OSError:
                continue  # the thread has just ended
    return pids


def measure(*, rounds: int, seconds: float, sizes: Sequence[int] = SIZES, partitions: int = 4, keep: Path | None = None) -> None:
    """`seconds` is of no use here. `keep`: where histories lie that may be used again."""
    with tempfile.TemporaryDirectory(prefix="fencepost-checker-") as temporary:
        folder = keep or Path(temporary)
        rows, met = [], dict[int, dict[str, float]]()
        for size in sizes:
            costs = [check(stored_history(folder, size, partitions)) for _ in range(rounds)]
            walls = [cost.wall_s for cost, _ in costs]
            most = max((cost for cost, _ in costs), key=lambda cost: cost.peak)
            shares = " + ".join(f"{share / 2**30:.2f}" for share in most.shares.values())
            judged = spread([check_s for _, check_s in costs], 1)
            cpu = spread([cost.cpu_s for cost, _ in costs], 1)
            rows.append((f"{size:,}", spread(walls, 1), judged, cpu, f"{most.peak / 2**30:.2f}", shares))
            met[size] = {"s": sorted(walls)[len(walls) // 2], "GiB": most.peak / 2**30}
    header = ("transactions", "command, s", "of it judging, s", "processor, s", "peak, GiB", "command + JVM + workers")
    show(f"checker: `fencepost check` of generated lawful histories, {partitions} partitions, {rounds} rounds", header, rows)
    for size in (size for size in met if size in GOALS):
        for unit, bound in GOALS[size].items():
            goal(f"{size:,} transactions within {bound} {unit}", met[size][unit] <= bound)


def stored_history(folder: Path, size: int, partitions: int) -> Path:
    """The run directory of a generated lawful history, made unless it is there."""
    path = folder / f"{size}x{partitions}"
    if not (path / "history.parquet").exists():
        write_long(path, size, partitions)
    return path


def check(path: Path) -> tuple[Cost, float]:
    """The cost of the command on a lawful history, and the time (s) that its verdict says judging took."""
    cost, output = watch([sys.executable, "-m", "fencepost", "check", str(path)])
    document = json.loads((path / "verdict.json").read_text())
    if document["verdict"] != "valid":
        raise RuntimeError(f"a lawful history was judged {document['verdict']}: {output}")
    return cost, float(document["timing"]["check_s"])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checker")
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES, help="transactions of each history")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--keep", type=Path, help="keep the histories here, and use those that are there")
    chosen = parser.parse_args()
    measure(rounds=chosen.rounds, seconds=0.0, sizes=chosen.sizes, partitions=chosen.partitions, keep=chosen.keep)


if __name__ == "__main__":
    main()
