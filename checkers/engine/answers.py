"""What is asked of a partition, and what leaves the worker that judged it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.checkers.api import Check
from fencepost.checkers.history.source import message
from fencepost.checkers.model.arrays import Ints, distinct
from fencepost.checkers.model.failures import RAISED, described
from fencepost.checkers.model.freed_memory import release_freed_memory
from fencepost.checkers.model.results import ROW_NUMBERS, CheckResult
from fencepost.checkers.model.threads import results as in_threads
from fencepost.checkers.model.values import FinalRead, LoggedDecisions, Resets, Settings
from fencepost.checkers.views import several_records
from fencepost.checkers.views.gathering import ExecutorMessage, Gatherer, gather_messages
from fencepost.checkers.views.log import PartitionLog
from fencepost.checkers.views.unseen import unseen_at

FEW_ROWS = 1000  # of a check in a partition, up to which a message of Arrow's costs more than it saves


@dataclass(frozen=True)
class Counts:
    """Micro-operations over all partitions."""

    sent: int = 0
    read: int = 0
    final_read: int = 0
    partitions: int = 0


@dataclass(frozen=True, slots=True)
class PackedResult:
    """A check's result for one partition (`CheckResult`), or its error.

    rows: arrays by column, or, of many rows, an Arrow message; empty for none. Of a joined log they name their `partition`.
    several: operations with records (`CheckResult.several`).
    """

    compared: int = 0
    lacking: str = ""
    more: int = 0
    error: str = ""
    rows: Mapping[str, Any] | bytes = b""
    several: several_records.RecordCounts | None = None


@dataclass(frozen=True)
class PartitionResult:
    """Results that leave the worker which judged a partition.

    results: by check.
    counts: its sends and reads.
    unsent: identities that nobody sent to it.
    unseen: records at each of the moments.
    to_driver: what run checks gathered for the driver.
    gather_error: what a gatherer raised.
    written_late: its final read does not count.
    others: partitions whose results these are as well (`checkers.views.joined_logs`).
    """

    partition: str
    results: dict[str, PackedResult]
    counts: Counts
    unsent: Ints
    unseen: Ints
    to_driver: list[tuple[str, bytes]] = field(default_factory=list)
    gather_error: str = ""
    written_late: bool = False
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Questions:
    """Everything that is asked of each partition, and what has to be known of the run for it."""

    checks: tuple[Check[PartitionLog], ...]
    finals: Mapping[str, FinalRead]
    settings: Settings
    resets: Resets
    moments: Ints
    gatherers: tuple[Gatherer, ...]
    decisions: LoggedDecisions = field(default_factory=LoggedDecisions)

    def final(self, partition: str) -> FinalRead:
        """The final read of a partition."""
        return self.finals.get(partition, FinalRead())

    def answers(
        self, log: PartitionLog, threads: int = 1, folder: Path | None = None, releasing: int = 0
    ) -> Iterator[PartitionResult | ExecutorMessage]:
        """Run every check and gatherer on a partition.

        folder: for messages that stay on the executors. releasing: after so many questions the kernel gets freed memory back.
        """
        late = log.written_late
        log = replace(log, final=FinalRead()) if late else log
        asked: list[Callable[[], Any]] = [partial(gather_messages, self.gatherers, log, folder)]
        asked += [partial(unseen_at, log, self.moments), *questions_of(self.checks, log)]
        asked[:releasing] = [partial(_released, question) for question in asked[:releasing]]
        gathered, unseen, *answers = in_threads(asked, threads)
        by_name = {name: result for some in answers for name, result in some.items()}
        results = {check.name: by_name[check.name] for check in self.checks}
        unsent = distinct(log.reads.unsent_v)
        counts = counted(log)
        yield PartitionResult(log.partition, results, counts, unsent, unseen, gathered.to_driver, gathered.error, late)
        yield from gathered.on_executors


def questions_of(checks: Sequence[Check[PartitionLog]], log: PartitionLog) -> list[Callable[[], dict[str, PackedResult]]]:
    """The checks of a partition, those of the largest module first.

    Checks of one module share most of what they compute, so one thread runs them.
    """
    modules: dict[str, list[Check[PartitionLog]]] = {}
    for check in checks:
        modules.setdefault(check.function.__module__, []).append(check)
    return [partial(_results, group, log) for group in sorted(modules.values(), key=len, reverse=True)]


def _released(question: Callable[[], Any]) -> Any:
    """An answer, after which the kernel has back what was needed for it."""
    answer = question()
    release_freed_memory()
    return answer


def _results(checks: Sequence[Check[PartitionLog]], log: PartitionLog) -> dict[str, PackedResult]:
    """The results of some checks, one after the other."""
    return {check.name: check_result(check, log) for check in checks}


def check_result(check: Check[PartitionLog], log: PartitionLog) -> PackedResult:
    """One check's result for one partition. What it raises becomes the result's error."""
    try:
        result = check(log)
        several = several_records.record_counts(result.several)
        return PackedResult(result.compared, result.lacking, result.more, result.unknown, packed_rows(result), several)
    except RAISED as error:  # a check that fails is unknown and takes no other answer with it
        return PackedResult(error=described(error, check.function))


def packed_rows(result: CheckResult, as_message: bool = True) -> Mapping[str, Any] | bytes:
    """The rows as `PackedResult` holds them; a check may give one value for a whole column. as_message: where there are many."""
    count = result.count
    if not count:
        return b""
    columns = {name: _column(result.rows[name], count) for name in (*ROW_NUMBERS, "role")}
    if count < FEW_ROWS or not as_message:
        numbers = {name: np.array(columns[name], dtype=np.int64) for name in ROW_NUMBERS}
        return {**numbers, "role": np.array(columns["role"], dtype=object)}
    arrays = {name: pa.array(columns[name], pa.int64()) for name in ROW_NUMBERS}
    return message(pa.RecordBatch.from_pydict({**arrays, "role": pa.array(columns["role"], pa.string()).dictionary_encode()}))


def _column(values: Any, count: int) -> Any:
    return values if np.shape(values) else np.broadcast_to(values, count)


def counted(log: PartitionLog) -> Counts:
    final = int(log.reads.final.sum())
    return Counts(len(log.sends), len(log.reads) - final, final, 1)
