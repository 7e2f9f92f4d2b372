"""Every check's result for a run: the one job for the partitions, second steps, then the checks of the whole run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from fencepost.checkers.api import Check
from fencepost.checkers.contract.reading import settings
from fencepost.checkers.engine.job import CombinedResult, JobResult, run_partition_checks
from fencepost.checkers.history.positions import positions
from fencepost.checkers.history.source import last_cause
from fencepost.checkers.model.failures import RAISED, described
from fencepost.checkers.model.freed_memory import release_freed_memory
from fencepost.checkers.model.results import NO_ROWS, ROW_COLUMNS, ROW_NUMBERS, CheckResult, Rows, count_rows, frame_of, rows_of
from fencepost.checkers.views.gathering import GatheredMessages, Gatherer, PartitionMessages
from fencepost.checkers.views.log import PartitionLog
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.unseen import moments
from fencepost.harness.api.evidence import Evidence


def run_checks(run: RunView, checks: Sequence[Check[Any]]) -> JobResult:
    """Every check's result. A check that fails has an error as its result, and takes no other result with it.

    The partition checks run in one job, which also gathers what the run checks need of every partition. Then follow, in the
    driver, the second steps of partition checks over their few rows, and the run checks.
    """
    overview = run.overview
    of_partitions = [check for check in checks if check.scope == "partition"]
    with _messages(run, _gatherers(checks, run)):
        job = _partition_job(run, of_partitions)
        run.unsent = job.unsent
        for partition in job.written_late:
            overview.final_reads.pop(partition, None)
        for check in of_partitions:
            job.results[check.name] = _second_step(check, job.results[check.name], run)
        for check in checks:
            if check.scope == "run":
                job.results[check.name] = _run_check(check, run)
    run.look_up_records(result.rows for result in job.results.values())
    return job


@contextmanager
def gathering(run: RunView, gatherers: Sequence[Gatherer]) -> Iterator[RunView]:
    """The run while it has the messages of some gathering functions, without any check."""
    with _messages(run, gatherers):
        run.unsent = _partition_job(run, []).unsent
        yield run


@contextmanager
def _messages(run: RunView, gatherers: Sequence[Gatherer]) -> Iterator[None]:
    """While the run holds the messages of its partitions, once these are judged."""
    run.gathered = GatheredMessages(gatherers, short=run.short)
    try:
        yield
    finally:
        run.gathered.release()
        if run.ahead is not None:
            run.ahead.drop()


def _partition_job(run: RunView, checks: Sequence[Check[Any]]) -> JobResult:
    """The results of partition checks; when the job fails, that as the error of all."""
    overview = run.overview
    try:
        at = positions(overview, run.history, run.contract, incomplete=Evidence.POLLS in run.missing)
        times = moments(overview)
        overview.arrays.drop_pages()
        if not run.here:  # workers need the memory meanwhile
            release_freed_memory()
        return run_partition_checks(
            lambda: run.spark,
            run.history,
            checks,
            overview.final_reads,
            settings(run.contract),
            at,
            times,
            run.gathered,
            run.here,
            run.decisions,
            run.ahead,
        )
    except Exception as error:  # noqa: BLE001 - memory gave out, an executor was lost: every result is unknown
        job = "job over the partitions" if run.here else "Spark job"
        reason = f"the {job} did not finish ({type(error).__name__}: {last_cause(error)})"
        run.gathered.error = reason  # run checks are unknown too; without it they would find no messages and compare nothing
        return JobResult({check.name: CombinedResult(error=reason) for check in checks})


def _gatherers(checks: Sequence[Check[Any]], run: RunView) -> list[Gatherer]:
    """The distinct gathering functions of some checks, each with what it has to know of the whole run."""
    distinct = {check.gather: check.brief for check in checks if check.gather is not None}
    return [gather if brief is None else _briefed(gather, brief, run) for gather, brief in distinct.items()]


def _briefed(gather: Callable[..., PartitionMessages], brief: Callable[[RunView], Any], run: RunView) -> Gatherer:
    """A gathering function with what it has to know. Where that cannot be had, its error: checks that need it are unknown."""
    try:
        return partial(gather, brief=brief(run))
    except RAISED as error:  # a check that fails is unknown and takes no other result with it
        return partial(_unbriefed, described(error, brief))


def _unbriefed(reason: str, log: PartitionLog) -> PartitionMessages:
    raise RuntimeError(reason)


def _second_step(check: Check[Any], result: CombinedResult, run: RunView) -> CombinedResult:
    """The result of a partition check after its `sift` and its `resolve`."""
    step: Callable[..., Any] | None = check.sift
    try:
        if check.sift is not None and count_rows(result.rows):
            sifted = check.sift(result.rows, run)
            _add(result, sifted.rows, sifted.compared, sifted.unread)
        step = check.resolve
        if check.resolve is not None and count_rows(result.rows):
            frame = check.resolve(frame_of(result.rows), run)
            _add(result, rows_of(frame), frame.attrs.get("compared", 0), frame.attrs.get("unread", 0))
    except RAISED as error:  # a check that fails is unknown and takes no other result with it
        return CombinedResult(compared=result.compared, error=described(error, step))
    return result


def _add(result: CombinedResult, rows: Rows, compared: int, unread: int) -> None:
    result.rows = rows
    result.compared += int(compared)
    result.unread += int(unread)


def _run_check(check: Check[Any], run: RunView) -> CombinedResult:
    """The result of a check of the whole run."""
    try:
        result: CheckResult = check(run) if check.options else run.shared(check.function)  # some checks count another's findings
        return CombinedResult(
            _whole(result.rows), result.compared, result.lacking, result.unknown, table=result.table, bound=result.bound
        )
    except RAISED as error:  # a check that fails is unknown and takes no other result with it
        return CombinedResult(error=described(error, check.function))


def _whole(rows: dict[str, Any]) -> Rows:
    """Rows with every column as an array, and no other column."""
    if not count_rows(rows):
        return NO_ROWS
    count = len(rows["op"])
    numbers = {name: np.array(np.broadcast_to(rows[name], count), dtype=np.int64) for name in ROW_NUMBERS}
    texts = {
        name: np.array(np.broadcast_to(np.asarray(rows.get(name, ""), dtype=object), count)) for name in ("partition", "role")
    }
    return {name: {**numbers, **texts}[name] for name in ROW_COLUMNS}
