"""A run's history, merged when it is needed and not before: by a check, an export, a self-check."""

from __future__ import annotations

import os
from collections.abc import Callable

from harness.api import Run, RunFile
from harness.api.history import OPERATIONS, RECEIPTS
from harness.api.run import table_problem
from harness.history import merge
from harness.runs.directory import open_run


def merged(run: Run, announce: Callable[[], None] = lambda: None) -> Run:
    """The run with its history merged; `announce` is called before that takes time.

    What was merged before is merged again when the lines are newer, or when any of what merging writes is missing or cannot be
    read. Raises HistoryError: there is nothing to merge.
    """
    if run.is_remote or _is_merged(run):
        return run
    announce()
    merge.merge(run)
    return open_run(run.directory)


def _is_merged(run: Run) -> bool:
    """Whether all that merging writes is there and not older than any of the lines (or there are no lines at all)."""
    folder = run.path(RunFile.LINES)
    lines = [
        path for name in (*(file.name for file in run.roster), RunFile.FAULT_LINES) if os.path.lexists(path := folder / name)
    ]
    if not lines:
        return os.path.lexists(run.path(RunFile.HISTORY))
    whole = RunFile.DAMAGE not in run.problems and not any(
        table_problem(run.path(file), columns) for file, columns in ((RunFile.HISTORY, OPERATIONS), (RunFile.RECEIPTS, RECEIPTS))
    )
    return whole and all(path.lstat().st_mtime <= run.path(RunFile.HISTORY).stat().st_mtime for path in lines)
