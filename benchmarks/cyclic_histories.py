"""Jepsen histories that are hard on the search for cycles: rings and tangles of any size, as JSON lines."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

US = 1_000
PARTITIONS = 40  # of a tangle
SENDS = 2


@dataclass
class _Transaction:
    """One transaction: records as (partition, offset, value)."""

    process: int
    begin: int
    end: int
    sends: list[tuple[int, int, int]] = field(default_factory=list)
    reads: list[tuple[int, int, int]] = field(default_factory=list)


def write_ring(path: Path, operations: int, partitions: int) -> None:
    """Write operations that all run at the same time, each by a process of its own: each sends a record, and polls that of the
    one before; the first one polls that of the last.
    """
    records = [(number % partitions, number // partitions, number) for number in range(operations)]
    last = 10 * operations * US
    _write(
        path,
        (
            _Transaction(number, number * US, last + number * US, [records[number]], [records[number - 1]])
            for number in range(operations)
        ),
    )


def write_tangle(path: Path, operations: int, processes: int, seed: int = 1) -> None:
    """Write transactions of so many processes at once, each of which polls what others have just sent, decided or not.

    A process polls one partition from end to end, beginning where it is as the process begins.
    """
    rng, free = Random(seed), [number * US for number in range(processes)]
    transactions, appended = list[_Transaction](), [list[tuple[int, int, int]]() for _ in range(PARTITIONS)]
    for number in range(operations):
        process = number % processes
        begin, end = free[process], free[process] + rng.randrange(500, 1500) * US
        free[process] = end + US
        transactions.append(_Transaction(process, begin, end))
        for seq, partition in enumerate(rng.sample(range(PARTITIONS), SENDS)):
            appended[partition].append((rng.randrange(begin, end), number, number * SENDS + seq))
    for partition, log in enumerate(appended):
        log.sort()
        for offset, (_, number, value) in enumerate(log):
            transactions[number].sends.append((partition, offset, value))
    _poll(transactions, appended)
    _write(path, transactions)


def _poll(transactions: Iterable[_Transaction], appended: Sequence[Sequence[tuple[int, int, int]]]) -> None:
    positions: dict[int, int] = {}
    for some in transactions:
        partition = some.process % PARTITIONS
        log = appended[partition]
        start = positions.get(some.process, bisect_left(log, (some.begin,)))
        stop = positions[some.process] = max(start, bisect_left(log, (some.end,)))
        some.reads = [(partition, offset, log[offset][2]) for offset in range(start, stop)]


def _write(path: Path, transactions: Iterable[_Transaction]) -> None:
    lines = list[tuple[int, int, dict[str, Any]]]()
    for number, some in enumerate(transactions):
        polled: dict[str, list[list[int]]] = {}
        for partition, offset, value in some.reads:
            polled.setdefault(str(partition), []).append([offset, value])
        called = [["send", partition, value] for partition, _, value in some.sends]
        done = [["send", partition, [offset, value]] for partition, offset, value in some.sends]
        line = {"f": "txn", "process": some.process}
        lines.append((some.begin, number, line | {"type": "invoke", "time": some.begin, "value": [*called, ["poll"]]}))
        lines.append((some.end, number, line | {"type": "ok", "time": some.end, "value": [*done, ["poll", polled]]}))
    lines.sort(key=lambda line: line[:2])
    path.write_text("".join(json.dumps({**line, "index": index}) + "\n" for index, (_, _, line) in enumerate(lines)))
