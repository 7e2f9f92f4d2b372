"""`shapes`: the cost of histories of unusual shapes beside a plain one with as many records, of the cold `fencepost check`.

Each round judges the plain one first, then the others, and their ratios are taken round by round. Also a program of its own:
`python -m benchmarks.shapes --records 1000000 --keep DIRECTORY`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from benchmarks.checker import Cost, check
from benchmarks.figures import goal, ratios, show, spread
from fencepost.checkers.model.lawful_history import write_lawful

RECORDS = 1_000_000  # sent; each is read three times
PLAIN = {"partitions": 4, "processes": 16, "sends": 4}
SHAPES = {
    "plain": PLAIN,
    "2,000 partitions": {**PLAIN, "partitions": 2_000},
    "one partition": {**PLAIN, "partitions": 1},
    "20,000 processes": {**PLAIN, "processes": 20_000},
    "transactions of 100 records": {**PLAIN, "sends": 100},
}
AT_MOST = 1.5


def measure(*, rounds: int, seconds: float, records: int = RECORDS, keep: Path | None = None) -> None:
    """`seconds` is of no use here. `keep`: where histories lie that may be used again."""
    with tempfile.TemporaryDirectory(prefix="fencepost-shapes-") as temporary:
        paths = {name: _history(keep or Path(temporary), records, **shape) for name, shape in SHAPES.items()}
        costs: dict[str, list[Cost]] = {name: [] for name in SHAPES}
        for _ in range(rounds):
            for name, path in paths.items():
                costs[name].append(check(path)[0])
    _report(costs, records, rounds)


def _history(folder: Path, records: int, partitions: int, processes: int, sends: int) -> Path:
    path = folder / f"{records}-{partitions}-{processes}-{sends}"
    if not (path / "history.parquet").exists():
        write_lawful(path, transactions=records // sends, partitions=partitions, processes=processes, sends=sends)
    return path


def _report(costs: Mapping[str, list[Cost]], records: int, rounds: int) -> None:
    walls, cpus = ({name: [getattr(cost, of) for cost in some] for name, some in costs.items()} for of in ("wall_s", "cpu_s"))
    wall_ratios, cpu_ratios = ({name: ratios(some, by["plain"]) for name, some in by.items()} for by in (walls, cpus))
    rows = [
        (
            name,
            spread(walls[name]),
            spread(wall_ratios[name], 2),
            spread(cpus[name]),
            spread(cpu_ratios[name], 2),
            f"{max(cost.peak for cost in some) / 2**30:.2f}",
        )
        for name, some in costs.items()
    ]
    header = ("shape", "command, s", "of the plain one", "processor, s", "of the plain one", "peak, GiB")
    show(f"shapes: `fencepost check` of {records:,} sent records, {rounds} rounds, taking turns", header, rows)
    for name in list(costs)[1:]:
        goal(
            f"{name}: within {AT_MOST} times the plain cost: {median(wall_ratios[name]):.2f}",
            median(wall_ratios[name]) <= AT_MOST,
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shapes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=RECORDS, help="sent in each history")
    parser.add_argument("--keep", type=Path, help="keep the histories here, and use those that are there")
    chosen = parser.parse_args()
    measure(rounds=chosen.rounds, seconds=0.0, records=chosen.records, keep=chosen.keep)


if __name__ == "__main__":
    main()
