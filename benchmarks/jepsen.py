"""`jepsen`: adopting a Jepsen history with the reader of plain lines (`plain_lines`) and with the general one alone (`lines`).

A generated lawful history is exported as Jepsen's checker reads it, and adopted by a fresh process for each reader, in turn. Both
must write the same operations, record names and damage. Also a program of its own: `python -m benchmarks.jepsen 1000000 --json`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.checker import Cost, stored_history, watch
from benchmarks.figures import show, spread
from fencepost.harness.api.run import RunFile
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.interop import adopt as adoption
from fencepost.harness.interop.blocks import Block
from fencepost.harness.interop.jepsen import parsed_blocks
from fencepost.harness.interop.jepsen.export import export
from fencepost.harness.interop.jepsen.parsed_blocks import ParsedBlock

SIZE = 1_000_000
BOTH, GENERAL = "both", "general alone"
READERS = (BOTH, GENERAL)
PARTITIONS = 4


def measure(*, rounds: int, seconds: float, size: int = SIZE, format: str = "jepsen-edn", keep: Path | None = None) -> None:
    """`seconds` is of no use here. `keep`: where histories lie that may be used again."""
    with tempfile.TemporaryDirectory(prefix="fencepost-jepsen-") as temporary:
        folder = keep or Path(temporary)
        text = _exported(stored_history(folder, size, PARTITIONS), format)
        megabytes = text.stat().st_size / 1e6
        costs: dict[str, list[tuple[Cost, float]]] = {reader: [] for reader in READERS}
        for number in range(rounds):
            outs = {reader: Path(temporary) / f"{number}-{reader}" for reader in READERS}
            for reader, out in outs.items():
                costs[reader].append(_adopt(text, out, reader))
            _demand_same(*outs.values())
    rows = [(reader, *_figures(costs[reader])) for reader in READERS]
    title = f"jepsen: {size:,} transactions as {format} ({megabytes:.0f} MB), {rounds} rounds, the same rows"
    show(title, ("reader of lines", "adoption, s", "processor, s", "peak, GiB"), rows)
    ours, theirs = (min(wall for _, wall in costs[reader]) for reader in READERS)
    print(f"\n{BOTH}: {ours / theirs:.2f} of the time of {GENERAL}")


def _figures(costs: Sequence[tuple[Cost, float]]) -> tuple[str, ...]:
    peak = max(cost.peak for cost, _ in costs) / 2**30
    return spread([wall for _, wall in costs]), spread([cost.cpu_s for cost, _ in costs]), f"{peak:.2f}"


def _exported(run_dir: Path, format: str) -> Path:
    path = run_dir / f"history.{format.removeprefix('jepsen-')}"
    if not path.exists():
        export(open_run(run_dir), format, path)
    return path


def _adopt(text: Path, out: Path, reader: str) -> tuple[Cost, float]:
    """Adopt in a process of its own; what it cost, and the seconds of `adopt` alone."""
    cost, output = watch([sys.executable, "-m", "benchmarks.jepsen", "--adopt", str(text), "--out", str(out), "--reader", reader])
    return cost, float(output.split()[-1])


def _demand_same(some: Path, others: Path) -> None:
    """Raise RuntimeError unless two adopted runs hold the same."""
    for name in (RunFile.HISTORY, RunFile.VALUES):
        if not pq.read_table(some / name).equals(pq.read_table(others / name)):
            raise RuntimeError(f"the readers differ in {name}")
    if json.loads((some / RunFile.DAMAGE).read_text()) != json.loads((others / RunFile.DAMAGE).read_text()):
        raise RuntimeError(f"the readers differ in {RunFile.DAMAGE}")


def parse_generally(block: Block, language: str, file: str, spill: Path) -> ParsedBlock:
    """`parse_block` without the reader of plain lines; by its name, so that spawned processes can be sent it."""
    parsed_blocks.plain_lines = lambda text, lines, language: None
    return parsed_blocks.parse_block(block, language, file, spill)


def _adopt_here(text: Path, out: Path, reader: str) -> None:
    out.mkdir(parents=True)
    if reader == GENERAL:
        adoption.parse_block = parse_generally  # type: ignore[attr-defined]
    began = time.monotonic()
    adoption.adopt(text, out)
    print(time.monotonic() - began)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jepsen")
    parser.add_argument("size", nargs="?", type=int, default=SIZE, help="transactions of the history")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="export as JSON instead of EDN")
    parser.add_argument("--keep", type=Path, help="keep the histories here, and use those that are there")
    parser.add_argument("--adopt", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--reader", choices=READERS, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.adopt:
        _adopt_here(chosen.adopt, chosen.out, chosen.reader)
    else:
        format = "jepsen-json" if chosen.json else "jepsen-edn"
        measure(rounds=chosen.rounds, seconds=0.0, size=chosen.size, format=format, keep=chosen.keep)


if __name__ == "__main__":
    main()
