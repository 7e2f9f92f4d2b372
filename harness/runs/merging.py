"""A run's history, merged when it is needed and not before: by a check, an export, a self-check."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from fencepost.harness.api.history import OPERATIONS, RECEIPTS
from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.history.roster import present
from fencepost.harness.history.run_directory import open_run, read_verdict, write_damage
from fencepost.harness.system import liveness

MERGE_LOCK = ".merge.lock"


def merged(run: Run, announce: Callable[[], None] = lambda: None) -> Run:
    """The run with its history merged; `announce` is called before that takes time.

    What was merged before is merged again when the lines are newer, or when any of what merging writes is missing or cannot be
    read. One process merges at a time; another that wants to waits, and finds it done. Raises HistoryError: there is nothing to
    merge.
    """
    if run.is_remote:
        return run
    run.demand_readable(RunFile.LINES)
    if _is_merged(run):
        return run
    announce()
    with _alone(run.directory):
        now = open_run(run.directory)
        if not _is_merged(now):
            _merge(now)
    again = open_run(run.directory)
    return read_verdict(again.with_judgement(run.judgement)) if run.judgement else again


def _merge(run: Run) -> None:
    from fencepost.harness.history import merge
    from fencepost.harness.interop.wire.merging import add_wire, wants_wire

    gaps = merge.merge(run)
    if wants_wire(run):
        write_damage(run.directory, [*gaps, *add_wire(run)], [file.name for file in present(run)], run.plan.get("run", ""))


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """While nobody else merges this run; where there are no locks, each file is still replaced as a whole."""
    with ExitStack() as stack:
        with suppress(OSError):
            stack.enter_context(liveness.alone(directory, MERGE_LOCK))
        yield


def _is_merged(run: Run) -> bool:
    """Return whether all that merging writes is there, and is of every file of lines as it is now (or there are none at all).

    What was lost after merging is in it all the same.
    """
    names = [file.name for file in present(run)]
    lines = [run.path(RunFile.LINES) / name for name in names]
    if not lines:
        return os.path.lexists(run.path(RunFile.HISTORY))
    noted = RunFile.DAMAGE not in run.problems and run.merged is not None and set(names) <= set(run.merged)
    whole = noted and not any(
        run.table_problem(file, columns) for file, columns in ((RunFile.HISTORY, OPERATIONS), (RunFile.RECEIPTS, RECEIPTS))
    )
    return whole and all(path.lstat().st_mtime <= run.path(RunFile.HISTORY).lstat().st_mtime for path in lines)
